"""Reads a condition by hand: words, then one pass by binding power. Errors point at the place."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import NamedTuple

from runyard.errors import UsageError
from runyard.stats import conditions_terms as terms
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
      | (?P<sign><=|>=|==|!=|[-<>+*/()])""",
    re.VERBOSE | re.DOTALL,
)
_LEVELED = re.compile(r"(ci|low|high|q|p)([0-9]{1,2}(?:\.[0-9]{1,3})?)")
_OF_SIDE = re.compile(rf"(.+)\.({_LEVELED.pattern})"), re.compile(r"(.+)\.([^.]+)")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_NOT, _COMPARISON, _UNARY = 3, 4, 7
_POWERS = {"or": 1, "and": 2, "+": 5, "-": 5, "*": 6, "/": 6} | dict.fromkeys(
    _COMPARISONS, _COMPARISON
)
_FUNCTIONS = f"{', '.join(terms.STATISTICS)}, q90, ci95, low95, high95, p"
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
_Node = terms.Term | tree.Test


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
        expected = "'and', 'or' or the end" if known else "a comparison such as <"
        hint = 'quote a name with dashes: "my-batch".failed' if reader.splits_a_name else None
        raise reader.unexpected(expected, hint)
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

    @property
    def splits_a_name(self) -> bool:
        """Whether the word goes on where a number ends, as in `walk-12ab`."""
        before = self._words[self._at - 1]
        ends = before.at + len(before.text)
        return before.kind == "number" and ends == self.word.at and self.word.kind != "sign"

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
            return terms.Calculated(sign, first, second)
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
            return terms.Negated(self.term(self.expression(_UNARY), at))
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
            return self._quoted()
        raise self.unexpected("a number, a metric or a function")

    def _number(self) -> terms.Number:
        number = terms.Number(self.word.text)
        if not math.isfinite(number.number):
            raise _error(self._text, self.word.at, "the number is too large")
        self._take()
        return number

    def _named(self) -> terms.Term:
        """What begins with a name: a function, a share or a name that stands alone."""
        if self._follows("("):
            return self._function(*_split(self.word.text))
        label, _, last = self.word.text.rpartition(".")
        if last.lower() in terms.SHARES or self.word.text.lower() in terms.RESERVED:
            self._take()
            return terms.Share(last.lower(), label or None)
        return terms.Bare(self._name())

    def _quoted(self) -> terms.Term:
        """What begins with a name in quotes: it alone, or something of a side of that name."""
        name = self._name()
        if self.word.kind != "path":
            return terms.Bare(name)
        path = self.word.text[1:]
        if self._follows("("):
            return self._function(path, name)
        self._take()
        if path.lower() in terms.SHARES:
            return terms.Share(path.lower(), name)
        return terms.Statistic("mean", path, label=name)

    def _function(self, name: str, label: str | None) -> terms.Term:
        """A function of a metric, by itself or of a side, or of a difference."""
        word = self.word
        leveled = _LEVELED.fullmatch(name)
        if name not in (*terms.STATISTICS, "p") and leveled is None:
            problem = f"there is no function {name!r}"
            raise _error(self._text, word.at, problem, hint=f"functions: {_FUNCTIONS}")
        self._take()
        self._expect("(")
        found: terms.Term
        if leveled is not None:
            found = self._with_level(word, leveled, label)
        elif name == "p":
            found = self._difference("p", None, label)
        else:
            found = terms.Statistic(name, self._name(), label=label)
        self._expect(")")
        return found

    def _with_level(self, word: _Word, leveled: re.Match[str], label: str | None) -> terms.Term:
        name, level = leveled[1], float(Decimal(leveled[2]) / 100)
        if name in "qp":
            return terms.Statistic("quantile", self._name(), level, label=label)
        if level == 0:
            raise _error(self._text, word.at, "a level of 0 says nothing", hint="write ci95")
        if self._follows("-"):
            return self._difference(name, level, label)
        if self.word.kind != "name" or not self._follows("("):
            return terms.Statistic(name, self._name(), level, label=label)
        of = self.word.text
        if of not in ("mean", "rate"):
            raise self.unexpected(
                "mean(metric) or rate(metric)",
                hint="intervals exist for means, rates and differences such as new - old",
            )
        self._take()
        self._expect("(")
        found = terms.Statistic(name, self._name(), level, of, label)
        self._expect(")")
        return found

    def _difference(self, figure: str, level: float | None, label: str | None) -> terms.Difference:
        """`new - old` as the argument of a function."""
        if label is not None:
            raise self.unexpected("a metric", hint="a difference is about two sides, not of one")
        first = self._name("the name of one side")
        self._expect("-")
        second = self._name("the name of the other side")
        if self.word.text == "-":
            raise self.unexpected("')'", hint='quote a name with dashes: p("my-batch" - old)')
        return terms.Difference(figure, first, second, level)

    def _follows(self, sign: str) -> bool:
        """Whether this sign comes after the word."""
        return self._words[min(self._at + 1, len(self._words) - 1)].text == sign

    def _name(self, what: str = "the name of a metric") -> str:
        word = self.word
        if word.kind == "quoted":
            name = re.sub(r"\\(.)", r"\1", word.text[1:-1], flags=re.DOTALL)
        else:
            name = word.text if word.kind == "name" else ""
        if not name or (word.kind == "name" and name.lower() in terms.RESERVED):
            raise self.unexpected(what, hint='quote a name of odd characters: mean("p-value")')
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

    def term(self, node: _Node, at: int) -> terms.Term:
        """The node, which has to be a term."""
        if isinstance(node, terms.Term):
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


def _split(word: str) -> tuple[str, str | None]:
    """A function, and the side that stands before it; the dot in `p99.9` is none between them."""
    if _LEVELED.fullmatch(word):
        return word, None
    of_side = _OF_SIDE[0].fullmatch(word) or _OF_SIDE[1].fullmatch(word)
    return (word, None) if of_side is None else (of_side[2], of_side[1])


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
