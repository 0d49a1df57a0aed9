"""TOML, with one kind of error for any text that can't be read."""

from __future__ import annotations

import tomllib
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The table in a TOML text; ValueError if it can't be read."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
