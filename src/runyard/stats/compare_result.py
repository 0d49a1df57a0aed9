"""The result of a comparison: figures, plain data and plain words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from runyard.errors import UsageError
from runyard.format import count, decimals, plus_minus, rounded
from runyard.stats.compare_tests import POWER
from runyard.stats.intervals import Interval

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class About:
    """What is compared: two labels, the metric, and which direction of it is better, if any."""

    a: str = "a"
    b: str = "b"
    metric: str = ""
    better: Better | None = "higher"

    def __post_init__(self) -> None:
        if self.better not in ("higher", "lower", None):
            raise UsageError(f"unknown direction {self.better!r}", hint='use "higher" or "lower"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The tasks of one side: how many are compared, and why the others are not."""

    tasks: int
    compared: int
    no_partner: int = 0  # it has a value, but its partner has none
    not_a_number: int = 0  # it completed without a finite number
    failed: int = 0
    cancelled: int = 0
    unfinished: int = 0

    @property
    def left_out(self) -> int:
        """How many are not compared."""
        return self.tasks - self.compared

    def words(self, label: str) -> str:
        """Why tasks are not compared: `183 of old (180 without a partner, 3 failed)`."""
        reasons = {
            "without a partner": self.no_partner,
            "without a number": self.not_a_number,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "unfinished": self.unfinished,
        }
        found = {reason: count for reason, count in reasons.items() if count}
        if len(found) == 1:
            return f"{self.left_out:,} of {label} {next(iter(found))}"
        each = ", ".join(f"{count:,} {reason}" for reason, count in found.items())
        return f"{self.left_out:,} of {label} ({each})"

    def to_data(self) -> dict[str, int]:
        """Every count as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two variants compared on one metric. The effect is a minus b."""

    about: About
    paired: bool
    n: int | tuple[int, int]  # pairs, or the values of a and of b
    mean_a: float
    mean_b: float
    effect: float
    interval: Interval  # of the effect
    p: float
    method: str  # the test that p comes from
    p_adjusted: float | None = None  # for multiple comparisons
    correction: str | None = None
    other_p: dict[str, float] = field(default_factory=dict)  # by test, for data unlike the normal
    sd: float | None = None  # of the differences, when paired
    correlation: float | None = None  # of a and b over the pairs; None where one is constant
    detectable: float  # the smallest true effect that is found with probability `power`
    power: float = POWER
    sides: tuple[Side, Side] | None = None  # the tasks of a and of b, where values are of tasks

    @property
    def a(self) -> str:
        """The first label."""
        return self.about.a

    @property
    def b(self) -> str:
        """The second label."""
        return self.about.b

    @property
    def metric(self) -> str:
        """What was measured."""
        return self.about.metric

    @property
    def better(self) -> Better | None:
        """Which direction of the metric is better; None if that is not said."""
        return self.about.better

    @property
    def p_final(self) -> float:
        """The p value; adjusted, if it was."""
        return self.p if self.p_adjusted is None else self.p_adjusted

    @property
    def shown(self) -> bool:
        """Whether the difference is significant: by p and by the interval."""
        return self.p_final < 1 - self.interval.level and not self.interval.contains(0)

    @property
    def p_text(self) -> str:
        """The p value for a table; a tiny one is not rounded to 0."""
        return f"{self.p_final:.3g}" if self.p_final else "< 1e-300"

    @property
    def winner(self) -> str | None:
        """The label of the better side, if the difference is significant."""
        if not self.shown or self.better is None:
            return None
        return self.a if (self.effect > 0) == (self.better == "higher") else self.b

    @property
    def _order_words(self) -> str:
        """Which side is better, or just higher if neither direction is."""
        first, second = (self.a, self.b) if self.effect > 0 else (self.b, self.a)
        if self.better is None:
            return f"{first} is higher than {second}"
        return f"{self.winner} beats {second if self.winner == first else first}"

    def words(self, unit: str = "") -> str:
        """The result in plain words; `unit` follows the effect ("a hand", "ms")."""
        unit = f" {unit}" if unit else ""
        if self.interval.half == 0:
            return self._constant_words(unit)
        if not self.shown:
            return self._open_words(unit)
        low, high = sorted(abs(end) for end in (self.interval.low, self.interval.high))
        half = self.interval.half
        ends = f"{_round(low, half)} to {_round(high, half)}"
        facts = [f"{100 * self.interval.level:g}% CI {ends}", self.count_words]
        if self.p_adjusted is not None:
            facts.append(f"{_p_words(self.p_adjusted)} after {self.correction}")
        size = f"{plus_minus(abs(self.effect), half)}{unit}"
        return f"{self._order_words} by {size} ({'; '.join(facts)})"

    def left_out_words(self) -> str:
        """How many tasks are compared, and why the others are not; empty if all are."""
        if self.sides is None or not any(side.left_out for side in self.sides):
            return ""
        first, second = self.sides
        named = zip((self.a, self.b), self.sides, strict=True)
        reasons = [side.words(label) for label, side in named if side.left_out]
        return (
            f"{self.count_words} out of {first.tasks:,} and {second.tasks:,} tasks; "
            f"left out: {', '.join(reasons)}"
        )

    def to_data(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        data = asdict(self.about)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Interval):
                data |= {"low": value.low, "high": value.high, "level": value.level}
                data["interval"] = value.method
            elif each.name not in ("about", "sides"):
                data[each.name] = list(value) if isinstance(value, tuple) else value
        sides = None if self.sides is None else [side.to_data() for side in self.sides]
        return {**data, "winner": self.winner, "sides": sides, "words": self.words()}

    def _open_words(self, unit: str) -> str:
        half = self.interval.half
        after = f" after {self.correction}" if self.p_adjusted is not None else ""
        size = f"{plus_minus(self.effect, half)}{unit}"
        found = (
            f"{self.count_words} can detect an effect of {_round(self.detectable, self.detectable)}"
            f"{unit} with {100 * self.power:g}% power"
        )
        return f"no difference shown between {self.a} and {self.b}{after}: {size}; {found}"

    def _constant_words(self, unit: str) -> str:
        """The words for differences that do not vary, and so have no ±."""
        each = f"in each of {self.count_words}" if self.paired else f"({self.count_words})"
        if self.effect == 0:
            return f"{self.a} and {self.b} are equal {each}"
        size = f"by {abs(self.effect):.6g}{unit} {each}"
        if not self.shown:
            return f"{self.a} and {self.b} differ {size}; too few to be significant"
        return f"{self._order_words} {size}"

    @property
    def count_words(self) -> str:
        """How many pairs or values are compared."""
        if isinstance(self.n, int):
            return count(self.n, "pair")
        return f"{self.n[0]:,} and {self.n[1]:,} values"


def _round(value: float, precision: float) -> str:
    """The value, rounded to two significant digits of the precision."""
    places = decimals(precision)
    return f"{value:.3g}" if places > 9 or abs(value) >= 1e12 else rounded(value, places)


def _p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
