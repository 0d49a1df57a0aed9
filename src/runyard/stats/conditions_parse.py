"""The language of gates and stop rules: what names and functions mean in them."""

from __future__ import annotations

import re
from decimal import Decimal

from runyard.stats import conditions_terms as terms
from runyard.stats.conditions_reader import Reader, Word
from runyard.stats.conditions_tree import Term, Test

_LEVELED = re.compile(r"(ci|low|high|q|p)([0-9]{1,2}(?:\.[0-9]{1,3})?)")
_OF_SIDE = re.compile(rf"(.+)\.({_LEVELED.pattern})"), re.compile(r"(.+)\.([^.]+)")
_FUNCTIONS = f"{', '.join(terms.STATISTICS)}, q90, ci95, low95, high95, p"


def read(text: str) -> Test:
    """The tree of a condition."""
    return _GateReader(text).condition()


class _GateReader(Reader):
    def operand(self) -> Term:
        """A metric, a function, a share, or a figure of a side."""
        if self.word.kind == "quoted":
            return self._quoted()
        if self.follows("("):
            return self._function(*_split(self.word.text))
        label, _, last = self.word.text.rpartition(".")
        if last.lower() in terms.SHARES or self.word.text.lower() in terms.RESERVED:
            self.take()
            return terms.Share(last.lower(), label or None)
        return terms.Bare(self._name())

    def _quoted(self) -> Term:
        """A quoted name by itself, or a figure of the side of that name."""
        name = self._name()
        if self.word.kind != "path":
            return terms.Bare(name)
        path = self.word.text[1:]
        if self.follows("("):
            return self._function(path, name)
        self.take()
        if path.lower() in terms.SHARES:
            return terms.Share(path.lower(), name)
        return terms.Statistic("mean", path, label=name)

    def _function(self, name: str, label: str | None) -> Term:
        """A function of a metric, of a metric of one side, or of a difference."""
        word = self.word
        leveled = _LEVELED.fullmatch(name)
        if name not in (*terms.STATISTICS, "p") and leveled is None:
            problem = f"there is no function {name!r}"
            raise self.error(word.at, problem, hint=f"functions: {_FUNCTIONS}")
        self.take()
        self.expect("(")
        term: Term
        if leveled is not None:
            term = self._with_level(word, leveled, label)
        elif name == "p":
            term = self._difference("p", None, label)
        else:
            term = terms.Statistic(name, self._name(), label=label)
        self.expect(")")
        return term

    def _with_level(self, word: Word, leveled: re.Match[str], label: str | None) -> Term:
        name, level = leveled[1], float(Decimal(leveled[2]) / 100)
        if name in "qp":
            return terms.Statistic("quantile", self._name(), level, label=label)
        if level == 0:
            raise self.error(word.at, "an interval with a level of 0", hint="write ci95")
        if self.follows("-"):
            return self._difference(name, level, label)
        if self.word.kind != "name" or not self.follows("("):
            return terms.Statistic(name, self._name(), level, label=label)
        of = self.word.text
        if of not in ("mean", "rate"):
            raise self.unexpected(
                "mean(metric) or rate(metric)",
                hint="intervals exist for means, rates and differences such as new - old",
            )
        self.take()
        self.expect("(")
        term = terms.Statistic(name, self._name(), level, of, label)
        self.expect(")")
        return term

    def _difference(self, figure: str, level: float | None, label: str | None) -> Term:
        """`new - old` as the argument of a function."""
        if label is not None:
            raise self.unexpected("a metric", hint="a difference is between two sides")
        first = self._name("the name of one side")
        self.expect("-")
        second = self._name("the name of the other side")
        if self.word.text == "-":
            raise self.unexpected("')'", hint='quote a name with dashes: p("my-batch" - old)')
        return terms.Difference(figure, first, second, level)

    def _name(self, what: str = "the name of a metric") -> str:
        word = self.word
        if word.kind == "quoted":
            name = re.sub(r"\\(.)", r"\1", word.text[1:-1], flags=re.DOTALL)
        else:
            name = word.text if word.kind == "name" else ""
        if not name or (word.kind == "name" and name.lower() in terms.RESERVED):
            raise self.unexpected(
                what, hint='quote a name with special characters: mean("p-value")'
            )
        self.take()
        return name


def _split(word: str) -> tuple[str, str | None]:
    """A function and the side in front of it; the dot in `p99.9` does not separate them."""
    if _LEVELED.fullmatch(word):
        return word, None
    of_side = _OF_SIDE[0].fullmatch(word) or _OF_SIDE[1].fullmatch(word)
    return (word, None) if of_side is None else (of_side[2], of_side[1])
