"""What models cost: dollars per million tokens, from a table that users can edit."""

from __future__ import annotations


class Prices:
    """A price table."""
