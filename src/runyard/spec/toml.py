"""TOML as people write it, and as those write it who look for what breaks."""

from __future__ import annotations

import tomllib
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """What a TOML text says; a ValueError for whatever can't be read."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
