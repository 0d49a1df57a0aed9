"""The language of custom rules: `has_paying_hand`, `is_flush_draw and high_cards >= 2`.

    text ──parse──▶ Condition ──holds(hand)──▶ True or False

What can be written, the loosest binding first:

    or  ·  and  ·  not  ·  <  <=  >  >=  ==  !=  ·  ( … )
    high_cards  has_pair  …      facts of the hand; one that holds or doesn't stands by itself
    2  true  false  default      whole numbers; `default` always holds

The text is never evaluated as Python.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from runyard.doors.letitride.cards.facts import COUNTS, FLAGS, HandFacts
from runyard.errors import UsageError

MAX_WORDS = 200
"""The longest condition, in words and signs."""

MAX_DEPTH = 40
"""How deep parentheses and `not` may nest."""

Value = Callable[[HandFacts], int]

_WORD = re.compile(r"(?P<number>[0-9]+)|(?P<name>[A-Za-z_]\w*)|(?P<sign><=|>=|==|!=|[<>()])")
_SIGNS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_CONSTANTS = {"default": 1, "true": 1, "false": 0}
_MISTAKES = {
    "=": "write == for equal",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not', or != for unequal",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was read."""

    text: str
    holds: Callable[[HandFacts], bool] = field(compare=False)


class _Word(NamedTuple):
    kind: str
    text: str
    at: int


class _Part(NamedTuple):
    """A piece that was read: how to get its value, and whether that is an answer or a number."""

    value: Value
    answer: bool


def parse(text: str) -> Condition:
    """Read a condition; a UsageError points at the place that can't be read."""
    reader = _Reader(text)
    found = reader.answer(reader.either())
    if reader.word.kind != "end":
        reader.fail(f"expected 'and', 'or' or the end and found {reader.word.text!r}")
    value = found.value
    return Condition(text, lambda hand: bool(value(hand)))


class _Reader:
    """One pass over the words of a condition."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = list(self._split())
        self._at = 0
        self._depth = 0

    @property
    def word(self) -> _Word:
        return self._words[self._at]

    def either(self) -> _Part:
        return self._joined("or", self._both, any)

    def _both(self) -> _Part:
        return self._joined("and", self._negated, all)

    def _joined(self, sign: str, part: Callable[[], _Part], join: Callable[..., bool]) -> _Part:
        first = part()
        if self.word.text != sign:
            return first
        parts = [self.answer(first).value]
        while self.word.text == sign:
            self._at += 1
            parts.append(self.answer(part()).value)
        return _Part(lambda hand: join(value(hand) for value in parts), True)

    def _negated(self) -> _Part:
        if self.word.text != "not":
            return self._compared()
        self._deeper()
        self._at += 1
        inner = self.answer(self._negated()).value
        self._depth -= 1
        return _Part(lambda hand: not inner(hand), True)

    def _compared(self) -> _Part:
        left = self._single()
        compare = _SIGNS.get(self.word.text)
        if compare is None:
            return left
        self._at += 1
        right = self._single()
        if self.word.text in _SIGNS:
            self.fail("two comparisons in a row", hint="join them with 'and'")
        a, b = left.value, right.value
        return _Part(lambda hand: compare(a(hand), b(hand)), True)

    def _single(self) -> _Part:
        word = self.word
        if word.text == "(":
            self._deeper()
            self._at += 1
            inner = self.either()
            if self.word.text != ")":
                self.fail("expected ')'")
            self._at += 1
            self._depth -= 1
            return inner
        if word.kind == "number":
            number = int(word.text[:18])
            self._at += 1
            return _Part(lambda _: number, False)
        if word.kind != "name" or word.text in ("and", "or", "not"):
            self.fail(f"expected a fact or a number and found {word.text or 'the end'!r}")
        return self._named(word)

    def _named(self, word: _Word) -> _Part:
        if word.text in _CONSTANTS:
            constant = _CONSTANTS[word.text]
            self._at += 1
            return _Part(lambda _: constant, True)
        if word.text not in (*COUNTS, *FLAGS):
            known = f"numbers: {', '.join(COUNTS)}; yes or no: {', '.join(FLAGS)}; and default"
            self.fail(f"there is no fact {word.text!r}", hint=known)
        self._at += 1
        return _Part(operator.attrgetter(word.text), word.text in FLAGS)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(f"it nests deeper than {MAX_DEPTH}")

    def answer(self, part: _Part) -> _Part:
        """The part, which has to hold or not."""
        if not part.answer:
            self.fail(
                "a number by itself neither holds nor fails", hint="compare it: high_cards >= 2"
            )
        return part

    def fail(self, problem: str, hint: str | None = None) -> NoReturn:
        """Say what is wrong at this word."""
        raise _error(self._text, self.word.at, problem, hint)

    def _split(self) -> list[_Word]:
        found: list[_Word] = []
        at = 0
        while at < len(self._text):
            if self._text[at].isspace():
                at += 1
                continue
            match = _WORD.match(self._text, at)
            if match is None:
                sign = self._text[at]
                raise _error(self._text, at, f"{sign!r} has no meaning here", _MISTAKES.get(sign))
            if len(found) == MAX_WORDS:
                raise _error(self._text, at, f"it has more than {MAX_WORDS} words and signs", None)
            lowered = match[0].lower()
            keyword = lowered in ("and", "or", "not", *_CONSTANTS)
            found.append(_Word(str(match.lastgroup), lowered if keyword else match[0], at))
            at = match.end()
        return [*found, _Word("end", "", len(self._text.rstrip()))]


def _error(text: str, at: int, problem: str, hint: str | None) -> UsageError:
    shown = "".join(char if char.isprintable() else " " for char in text)
    place = f"    {shown}\n    {' ' * at}^"
    return UsageError(f"the condition can't be read: {problem}\n{place}", hint=hint)
