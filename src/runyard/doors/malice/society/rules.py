"""The numbers in the rules; an experiment can change each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from runyard.errors import BadSpec


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Thresholds and weights of the vote."""

    promote_at: float = 5  # votes that make a regular user a BINDER
    demote_at: float = -3  # the reputation at which a status is lost
    penalty: float = 0.6  # reputation that each blocked gate costs
    self_weight: float = 0.2  # of a user's vote for itself
    binder_weight: float = 1.5  # of a BINDER's vote for another user
    demote_cost: float = 2.0  # reputation lost by a vote against a user, per weight
    fading_below: float = -2.0  # votes on users with less reputation count for less
    fading: float = 0.08  # reduction for each point below
    fading_floor: float = 0.1  # the smallest share that is left
    bind_cooldown: int = 10  # tickets between two BINDs of one user

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadSpec(f"the rule {name} is {value!r}", hint="use a number")
            if name == "bind_cooldown" and value % 1:
                raise BadSpec(f"the rule {name} is {value!r}", hint="tickets are whole numbers")
            if not math.isfinite(value):
                raise BadSpec(f"the rule {name} is {value!r}", hint="use a finite number")

    @classmethod
    def of(cls, changes: Mapping[str, Any]) -> Rules:
        """The published rules with some numbers changed."""
        unknown = changes.keys() - set(cls.__struct_fields__)
        if unknown:
            raise BadSpec(
                f"unknown rule {min(unknown)!r}",
                hint=f"the rules are: {', '.join(cls.__struct_fields__)}",
            )
        return cls(**changes)
