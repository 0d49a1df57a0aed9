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
from runyard.doors.malice.state import Reason, Status, User, VoteIgnored
from runyard.doors.malice.symbols import Vote

KEPT = 8192

# What varies, as characters that stand for nothing in any text; see `_stencil` for those that do.
_BLANKS: Final = {
    "stamp": "\ue000",
    "run": "\ue001",
    "ticket": "\ue002",
    "number": "\ue003",
    "reputation": "\ue004",
}
_QUOTED = frozenset({"stamp", "ticket"})
_encode_lines = msgspec.json.Encoder().encode_lines


class _Blank(Format):
    """Lines that belong to no run and no ticket yet."""

    def place(self, ticket: int, author: str) -> Place:  # noqa: ARG002
        blanks: tuple[Any, str, str] = (_BLANKS["run"], author, _BLANKS["ticket"])
        return blanks

    def number(self, ticket: int) -> Any:  # noqa: ARG002
        return _BLANKS["number"]


_blank = _Blank(0, 0)


def encoded(stamp: str, details: Iterable[Details]) -> bytes:
    """Lines as they stand in a log."""
    return _encode_lines([Line(stamp, each.kind, each) for each in details])


def varying(stamp: str, run: int, number: int) -> dict[bytes, bytes]:
    """What varies between the lines of two tickets; a reputation is added where there is one."""
    told = str(number).encode()
    return {
        b"stamp": stamp.encode(),
        b"run": str(run).encode(),
        b"ticket": b"#" + told,
        b"number": told,
    }


@lru_cache(KEPT)
def message(author: str, text: str) -> bytes | None:
    """A message, but for its time, run, ticket and number."""
    return _stencil([_blank.message(0, author, text)], author, text)


@lru_cache(KEPT)
def decision(made: Decision, author: str, status: Status) -> bytes | None:
    """A gate's decision, but for its time, run and ticket."""
    lines = _blank.decision(made, 0, User(author, status))
    return _stencil(lines, author, made.reason, made.operations)


@lru_cache(KEPT)
def ignored(vote: Vote, author: str, reason: Reason, status: Status) -> bytes | None:
    """A vote that does not count, but for its time, run, ticket and the voter's reputation."""
    reputation: Any = _BLANKS["reputation"]
    event = VoteIgnored(
        ticket=0, author=author, vote=vote, reason=reason, status=status, reputation=reputation
    )
    return _stencil(_blank.event(event), author, vote.raw)


def _stencil(details: Iterable[Details], *texts: str) -> bytes | None:
    """Lines with `%(…)b` where something varies; None where a text holds a blank of its own."""
    if any(blank in text for blank in _BLANKS.values() for text in texts):
        return None
    found = encoded(_BLANKS["stamp"], details).replace(b"%", b"%%")
    for name, blank in _BLANKS.items():
        text = blank if name in _QUOTED else f'"{blank}"'
        found = found.replace(text.encode(), f"%({name})b".encode())
    return found
