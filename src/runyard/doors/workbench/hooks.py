"""What this door adds to its batches."""

from __future__ import annotations


def register_sections() -> None:
    """Add the section of a bench to HTML reports."""
    import runyard.doors.workbench.report.section  # noqa: F401  registers itself
