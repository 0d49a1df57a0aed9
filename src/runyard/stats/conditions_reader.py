"""Reads conditions by hand: words, then one pass by binding power. Errors point at the place.

    or  ·  and  ·  not  ·  <  <=  >  >=  ==  !=  ·  + -  ·  * /  ·  unary -  ·  ( … )

Gates, stop rules and applications share this grammar; a subclass says what names mean. The text is
never evaluated as Python, and its length and depth are limited, so it may come from anyone.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from typing import NamedTuple

from runyard.errors import UsageError
from runyard.stats import conditions_tree as tree

MAX_WORDS = 200
"""The longest condition, in words and signs."""

MAX_DEPTH = 40
"""How deep parentheses and `not` may nest."""

_WORD = re.compile(
    r"""(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[ ]?%)?)
      | (?P<name>[^\W\d]\w*(?:\.\w+)*)
      | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<path>\.[^\W\d]\w*(?:\.\w+)*)
      | (?P<sign><=|>=|==|!=|[-<>+*/()])
      | (?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
_MISTAKES = {
    "=": "write == for equal",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not', or != for unequal",
    "[": "write a metric as a dotted path, such as scores.exact",
    ",": "a decimal point is a '.', and functions take one metric",
    '"': "the quote is not closed",
    "'": "the quote is not closed",
}
KEYWORDS = (*tree.JOINS, "not")


class Word(NamedTuple):
    """A word or sign of a condition."""

    kind: str  # number, name, quoted, path, sign, or end
    text: str
    at: int  # where it begins


class Reader(ABC):
    """One pass over the words of a condition."""

    wanted = "a number, a metric or a function"
    """What an operand may be, for errors."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = list(self._split())
        self._at = 0
        self._depth = 0

    def condition(self) -> tree.Node:
        """The tree of the whole text."""
        start = self.word.at
        node = self._expression(0)
        if self.word.kind != "end":
            expected = "'and', 'or' or the end" if node.is_test else "a comparison such as <"
            hint = 'quote a name with dashes: "my-batch".failed' if self._splits_a_name() else None
            raise self.unexpected(expected, hint)
        return self._test(node, start)

    @abstractmethod
    def operand(self) -> tree.Node:
        """Read what begins with a name or a quoted name."""

    def alone(self, node: tree.Node) -> tuple[str, str]:
        """The problem and the hint where a number stands without a comparison."""
        return (
            "expected a comparison and found only a number",
            f"write for instance {node} >= 0.8",
        )

    @property
    def word(self) -> Word:
        """The word to be read next."""
        return self._words[self._at]

    def follows(self, sign: str) -> bool:
        """Whether this sign comes after the word."""
        return self._words[min(self._at + 1, len(self._words) - 1)].text == sign

    def take(self) -> Word:
        """Move on to the next word; return the one before."""
        self._at += 1
        return self._words[self._at - 1]

    def expect(self, sign: str) -> None:
        """Take this sign; refuse anything else."""
        if self.word.kind != "sign" or self.word.text != sign:
            raise self.unexpected(f"{sign!r}")
        self.take()

    def unexpected(self, expected: str, hint: str | None = None) -> UsageError:
        """An error that says what was expected at this word."""
        found = "the end" if self.word.kind == "end" else repr(self.word.text)
        return self.error(self.word.at, f"expected {expected} and found {found}", hint)

    def error(self, at: int, problem: str, hint: str | None = None) -> UsageError:
        """An error that points at a place in the text."""
        start, end = max(0, at - 60), at + 20
        shown = "".join(c if c.isprintable() else " " for c in self._text[start:end])
        place = f"    {shown}\n    {' ' * (at - start)}^"
        return UsageError(f"the condition can't be read: {problem}\n{place}", hint=hint)

    def _splits_a_name(self) -> bool:
        """Whether the word continues where a number ends, as in `walk-12ab`."""
        before = self._words[self._at - 1]
        is_joined = before.at + len(before.text) == self.word.at
        return before.kind == "number" and is_joined and self.word.kind != "sign"

    def _expression(self, floor: int) -> tree.Node:
        """A term or a test whose signs all bind at least as tightly as `floor`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(self.word.at, f"it nests deeper than {MAX_DEPTH}")
        start = self.word.at
        left = self._prefix()
        while (rank := tree.RANKS.get(self._sign(), 0)) and rank >= floor:
            left = self._joined(left, start, self._sign(), rank)
        self._depth -= 1
        return left

    def _joined(self, left: tree.Node, start: int, sign: str, rank: int) -> tree.Node:
        if sign in tree.JOINS:
            parts = [self._test(left, start)]
            while self._sign() == sign:
                parts.append(self._test(*self._after(rank + 1)))
            return tree.Operation(sign, tuple(parts))
        both = self._term(left, start), self._term(*self._after(rank + 1))
        if sign in tree.COMPARISONS and self._sign() in tree.COMPARISONS:
            raise self.unexpected("'and', 'or' or the end", hint="join two comparisons with 'and'")
        return tree.Operation(sign, both)

    def _prefix(self) -> tree.Node:
        sign = self._sign()
        if sign in tree.PREFIXES:
            checked = self._test if sign == "not" else self._term
            return tree.Operation(sign, (checked(*self._after(tree.PREFIXES[sign])),))
        if sign == "(":
            self.take()
            inner = self._expression(0)
            self.expect(")")
            return inner
        if self.word.kind == "number":
            number = tree.Number(self.word.text)
            if not math.isfinite(number.value()):
                raise self.error(self.word.at, "the number is too large")
            self.take()
            return number
        if self.word.kind in ("name", "quoted") and sign not in KEYWORDS:
            return self.operand()
        raise self.unexpected(self.wanted)

    def _after(self, floor: int) -> tuple[tree.Node, int]:
        """What comes after a sign, and where it begins."""
        self.take()
        at = self.word.at
        return self._expression(floor), at

    def _sign(self) -> str:
        """The sign or name to be read next; keywords in lower case."""
        text = self.word.text
        if self.word.kind == "name" and text.lower() in KEYWORDS:
            return text.lower()
        return text if self.word.kind in ("sign", "name") else ""

    def _term(self, node: tree.Node, at: int) -> tree.Node:
        if not node.is_term:
            raise self.error(at, "expected a number or a metric and found a comparison")
        return node

    def _test(self, node: tree.Node, at: int) -> tree.Node:
        if not node.is_test:
            raise self.error(at, *self.alone(node))
        return node

    def _split(self) -> list[Word]:
        words: list[Word] = []
        for match in _WORD.finditer(self._text):
            at, kind = match.start(), str(match.lastgroup)
            if kind == "other":
                problem = f"{match[0]!r} has no meaning here"
                raise self.error(at, problem, _MISTAKES.get(match[0]))
            if len(words) == MAX_WORDS:
                raise self.error(at, f"it has more than {MAX_WORDS} words and signs")
            words.append(Word(kind, match[0], at))
        return [*words, Word("end", "", len(self._text.rstrip()))]
