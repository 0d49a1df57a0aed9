"""Matches lines of a log with those that the rules give, and finds differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from runyard.doors.malice.logs.dataset import Logged
from runyard.doors.malice.logs.lines import Details
from runyard.doors.malice.logs.transcript import status_change
from runyard.doors.malice.society.state import Reason, UserStatus

ROUNDED = frozenset({"user_reputation", "new_reputation"})
"""Fields that some logs round to two decimals."""

NOT_COMPARED = "blocked_reasons"  # the wording varies

FOR_GOOD = status_change(UserStatus.REGULAR, UserStatus.DEMOTED)
"""The only change of status without a metric in the published logs."""

REASONS = {
    "duplicate": Reason.DUPLICATE,
    "demoted this ticket": Reason.DEMOTED_NOW,
    "voter is demoted": Reason.VOTER_DEMOTED,
    "already binder": Reason.ALREADY_BINDER,
    "user is demoted": Reason.TARGET_DEMOTED,
} | {str(reason): reason for reason in Reason}
"""Reasons by words that occur in a log's reason."""

Key = Callable[[str, Mapping[str, Any]], tuple[Any, ...]]
_KEYS = ("symbol_content", "voter", "target", "username", "agent", "status_change")
_MISSING = object()


class Mismatch(NamedTuple):
    """A field with an unexpected value; without a field name, a line that is missing (logged is
    None) or unexpected (computed is None).
    """

    field: str
    logged: Any
    computed: Any


def aligned(
    expected: Sequence[Details], logged: Sequence[Logged], key: Key
) -> Iterator[tuple[Details | None, Logged | None]]:
    """Pair lines by key; a missing or unexpected line is paired with None."""
    mine = [key(each.kind, structs.asdict(each)) for each in expected]
    theirs = [key(each.kind, each.details) for each in logged]
    if mine == theirs:
        yield from zip(expected, logged, strict=True)
        return
    for kind, a, b, c, d in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(expected[a:b], logged[c:d], strict=True)
        else:
            yield from ((line, None) for line in expected[a:b])
            yield from ((None, each) for each in logged[c:d])


def sort_of(kind: str, details: Mapping[str, Any]) -> tuple[str, Any]:
    """The sort of a line: its event type, and what distinguishes sorts of the same type."""
    if details.get("status_change") == FOR_GOOD:
        return kind, FOR_GOOD
    return kind, details.get("symbol_type")


def subject_of(kind: str, details: Mapping[str, Any]) -> tuple[Any, ...]:
    """The subject of a line."""
    return (kind, *(str(details[name]) for name in _KEYS if name in details))


def unequal(
    computed: Details, logged: Mapping[str, Any], allowed: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Mismatch]:
    """Fields of both that differ; `allowed` has other accepted values by field."""
    fields = msgspec.to_builtins(computed)
    if "context" in fields:  # may repeat the ticket and the author
        where = {name: fields[name] for name in ("ticket", "author") if name in fields}
        fields["context"] = where | fields["context"]
    return _unequal(fields, logged, allowed, "")


def _unequal(
    computed: Mapping[str, Any], logged: Mapping[str, Any], allowed: Mapping[str, Any], path: str
) -> Iterator[Mismatch]:
    for name, value in computed.items():
        told = logged.get(name, _MISSING)
        if told is _MISSING or name == NOT_COMPARED:
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
