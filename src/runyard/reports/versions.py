"""Outcomes of one batch that were made by different versions of its code."""

from __future__ import annotations

from runyard.format import count, moment
from runyard.store.versions import MixedCode


def mixed_lines(found: MixedCode) -> list[str]:
    """Mixed code in words, one line per function."""
    lines = []
    for name, versions in found.items():
        parts = [
            f"{count(v.outcomes, 'outcome')} from {v.fingerprint[:8]} (since {moment(v.since)})"
            for v in versions
        ]
        lines.append(f"mixed code: {len(versions)} versions of {name}: {', '.join(parts)}")
    return lines
