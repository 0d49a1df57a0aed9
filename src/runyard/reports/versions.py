"""Outcomes of one batch that were made by different versions of its code."""

from __future__ import annotations

import time

from runyard.store.versions import MixedCode


def mixed_lines(found: MixedCode) -> list[str]:
    """Mixed code in words, one line per function."""
    lines = []
    for name, versions in found.items():
        parts = [
            f"{v.outcomes:,} by {v.fingerprint[:8]} (since {_moment(v.since)})" for v in versions
        ]
        lines.append(f"mixed code: {name} has changed between outcomes; {', '.join(parts)}")
    return lines


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
