"""What this door adds to its batches."""

from __future__ import annotations


def register_sections() -> None:
    """Add the sections of this game to HTML reports."""
    import runyard.doors.letitride.report.section  # noqa: F401  registers itself
