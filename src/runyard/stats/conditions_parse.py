"""Reads a condition by hand: words, then one pass by binding power. Errors point at the place."""

from __future__ import annotations

import math
import re
from decimal import Decimal
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
      | (?P<sign><=|>=|==|!=|[-<>+*/()])""",
    re.VERBOSE | re.DOTALL,
)
_LEVELED = re.compile(r"(ci|low|high|q|p)([0-9]{1,2}(?:\.[0-9]{1,3})?)")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_NOT, _COMPARISON, _UNARY = 3, 4, 7
_POWERS = {"or": 1, "and": 2, "+": 5, "-": 5, "*": 6, "/": 6} | dict.fromkeys(
    _COMPARISONS, _COMPARISON
)
_FUNCTIONS = f"{', '.join(tree.STATISTICS)}, q90, ci95, low95, high95"
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
_Node = tree.Term | tree.Test


class _Word(NamedTuple):
    kind: str
    text: str
    at: int


def read(text: str) -> tree.Test:
    """The tree of a condition."""
    reader = _Reader(text)
    start = reader.word.at
    found = reader.expression(0)
    if reader.word.kind != "end":
        known = isinstance(found, tree.Test)
        raise reader.unexpected("'and', 'or' or the end" if known else "a comparison such as <")
    return reader.test(found, start)


class _Reader:
    """One pass over the words of a condition."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = _words(text)
        self._at = 0
        self._depth = 0

    @property
    def word(self) -> _Word:
        return self._words[self._at]

    def expression(self, floor: int) -> _Node:
        """A term or a test whose signs all bind at least as tightly as `floor`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _error(self._text, self.word.at, f"it nests deeper than {MAX_DEPTH}")
        start = self.word.at
        left = self._prefix()
        while (power := _POWERS.get(self._sign(), 0)) and power >= floor:
            left = self._joined(left, start, self._sign(), power)
        self._depth -= 1
        return left

    def _joined(self, left: _Node, start: int, sign: str, power: int) -> _Node:
        if sign in ("and", "or"):
            parts = [self.test(left, start)]
            while self._sign() == sign:
                self._take()
                at = self.word.at
                parts.append(self.test(self.expression(power + 1), at))
            return tree.Joined(sign, tuple(parts))
        first = self.term(left, start)
        self._take()
        at = self.word.at
        second = self.term(self.expression(power + 1), at)
        if power != _COMPARISON:
            return tree.Calculated(sign, first, second)
        if self._sign() in _COMPARISONS:
            raise self.unexpected("'and', 'or' or the end", hint="join two comparisons with 'and'")
        return tree.Compared(sign, first, second)

    def _prefix(self) -> _Node:
        word = self.word
        sign = self._sign()
        if sign == "not":
            self._take()
            at = self.word.at
            return tree.Not(self.test(self.expression(_NOT), at))
        if sign == "-":
            self._take()
            at = self.word.at
            return tree.Negated(self.term(self.expression(_UNARY), at))
        if sign == "(":
            self._take()
            inner = self.expression(0)
            self._expect(")")
            return inner
        if word.kind == "number":
            return self._number()
        if word.kind == "name" and sign not in ("and", "or"):
            return self._named()
        if word.kind == "quoted":
            return tree.Bare(self._metric())
        raise self.unexpected("a number, a metric or a function")

    def _number(self) -> tree.Number:
        number = tree.Number(self.word.text)
        if not math.isfinite(number.number):
            raise _error(self._text, self.word.at, "the number is too large")
        self._take()
        return number

    def _named(self) -> tree.Term:
        word = self.word
        if self._words[self._at + 1].text != "(":
            if word.text.lower() in tree.RESERVED:
                self._take()
                return tree.Share(word.text.lower())
            return tree.Bare(self._metric())
        leveled = _LEVELED.fullmatch(word.text)
        if word.text not in tree.STATISTICS and leveled is None:
            problem = f"there is no function {word.text!r}"
            raise _error(self._text, word.at, problem, hint=f"functions: {_FUNCTIONS}")
        self._take()
        self._expect("(")
        if leveled is None:
            found = tree.Statistic(word.text, self._metric())
        else:
            found = self._with_level(word, leveled)
        self._expect(")")
        return found

    def _with_level(self, word: _Word, leveled: re.Match[str]) -> tree.Statistic:
        level = float(Decimal(leveled[2]) / 100)
        if leveled[1] in "qp":
            return tree.Statistic("quantile", self._metric(), level)
        if level == 0:
            raise _error(self._text, word.at, "a level of 0 says nothing", hint="write ci95")
        if self.word.kind != "name" or self._words[self._at + 1].text != "(":
            return tree.Statistic(leveled[1], self._metric(), level)
        of = self.word.text
        if of not in ("mean", "rate"):
            raise self.unexpected(
                "mean(metric) or rate(metric)", hint="intervals exist for means and rates"
            )
        self._take()
        self._expect("(")
        found = tree.Statistic(leveled[1], self._metric(), level, of)
        self._expect(")")
        return found

    def _metric(self) -> str:
        word = self.word
        if word.kind == "quoted":
            name = re.sub(r"\\(.)", r"\1", word.text[1:-1], flags=re.DOTALL)
        else:
            name = word.text if word.kind == "name" else ""
        if not name or (word.kind == "name" and name.lower() in tree.RESERVED):
            raise self.unexpected(
                "the name of a metric", hint='quote a name of odd characters: mean("p-value")'
            )
        self._take()
        return name

    def _sign(self) -> str:
        """The word when it is a sign, a keyword or a name; those of other case are keywords too."""
        text = self.word.text
        if self.word.kind == "name" and text.lower() in ("and", "or", "not"):
            return text.lower()
        return text if self.word.kind in ("sign", "name") else ""

    def _take(self) -> None:
        self._at += 1

    def _expect(self, text: str) -> None:
        if self.word.kind != "sign" or self.word.text != text:
            raise self.unexpected(f"{text!r}")
        self._take()

    def term(self, node: _Node, at: int) -> tree.Term:
        """The node, which has to be a term."""
        if isinstance(node, tree.Term):
            return node
        raise _error(self._text, at, "expected a number or a metric and found a comparison")

    def test(self, node: _Node, at: int) -> tree.Test:
        """The node, which has to be a test."""
        if isinstance(node, tree.Test):
            return node
        problem = "expected a comparison and found only a number"
        raise _error(self._text, at, problem, hint=f"write for instance {node} >= 0.8")

    def unexpected(self, expected: str, hint: str | None = None) -> UsageError:
        """Say what was expected at this word."""
        found = "the end" if self.word.kind == "end" else repr(self.word.text)
        return _error(self._text, self.word.at, f"expected {expected} and found {found}", hint=hint)


def _words(text: str) -> list[_Word]:
    found: list[_Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _WORD.match(text, at)
        if match is None:
            hint = _MISTAKES.get(text[at])
            raise _error(text, at, f"{text[at]!r} has no meaning here", hint=hint)
        if len(found) == MAX_WORDS:
            raise _error(text, at, f"it has more than {MAX_WORDS} words and signs")
        found.append(_Word(str(match.lastgroup), match[0], at))
        at = match.end()
    return [*found, _Word("end", "", len(text.rstrip()))]


def _error(text: str, at: int, problem: str, hint: str | None = None) -> UsageError:
    start, end = max(0, at - 60), at + 20
    shown = "".join(c if c.isprintable() else " " for c in text[start:end])
    place = f"    {shown}\n    {' ' * (at - start)}^"
    return UsageError(f"the condition can't be read: {problem}\n{place}", hint=hint)
