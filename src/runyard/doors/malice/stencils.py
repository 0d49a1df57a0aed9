"""Lines that are written over and over, encoded once: afterwards only what varies is put in.

Encoding each of the few hundred lines of a run anew takes about as long as the run itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from runyard.doors.malice.formats import Format, Place
from runyard.doors.malice.gates import Decision
from runyard.doors.malice.lines import Details, Line
from runyard.doors.malice.rules import Rules
from runyard.doors.malice.state import Reason, Status, User, VoteCounted, VoteIgnored
from runyard.doors.malice.symbols import Vote

KEPT = 8192

# What varies, as characters that stand for nothing in any text; see `_stencil` for those that do.
_BLANKS: Final[dict[str, Any]] = {
    "stamp": "\ue000",
    "run": "\ue001",
    "ticket": "\ue002",
    "number": "\ue003",
    "reputation": "\ue004",
    "weight": "\ue005",
    "old": "\ue006",
    "new": "\ue007",
    "before": "\ue008",
}
_QUOTED = frozenset({"stamp", "ticket"})
_encode_lines = msgspec.json.Encoder().encode_lines


class _Blank(Format):
    """Lines that belong to no run and no ticket yet."""

    def place(self, ticket: int, author: str) -> Place:  # noqa: ARG002
        return _BLANKS["run"], author, _BLANKS["ticket"]

    def number(self, ticket: int) -> Any:  # noqa: ARG002
        return _BLANKS["number"]

    def before(self, ticket: int) -> Any:  # noqa: ARG002
        return _BLANKS["before"]


def encoded(stamp: str, details: Iterable[Details]) -> bytes:
    """Lines as they stand in a log."""
    return _encode_lines([Line(stamp, each.kind, each) for each in details])


class Varying:
    """What varies between the lines of two tickets."""

    def __init__(self, stamp: str, run: int, number: int, ticket: int) -> None:
        told = str(number).encode()
        self.parts = {
            b"stamp": stamp.encode(),
            b"run": str(run).encode(),
            b"ticket": b"#" + told,
            b"number": told,
            b"before": str(ticket - 1).encode(),
        }

    def of(self, event: VoteIgnored | VoteCounted) -> dict[bytes, bytes]:
        """With what varies between two events."""
        parts = self.parts
        parts[b"reputation"] = repr(event.reputation).encode()
        if isinstance(event, VoteCounted):
            parts[b"weight"] = repr(event.weight).encode()
            parts[b"old"] = repr(event.old).encode()
            parts[b"new"] = repr(event.new).encode()
        return parts


class Stencils:
    """Lines of an experiment with these rules, but for what varies; None where they can't be kept.

    Each takes what stays the same in a line and is kept by it.
    """

    def __init__(self, rules: Rules) -> None:
        self._form = _Blank(0, 0, rules)
        self.message = lru_cache(KEPT)(self._message)
        self.decision = lru_cache(KEPT)(self._decision)
        self.ignored = lru_cache(KEPT)(self._ignored)
        self.counted = lru_cache(KEPT)(self._counted)

    @classmethod
    def of(cls, rules: Rules) -> Stencils:
        """Those of these rules, made once; 5 and 5.0 are written differently."""
        return _stencils(*msgspec.structs.astuple(rules))

    def _message(self, author: str, text: str) -> bytes | None:
        return _stencil([self._form.message(0, author, text)], author, text)

    def _decision(self, made: Decision, author: str, status: Status) -> bytes | None:
        lines = self._form.decision(made, 0, User(author, status))
        return _stencil(lines, author, made.reason, made.operations)

    def _ignored(self, vote: Vote, author: str, reason: Reason, status: Status) -> bytes | None:
        event = VoteIgnored(
            ticket=0, author=author, vote=vote, reason=reason, status=status,
            reputation=_BLANKS["reputation"],
        )  # fmt: skip
        return _stencil(self._form.event(event), author, vote.raw)

    def _counted(self, vote: Vote, author: str, by_self: bool, by_binder: bool) -> bytes | None:
        event = VoteCounted(
            ticket=0, author=author, vote=vote, weight=_BLANKS["weight"], by_self=by_self,
            by_binder=by_binder, faded=None, standing=0.0, reputation=_BLANKS["reputation"],
            old=_BLANKS["old"], new=_BLANKS["new"],
        )  # fmt: skip
        return _stencil(self._form.event(event), author, vote.raw)


@lru_cache(64, typed=True)
def _stencils(*rules: float) -> Stencils:
    return Stencils(Rules(*rules))  # type: ignore[arg-type]


def _stencil(details: Iterable[Details], *texts: str) -> bytes | None:
    """Lines with `%(…)b` where something varies; None where a text holds a blank of its own."""
    if any(blank in text for blank in _BLANKS.values() for text in texts):
        return None
    found = encoded(_BLANKS["stamp"], details).replace(b"%", b"%%")
    for name, blank in _BLANKS.items():
        text = blank if name in _QUOTED else f'"{blank}"'
        found = found.replace(text.encode(), f"%({name})b".encode())
    return found
