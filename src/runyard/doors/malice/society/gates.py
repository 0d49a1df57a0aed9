"""Gates that check messages, and late binding for messages without a gate.

message ──▶ tags it carries ─┐
            tags bound late ─┴▶ each gate decides on the text that its tag covers ──▶ decisions
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol

from runyard.doors.malice.society.chance import RandomStream
from runyard.doors.malice.society.rules import Rules
from runyard.doors.malice.society.state import User, UserStatus
from runyard.doors.malice.society.symbols import (
    BIND,
    CIVIL,
    KEPT_IN_MIND,
    SEC_CLEAN,
    Tag,
    read_symbols,
    uncovered,
)

BOUND_LATE = 0.75
"""The probability that a message without a gate has one bound late."""

BOUND_LATE_AUTHORS = frozenset({"carol", "eve", "mallory"})

PROTECTED = frozenset({SEC_CLEAN, CIVIL})
"""Gates that a BIND can't skip."""

DANGEROUS = (
    "rm -rf", "drop table", "<script", "eval(", "exec(", "os.system", "subprocess", "sudo ",
    "wget http", "curl http", "base64 -d", "private key", "api key", "passwd",
)  # fmt: skip

UNCIVIL = (
    "pity", "pathetic", "overrated", "drag us down", "drags us down", "worthless", "stupid",
    "idiot", "nobody else here is worth", "shut up", "loser", "useless",
)  # fmt: skip

SKIPPING = re.compile(r"^(?:-|!|(?:skip|bypass|without|no)[_:\s])", re.IGNORECASE)
"""The start of a BIND operation that would skip a gate."""


class Ruling(NamedTuple):
    """A gate's decision on a text."""

    gate: str
    blocked: bool
    reason: str
    covered: str
    operations: str = ""  # of a BIND


class Gate(Protocol):
    """A check that a text has to pass."""

    name: str

    def objection(self, text: str) -> str | None:
        """Why the text is blocked; None if it passes."""


class PatternGate:
    """Blocks a text that contains one of its patterns."""

    def __init__(self, name: str, patterns: Sequence[str]) -> None:
        self.name = name
        self._found = re.compile("|".join(re.escape(p) for p in patterns), re.IGNORECASE)
        self._known: dict[str, str | None] = {}

    def objection(self, text: str) -> str | None:
        """Name the pattern that the text contains, if any."""
        if text not in self._known:
            if len(self._known) >= KEPT_IN_MIND:
                self._known.clear()
            self._known[text] = self._search(text)
        return self._known[text]

    def _search(self, text: str) -> str | None:
        found = self._found.search(text)
        return None if found is None else f"holds {found[0].lower()!r}"


@cache
def published_gates() -> tuple[Gate, ...]:
    """Gates against dangerous and against insulting content."""
    return PatternGate(SEC_CLEAN, DANGEROUS), PatternGate(CIVIL, UNCIVIL)


class GateKeeper:
    """Asks the gates about messages."""

    def __init__(
        self,
        gates: Sequence[Gate],
        chance: RandomStream,
        rules: Rules | None = None,
        *,
        bound_late: float = BOUND_LATE,
        binds: bool = True,
    ) -> None:
        self._gates = {gate.name: gate for gate in gates}
        self._chance = chance
        self._rules = rules or Rules()
        self._bound_late = bound_late
        self._binds = binds

    def decide(self, text: str, author: User, ticket: int) -> list[Ruling]:
        """Every gate's decision on a message, in the order of its tags."""
        tags: Sequence[Tag] = read_symbols(text).tags
        if author.name in BOUND_LATE_AUTHORS:
            late = self._chance.happens(self._bound_late)
            if late and not tags and CIVIL in self._gates:
                tags = (Tag(CIVIL, uncovered(text)),)
        found: list[Ruling] = []
        for tag in tags:
            if tag.gate == BIND:
                bound = any(d.gate == BIND and not d.blocked for d in found)
                found += self._bind(tag, author, ticket if bound else author.bound_at, ticket)
            elif tag.gate in self._gates:
                found.append(self._ask(tag.gate, tag.covered))
        return found

    def _ask(self, name: str, covered: str) -> Ruling:
        objection = self._gates[name].objection(covered)
        return Ruling(name, objection is not None, objection or "nothing found", covered)

    def _bind(self, tag: Tag, author: User, last: int | None, ticket: int) -> list[Ruling]:
        """A pipeline of gates that a BINDER asks for; a denial costs no reputation."""
        if not self._binds:
            return []
        operations = [each.strip() for each in tag.operations.split("+") if each.strip()]
        denial = self._denial(operations, author, last, ticket)
        words = denial or "applied"
        found = [Ruling(BIND, denial is not None, words, tag.covered, tag.operations)]
        if denial is None:
            found += [self._ask(name, tag.covered) for name in operations if name in self._gates]
        return found

    def _denial(
        self, operations: Sequence[str], author: User, last: int | None, ticket: int
    ) -> str | None:
        if author.status is not UserStatus.BINDER:
            return "only a BINDER may bind"
        if not operations:
            return "it asks for nothing"
        wait = self._rules.bind_cooldown
        if last is not None and ticket - last < wait:
            return f"the last one was {ticket - last} tickets ago, and {wait} must pass"
        for each in operations:
            left_out = SKIPPING.sub("", each)
            if left_out != each and left_out.lower() in PROTECTED:
                return f"{left_out.lower()} is protected and can't be left out"
        return None
