from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import NotFound, UsageError
from runyard.stats.conditions import Condition, Goal, Scope, Verdict, parse, parse_rule


@dataclass
class Table:
    """Figures from a dict; what is not there is NaN."""

    known: Mapping[tuple[str, str, float | None], float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    asked: list[tuple[str, str, float | None]] = field(default_factory=list)

    def statistic(self, name: str, metric: str, level: float | None) -> float:
        self.asked.append((name, metric, level))
        return self.known.get((name, metric, level), math.nan)

    def share(self, status: str) -> float:
        return self.shares.get(status, math.nan)


@dataclass
class Sides:
    """Sides from a dict; a difference's figures are told apart by their numbers."""

    means: Mapping[str, float]
    asked: list[tuple[str, str, str, float | None]] = field(default_factory=list)

    def of(self, label: str) -> Table:
        mean = self.means[label]
        return Table({("mean", "score", None): mean}, {"failed": mean / 10, "completed": 1.0})

    def mean(self, label: str) -> float:
        return self.means[label]

    def difference(self, figure: str, first: str, second: str, level: float | None) -> float:
        self.asked.append((figure, first, second, level))
        return {"effect": 0.1, "low": 0.05, "high": 0.15, "ci": 0.05, "p": 0.01}[figure]


SCORE = Table({("mean", "score", None): 0.74, ("ci", "score", 0.95): 0.03, ("sd", "x", None): 0.0})


def holds(text: str, table: Table = SCORE) -> bool:
    return parse(text).evaluate(table).holds


def test_the_verdict_shows_the_figures_put_in() -> None:
    verdict = parse("mean(score) >= 0.8").evaluate(SCORE)
    assert (verdict.holds, verdict.known) == (False, True)
    assert verdict.text == "mean(score) = 0.74 >= 0.8: no"
    assert verdict.figures == {"mean(score)": 0.74}


def test_every_part_of_a_joined_condition_is_shown() -> None:
    table = Table(SCORE.known, {"failed": 0.01})
    verdict = parse("mean(score) > 80% or not failed > 5% and 1 < 2").evaluate(table)
    assert verdict.holds
    assert verdict.text == (
        "(mean(score) = 0.74 > 80%: no) or ((not (failed = 0.01 > 5%: no)) and (1 < 2: yes))"
    )


def test_figures_that_look_alike_are_shown_in_full() -> None:
    table = Table({("mean", "m", None): 0.79999999})
    assert parse("m >= 0.8").evaluate(table).text == "m = 0.79999999 >= 0.8: no"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1 < 2", True), ("2 < 2", False), ("2 <= 2", True), ("3 > 2", True), ("2 >= 3", False),
        ("2 == 2", True), ("2 != 2", False), ("1e3 == 1000", True), (".5 == 50%", True),
        ("12.5 % == 0.125", True), ("1 + 2 * 3 == 7", True), ("(1 + 2) * 3 == 9", True),
        ("8 - 4 - 2 == 2", True), ("8 / 4 / 2 == 1", True), ("-2 < -1", True), ("--1 == 1", True),
        ("2 - -3 == 5", True), ("-2 * 3 == -6", True), ("((1)) < (2)", True),
        ("not 1 > 2", True), ("not (1 < 2 and 2 < 1)", True), ("not not 1 < 2", True),
        ("1 > 2 and 1 > 2 or 1 < 2", True), ("1 > 2 and (1 > 2 or 1 < 2)", False),
        ("1 < 2 OR 1 > 2", True), ("not 1 < 2 or 1 < 2", True), ("mean( score )<1", True),
        ("ci95(mean(score)) < 0.05", True), ("ci95(score) < 0.05", True),
        ("ci95(rate(score)) > 5%", False), ("score + ci95(score) * 2 >= 0.8", True),
    ],
)  # fmt: skip
def test_precedence_and_signs_are_those_of_arithmetic(text: str, answer: bool) -> None:
    assert holds(text) is answer


def test_a_bare_name_is_a_variant_where_there_is_one_and_a_metric_otherwise() -> None:
    table = Table({("mean", "score", None): 0.5})
    sides = Sides({"a": 0.71, "b": 0.70, "gpt-4": 0.9})
    scope = Scope(["a", "b", "gpt-4"], ["score", "a"], [], "score")

    def judged(text: str) -> Verdict:
        return parse(text).within(scope).evaluate(table, sides)

    assert not judged("b >= a").holds
    assert judged("b >= a - 0.02").holds
    assert judged('"gpt-4" > b').holds
    assert judged("score == 0.5").holds
    assert judged("b >= a - 0.02").text == "b = 0.7 >= a - 0.02 = 0.69: yes"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("mean(scores.exact)", ("mean", "scores.exact", None)),
        ("sd(m)", ("sd", "m", None)), ("min(m)", ("min", "m", None)),
        ("max(m)", ("max", "m", None)), ("median(m)", ("median", "m", None)),
        ("sum(cost)", ("sum", "cost", None)), ("count(m)", ("count", "m", None)),
        ("rate(m)", ("rate", "m", None)), ("q90(m)", ("quantile", "m", 0.9)),
        ("p99.9(m)", ("quantile", "m", 0.999)), ("q5(m)", ("quantile", "m", 0.05)),
        ("ci99(mean(m))", ("ci", "m", 0.99)), ("low90(m)", ("low", "m", 0.9)),
        ("high99.5(rate(m))", ("high", "m", 0.995)), ("m.0.x", ("mean", "m.0.x", None)),
        ('mean("p-value")', ("mean", "p-value", None)), ("max('a b')", ("max", "a b", None)),
        (r'sum("say \"so\" \\")', ("sum", 'say "so" \\', None)), ("größe", ("mean", "größe", None)),
        ('"failed"', ("mean", "failed", None)), ("mean", ("mean", "mean", None)),
    ],
)  # fmt: skip
def test_each_term_asks_for_its_figure_once(
    text: str, asked: tuple[str, str, float | None]
) -> None:
    table = Table({asked: 3.0})
    condition = parse(f"{text} > 2 and {text} < 4")
    assert condition.evaluate(table).holds
    assert table.asked == [asked]
    assert condition.metrics() == (asked[1],)


def test_failed_and_completed_are_shares_of_the_tasks() -> None:
    table = Table(shares={"failed": 0.02, "completed": 0.97})
    assert holds("failed < 5% and completed >= 0.95", table)
    assert parse("failed < 5%").metrics() == ()


def test_metrics_are_listed_once_and_labels_are_told_apart() -> None:
    condition = parse("mean(x) > 1 and b >= a or ci95(x) < 0.1 and y > -sd(z)")
    assert condition.metrics() == ("x", "b", "a", "y", "z")
    scope = Scope(["a", "b", "x"], ["x", "y", "z"], [], "x")
    assert condition.within(scope).metrics() == ("x", "y", "z")


def test_the_widths_waited_for_are_listed() -> None:
    condition = parse("ci95(mean(x)) < 0.5 and (0.1 >= ci99(y) or x > 3) and ci90(z) > 2")
    assert condition.goals() == (Goal("x", 0.95, 0.5), Goal("y", 0.99, 0.1))
    assert parse("not ci95(x) < 1").goals() == ()


@pytest.mark.parametrize(
    "text",
    [
        "gone > 1", "not gone > 1", "gone > 1 and 1 < 2", "gone > 1 or 1 > 2", "1 / sd(x) > 0",
        "gone == gone", "not (gone != 0 or 2 < 1)",
    ],
)  # fmt: skip
def test_a_figure_that_is_missing_never_lets_a_condition_hold(text: str) -> None:
    verdict = parse(text).evaluate(SCORE)
    assert (verdict.holds, verdict.known) == (False, False)
    assert "no data" in verdict.text
    assert "unknown" in verdict.text


def test_what_is_known_decides_where_it_can() -> None:
    assert parse("gone > 1 or 1 < 2").evaluate(SCORE).holds
    assert parse("gone > 1 and 1 > 2").evaluate(SCORE).known


def test_an_interval_without_end_is_wider_than_any_target() -> None:
    table = Table({("ci", "m", 0.95): math.inf})
    assert not holds("ci95(m) < 1000", table)
    assert holds("not ci95(m) < 1000", table)


def test_an_error_of_the_values_reaches_the_caller() -> None:
    class Empty(Table):
        def statistic(self, name: str, metric: str, level: float | None) -> float:
            raise NotFound(f"no metric {metric}")

    with pytest.raises(NotFound):
        parse("profit > 1").evaluate(Empty())


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "found the end"), ("   ", 0, "found the end"),
        ("mean(score", 10, r"expected '\)' and found the end"),
        ("mean(score >= 1", 11, r"expected '\)' and found '>='"),
        ("mean() > 1", 5, "expected the name of a metric"),
        ("mean(3) > 1", 5, "expected the name of a metric"),
        ("mean(and) > 1", 5, "expected the name of a metric"),
        ("mean('') > 1", 5, "expected the name of a metric"),
        ("a = b", 2, "write == for equal"), ("a && b", 2, "write 'and'"),
        ("a > 1 || b > 1", 6, "write 'or'"), ("!a", 0, "write 'not'"),
        ("mean(a, b) > 1", 6, "functions take one metric"), ("x > 0,5", 5, "decimal point"),
        ("mean(score)", 0, "only a number"), ("a > 1 and b", 10, "only a number"),
        ("not a", 4, "only a number"), ("1 < m < 2", 6, "join two comparisons with 'and'"),
        ("(a > b) + 1 > 2", 0, "found a comparison"), ("a > (b > c)", 4, "found a comparison"),
        ("foo(x) > 1", 0, "no function 'foo'"), ("ci(x) > 1", 0, "no function 'ci'"),
        ("ci0(x) > 1", 0, "a level of 0"), ("ci100(x) > 1", 0, "no function"),
        ("ci95(median(m)) < 1", 5, r"mean\(metric\) or rate\(metric\)"),
        ("a > 1 b > 2", 6, "expected 'and', 'or' or the end and found 'b'"),
        ("5m > 2", 1, "comparison such as < and found 'm'"), ("x > 1e999", 4, "too large"),
        ("x > 1e9999999%", 4, "too large"), ("x > 1e99999999999999999999%", 4, "too large"),
        ("a > * 2", 4, "found '\\*'"),
        ("a >", 3, "found the end"), ("a > 'b", 4, "quote is not closed"),
        ("and", 0, "found 'and'"),
        ("(1 < 2", 6, r"expected '\)'"), ("1 < 2)", 5, r"found '\)'"), ("x > +1", 4, r"'\+'"),
        ("__import__('os') > 1", 0, "no function '__import__'"), ("a.b[0] > 1", 3, "dotted path"),
        ("(" * 60 + "1 < 2" + ")" * 60, 40, "nests deeper"), ("1+" * 150 + "1 > 2", 200, "words"),
    ],
)  # fmt: skip
def test_an_error_points_at_the_place_and_says_what_was_expected(
    text: str, at: int, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse(text)
    shown, caret = caught.value.message.split("\n")[1:3]
    start = max(0, at - 60)
    assert shown.strip() in text
    assert caret.index("^") == 4 + at - start


names = st.from_regex(r"[^\W\d]\w{0,4}(\.\w{1,3}){0,2}", fullmatch=True) | st.text(
    min_size=1, max_size=6
)
quoted = names.map(lambda n: '"' + n.replace("\\", "\\\\").replace('"', '\\"') + '"')
levels = st.sampled_from(["50", "90", "95", "99", "99.9", "5", "2.5"])
numbers = st.floats(0, 1e12).map(repr) | st.integers(0, 999).map(lambda n: f"{n}%")
statistics = st.builds(
    "{}({})".format,
    st.sampled_from(["mean", "sd", "min", "max", "median", "sum", "count", "rate"])
    | levels.map("q{}".format) | levels.map("ci{}".format) | levels.map("low{}".format),
    quoted,
)  # fmt: skip
of_sides = st.builds(
    "{}.{}".format, quoted, statistics | st.sampled_from(["failed", "completed"])
) | st.builds("{}({} - {})".format, levels.map("low{}".format) | st.just("p"), quoted, quoted)
terms = st.recursive(
    numbers | quoted | statistics | of_sides | st.sampled_from(["failed", "completed", "p"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner)
        | st.builds("{} {} {}".format, inner, st.sampled_from("+-*/"), inner)
        | st.builds("-{}".format, inner)
    ),
    max_leaves=5,
)
comparisons = st.builds(
    "{} {} {}".format, terms, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), terms
)
conditions = st.recursive(
    comparisons,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("{} {} {}".format, inner, st.sampled_from(["and", "or", "AND"]), inner)
        | st.builds("not {}".format, inner)
    ),
    max_leaves=5,
)


@given(conditions)
def test_a_condition_prints_as_a_text_that_reads_back_the_same(text: str) -> None:
    condition = parse(text)
    again = parse(str(condition))
    assert again == condition
    assert str(again) == str(condition)


@given(conditions)
def test_any_condition_can_be_judged(text: str) -> None:
    class Ones(Table):
        def statistic(self, name: str, metric: str, level: float | None) -> float:
            return 1.0

    class AnySide(Sides):
        def of(self, label: str) -> Table:
            return Table()

    ones = Ones(shares={"failed": 0.5, "completed": 0.5})
    verdict = parse(text).evaluate(ones, AnySide({}))
    assert verdict.text
    assert verdict.known or not verdict.holds


@given(st.text(max_size=60) | st.text("()<>=!+-*/%.\"'\\andortmeci950 ", max_size=60))
def test_hostile_text_is_a_condition_or_an_error_for_people(text: str) -> None:
    try:
        found = parse(text)
    except UsageError as error:
        assert "^" in error.message
        return
    assert isinstance(found, Condition)
    assert parse(str(found)) == found


@given(conditions, st.integers(0, 200), st.characters())
def test_a_condition_with_one_wrong_character_never_breaks_the_reader(
    text: str, at: int, character: str
) -> None:
    try:
        parse(text[:at] + character + text[at + 1 :])
    except UsageError:
        pass


# Conditions on what is compared

SIDES = Sides({"new": 0.8, "old": 0.7, "my batch": 0.6})
SCOPE = Scope(list(SIDES.means), ["score", "n"], [("old", "new"), ("my batch", "old")], "score")


def compared(text: str, scope: Scope = SCOPE) -> Verdict:
    return parse(text).within(scope).evaluate(SIDES.of("old"), SIDES, ("old", "new"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("new.failed < 10%", "new.failed = 0.08 < 10%: yes"),
        ("failed < 5%", "failed = 0.07 < 5%: no"),
        ("new.mean(score) >= 0.8", "new.mean(score) = 0.8 >= 0.8: yes"),
        ("new.score >= 0.8", "new.mean(score) = 0.8 >= 0.8: yes"),
        ('"my batch".failed < 1%', '"my batch".failed = 0.06 < 1%: no'),
        ('"my batch".mean("score") > 0', '"my batch".mean(score) = 0.6 > 0: yes'),
        ('"my batch".score > 0', '"my batch".mean(score) = 0.6 > 0: yes'),
        ("new >= old - 0.02", "new = 0.8 >= old - 0.02 = 0.68: yes"),
        ("new - old > 0.02", "new - old = 0.1 > 0.02: yes"),
        ("low95(new - old) > 0", "low95(new - old) = 0.05 > 0: yes"),
        ("high90(old - new) < 0.1", "high90(old - new) = 0.15 < 0.1: no"),
        ("ci95('my batch' - old) < 0.1", 'ci95("my batch" - old) = 0.05 < 0.1: yes'),
        ("p(new - old) < 0.05", "p(new - old) = 0.01 < 0.05: yes"),
        ("p < 0.05 and n > 0", "(p = 0.01 < 0.05: yes) and (n = no data > 0: unknown)"),
        ('new - "my batch" > 0.1', 'new - "my batch" = 0.2 > 0.1: yes'),
        ("score > 0.6", "score = 0.7 > 0.6: yes"),
        ("score > -1", "score = 0.7 > -1: yes"),
        ("-(old - old) >= - 2%", "-(old - old) = 0 >= -2%: yes"),
    ],
)
def test_figures_of_one_side_and_of_differences_are_put_in(text: str, shown: str) -> None:
    assert compared(text).text == shown


def test_only_sides_that_are_compared_have_the_difference_of_a_comparison() -> None:
    sides = Sides(SIDES.means)
    text = 'new - old > 0 and new - "my batch" > 0 and low95(new - old) > 0'
    parse(text).within(SCOPE).evaluate(Table(), sides)
    assert sides.asked == [("effect", "new", "old", None), ("low", "new", "old", 0.95)]
    with pytest.raises(UsageError, match="'new' is not compared with 'my batch'"):
        compared('low95(new - "my batch") > 0')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nwe.failed < 1%", "'nwe' in the condition is not a side[^?]*did you mean new?"),
        ("nwe >= old", "'nwe' in the condition is neither a metric nor[^?]*did you mean new?"),
        ("mean(scroe) > 1", "'scroe' in the condition is not a metric[^?]*did you mean score?"),
        ("new.mean(scroe) > 1", "'scroe' in the condition is not a metric[^?]*did you mean score?"),
        ("new.scroe > 1", "'scroe' in the condition is not a metric"),
        ("low95(new - od) > 1", "'od' in the condition is not a side[^?]*did you mean old?"),
        ("p(New - old) > 1", "did you mean new?"),
        ("my-batch.failed < 1", "'my' in the condition is neither"),
    ],
)
def test_a_name_that_is_nothing_is_refused_with_the_nearest_one(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        compared(text)
    assert re.search(says, str(caught.value))


def test_a_name_of_two_meanings_is_refused() -> None:
    scope = Scope(["a", "b"], ["score", "p", "a.score", "b.failed"], [("a", "b")], "score")
    for text in ("p < 0.05", "a.score > 1", "b.failed < 1"):
        with pytest.raises(
            UsageError, match=r"is both a metric and|is ambiguous: it is a metric, and"
        ):
            parse(text).within(scope)
    plain = parse("mean(p) < 0.05 and mean(a.score) > 1 and mean(b.failed) < 1").within(scope)
    assert plain.metrics() == ("p", "a.score", "b.failed")
    alone = Scope([], ["p", "checks.failed"])
    assert parse("p < 1 and checks.failed < 1").within(alone).metrics() == ("p", "checks.failed")


def test_a_comparison_takes_something_to_compare() -> None:
    sides_only = Scope(["new", "old"], ["score", "n"])
    for text in ("p < 0.05", "p(new - old) < 0.05", "low95(new - old) > 0"):
        with pytest.raises(UsageError, match=r"needs a comparison[^?]*add --metric"):
            parse(text).within(sides_only)
    with pytest.raises(UsageError, match="'new' means its mean"):
        parse("new >= old").within(sides_only)
    parse("new.failed < 1% and new.mean(n) > 0").within(sides_only)


@pytest.mark.parametrize(
    ("text", "of_each", "of_each_pair"),
    [
        ("failed < 1%", True, False), ("new.failed < 1%", False, False),
        ("mean(score) > 0 and new >= old", True, False), ("new - old > 0", False, False),
        ("n > 0", True, False), ("p < 0.05", False, True), ("p(new - old) < 0.05", False, False),
        ("p < 0.05 and not failed > 1%", True, True),
    ],
)  # fmt: skip
def test_a_condition_is_about_each_side_unless_it_names_one(
    text: str, of_each: bool, of_each_pair: bool
) -> None:
    condition = parse(text).within(SCOPE)
    assert (condition.is_of_each, condition.is_of_each_pair) == (of_each, of_each_pair)


def test_rate_declares_a_metric_to_be_one() -> None:
    condition = parse(
        "rate(a) > 0 and ci95(rate(b)) < 1 and mean(c) > 0 and new.low95(rate(d)) > 0"
    )
    assert condition.rates() == {"a", "b", "d"}


@pytest.mark.parametrize(
    "text", ["low95(new - old) > 0", "p(new - old) < 1", "p < 0.05", "mean(x) > 1 or a.mean(x) > 1"]
)
def test_a_rule_for_when_to_stop_has_nothing_to_compare(text: str) -> None:
    with pytest.raises(UsageError, match="compares sides, but a stop rule is about one batch"):
        parse_rule(text)


def test_a_rule_for_when_to_stop_may_subtract_metrics() -> None:
    assert parse_rule("x - y > 0 and checks.failed < 1").metrics() == ("x", "y", "checks.failed")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("low95(my-batch - old) > 0", "quote a name with dashes"),
        ("low95(a - b - c) > 0", "quote a name with dashes"),
        ("walk-2.failed < 1%", "quote a name with dashes"),
        ("walk-12ab.failed < 1%", "quote a name with dashes"),
        ("new.p(a - b) < 1", "a difference is between two sides"),
        ("p(new) < 1", "expected '-'"),
        ("low95(new - ) < 1", "expected the name of the other side"),
        ("new.foo(x) > 1", "there is no function 'foo'"),
        ("ci0(a - b) > 1", "a level of 0"),
        ('"a" > .b', "expected a number"),
    ],
)
def test_what_is_no_difference_and_no_side_is_explained(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert says in str(caught.value)
