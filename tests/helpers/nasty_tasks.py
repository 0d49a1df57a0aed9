"""Tasks that bring values which are hard to record."""

from __future__ import annotations

from typing import Any

from nasty import KEPT, REFUSED

from runyard import Context
from runyard.errors import TaskError


def brings(ctx: Context, odd: str, fails: bool = False) -> Any:
    """Emits a value, and returns it or fails with it."""
    value = {**KEPT, **REFUSED}[odd]
    ctx.emit("brought", value=value)
    if fails:
        raise TaskError("what it brought", value=value)
    return value


def returns(odd: str, fails: bool = False) -> Any:
    """The same without telling of it."""
    if fails:
        raise TaskError("what it brought", value=REFUSED[odd])
    return REFUSED[odd]


def takes(x: Any) -> Any:
    """Gives its parameter back."""
    return [x]
