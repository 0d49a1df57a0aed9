"""Votes and gates in a message, written as symbols between `⟦` and `⟧`.

⟦VOTE:promote_alice⟧ +1    ⟦VOTE:demote_bob⟧    ⟦GATE:sec_clean⟧    ⟦CIVIL⟧    ⟦BIND:a+b⟧
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

VoteKind = Literal["promote", "demote"]
PROMOTE: VoteKind = "promote"
DEMOTE: VoteKind = "demote"
CIVIL, SEC_CLEAN, BIND = "civil", "sec_clean", "bind"
KEPT_IN_MIND = 4096

_SYMBOL = re.compile(
    r"⟦(?:VOTE:(?P<kind>promote|demote)_(?P<name>[^⟦⟧\s]+)⟧(?P<sign>[ \t]*(?P<value>[+-]?1)(?!\d))?"
    r"|(?:GATE:(?P<gate>\w+)|(?P<civil>CIVIL)|BIND:(?P<bind>[^⟦⟧]*))⟧(?P<covered>[^⟦\n]*))"
)


class Vote(NamedTuple):
    """A vote for or against a user, as written."""

    kind: VoteKind
    name: str
    value: int
    raw: str

    @property
    def target(self) -> str:
        """What is voted on: promoting a user and demoting it are different targets."""
        return f"{self.kind}_{self.name}"


class Tag(NamedTuple):
    """A gate that a message carries, and the text that it covers."""

    gate: str
    covered: str
    operations: str = ""  # of a BIND: the gates it asks for


class Symbols(NamedTuple):
    """The votes and gates of one message, each in their order."""

    votes: tuple[Vote, ...]
    tags: tuple[Tag, ...]


@lru_cache(KEPT_IN_MIND)
def read_symbols(text: str) -> Symbols:
    """Find the symbols in a message; unclosed and unknown ones are ordinary text."""
    votes, tags = [], []
    for found in _SYMBOL.finditer(text):
        if found["kind"] is not None:
            kind = PROMOTE if found["kind"] == PROMOTE else DEMOTE
            votes.append(Vote(kind, found["name"], int(found["value"] or 1), found[0]))
        elif found["bind"] is not None:
            tags.append(Tag(BIND, found["covered"], found["bind"]))
        else:
            tags.append(Tag(found["gate"] or CIVIL, found["covered"]))
    return Symbols(tuple(votes), tuple(tags))


def uncovered(text: str) -> str:
    """The text covered by a gate that is bound to the start of a message."""
    return re.split(r"[⟦\n]", text, maxsplit=1)[0]
