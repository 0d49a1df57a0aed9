"""How every cell of a batch is run."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from runyard.errors import BadSpec

Checkpoints = Literal["off", "tape", "durable"]
Breakpoints = Literal["stop", "ignore"]
CacheUse = Literal["off", "per-variant"]
SharePrefix = bool | Literal["across-repetitions"]

RECURSION_LIMIT = 100
"""The most steps of a run; LangGraph's own limit is 10,007."""


class CellSettings(msgspec.Struct, frozen=True):
    """What applies to all cells of a batch. Part of the batch's identity."""

    checkpoints: Checkpoints = "tape"
    breakpoints: Breakpoints = "stop"
    cache: CacheUse = "off"
    strict: bool = True  # whether what LangGraph drops silently fails the cell
    recursion_limit: int = RECURSION_LIMIT
    share_prefix: SharePrefix = False

    def __post_init__(self) -> None:
        choices: dict[str, tuple[Any, ...]] = {
            "checkpoints": get_args(Checkpoints),
            "breakpoints": get_args(Breakpoints),
            "cache": get_args(CacheUse),
            "strict": (True, False),
            "share_prefix": (True, False, "across-repetitions"),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed or type(value) not in (str, bool):
                raise BadSpec(
                    f"{name} is {value!r}", hint=f"use one of: {', '.join(map(repr, allowed))}"
                )
        if type(self.recursion_limit) is not int or self.recursion_limit < 1:
            raise BadSpec(
                f"recursion_limit is {self.recursion_limit!r}", hint="use a whole number from 1 up"
            )

    def to_data(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        usual = CellSettings()
        given = msgspec.structs.asdict(self)
        return {name: value for name, value in given.items() if value != getattr(usual, name)}
