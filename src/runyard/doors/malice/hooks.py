"""What this door adds to its batches."""

from __future__ import annotations

from runyard.doors.malice.batch.runs import collect

__all__ = ["collect", "register_sections"]


def register_sections() -> None:
    """Add the section of this experiment to HTML reports."""
    import runyard.doors.malice.report.section  # noqa: F401  registers itself
