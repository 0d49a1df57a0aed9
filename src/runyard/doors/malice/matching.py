"""A log's line beside the one that the rules give: which belong together, and how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from runyard.doors.malice.dataset import Logged
from runyard.doors.malice.lines import Details
from runyard.doors.malice.state import Reason

ROUNDED = frozenset({"user_reputation", "new_reputation", "voter_reputation", "reputation"})
"""Fields that some logs keep to two decimals."""

NOT_COMPARED = frozenset({"run_id", "author", "blocked_reasons", "time_since_promotion"})

REASONS = {
    "duplicate": Reason.DUPLICATE,
    "demoted this ticket": Reason.DEMOTED_NOW,
    "voter is demoted": Reason.VOTER_DEMOTED,
    "already binder": Reason.ALREADY_BINDER,
    "user is demoted": Reason.TARGET_DEMOTED,
} | {str(reason): reason for reason in Reason}
"""What a reason means, by words that occur in it."""

_KEYS = ("voter", "target", "username", "agent", "status_change")
_MISSING = object()


class Mismatch(NamedTuple):
    """A field that is not what it should be; without a name, the whole line."""

    field: str
    logged: Any
    computed: Any


def aligned(
    expected: Sequence[Details], logged: Sequence[Logged]
) -> Iterator[tuple[Details | None, Logged | None]]:
    """Lines that belong together; beside one that is missing, or too many, stands None."""
    mine = [(each.kind, getattr(each, "symbol_type", None)) for each in expected]
    theirs = [(each.kind, each.details.get("symbol_type")) for each in logged]
    if mine == theirs:
        yield from zip(expected, logged, strict=True)
        return
    for kind, a, b, c, d in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(expected[a:b], logged[c:d], strict=True)
        else:
            yield from ((line, None) for line in expected[a:b])
            yield from ((None, each) for each in logged[c:d])


def key_of(kind: str, details: Mapping[str, Any]) -> tuple[str, ...]:
    """What a line is about, where its kind occurs once for that in a run."""
    return (kind, *(str(details[name]) for name in _KEYS if name in details))


def unequal(
    computed: Details, logged: Mapping[str, Any], allowed: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Mismatch]:
    """Fields that both have and that differ; `allowed` are values that some may have as well."""
    return _unequal(msgspec.to_builtins(computed), logged, allowed, "")


def _unequal(
    computed: Mapping[str, Any], logged: Mapping[str, Any], allowed: Mapping[str, Any], path: str
) -> Iterator[Mismatch]:
    for name, value in computed.items():
        told = logged.get(name, _MISSING)
        if told is _MISSING or name in NOT_COMPARED:
            continue
        place = f"{path}{name}"
        if isinstance(value, Mapping) and isinstance(told, Mapping):
            yield from _unequal(value, told, allowed, f"{place}.")
        elif name == "reason":
            if _reason(told) != value:
                yield Mismatch(place, told, value)
        elif not _same(name, value, told) and told != allowed.get(name, _MISSING):
            yield Mismatch(place, told, value)


def _same(name: str, computed: Any, logged: Any) -> bool:
    if isinstance(computed, bool) or isinstance(logged, bool):
        return computed is logged
    if isinstance(computed, str) and isinstance(logged, str):
        return computed.strip() == logged.strip()
    if computed == logged:
        return True
    return (
        name in ROUNDED
        and isinstance(logged, int | float)
        and isinstance(computed, int | float)
        and logged == round(computed, 2)
    )


def _reason(text: Any) -> Reason | None:
    words = str(text).lower()
    return next((reason for part, reason in REASONS.items() if part.lower() in words), None)
