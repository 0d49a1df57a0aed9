"""`runyard letitride exact` and `ruin`, as they are typed."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import Call, Said, call

from runyard.doors.letitride import cache
from runyard.doors.letitride.commands import SECTIONS, letitride

FLAT = """
simulation: {hands_per_session: 40}
bankroll: {starting_amount: 60, base_bet: 5, stop_conditions: {win_limit: 80}}
bonus_strategy: {enabled: true, type: always, always: {amount: 1}}
"""
MARTINGALE = """
simulation: {hands_per_session: 40}
bankroll: {starting_amount: 60, base_bet: 5, betting_system: {type: martingale}}
"""
CUSTOM = """
strategy:
  type: custom
  custom:
    bet1_rules: [{condition: has_paying_hand, action: ride}]
    bet2_rules: [{condition: has_paying_hand, action: ride}]
paytables: {main_game: {type: custom, custom: {flush: 6, two_pair: 1.5}}}
"""
OWN = """
class Careful:
    def ride_bet1(self, hand):
        return hand.has_paying_hand
    ride_bet2 = ride_bet1

class Hasty:
    def ride_bet1(self, hand):
        return hand.hunch
    ride_bet2 = ride_bet1

class Half:
    def ride_bet1(self, hand):
        return True
"""


@pytest.fixture
def typed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """The command line in a folder of its own, which keeps what is kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def letitride(*words: str) -> Said:
        return call(capfd, "letitride", *words)

    return letitride


def fractions(found: Any) -> list[dict[str, Any]]:
    """Every figure that has a fraction, wherever it stands."""
    if isinstance(found, list):
        return [figure for each in found for figure in fractions(each)]
    if not isinstance(found, dict):
        return []
    own = [found] if "fraction" in found else []
    return own + [figure for each in found.values() for figure in fractions(each)]


@pytest.mark.parametrize("name", [name for group in SECTIONS.values() for name in group])
def test_each_command_explains_itself(name: str) -> None:
    command = letitride.get_command(click.Context(letitride), name)
    assert command is not None
    text = command.get_help(click.Context(command, info_name=f"runyard letitride {name}"))
    assert "Examples:" in text
    assert "--json" in text
    assert all(p.help for p in command.params if isinstance(p, click.Option))


def test_help_loads_nothing_heavy() -> None:
    script = """
import sys
from runyard.cli.main import main
assert main(["letitride", "--help"]) == main(["letitride", "ruin", "--help"]) == 0
heavy = {"numpy", "numba", "msgspec", "yaml"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
rules = [name for name in sys.modules if name.startswith("runyard.doors.letitride.")]
assert all(".commands" in name for name in rules), rules
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)


def test_exact_answers_are_fractions_with_their_values(typed: Call) -> None:
    found = typed("exact", "--json").last
    assert found["ev"]["fraction"] == "-37963/1082900"
    assert found["ev"]["value"] == -37963 / 1082900
    assert found["ev_by_bet"]["bet1"]["fraction"] == "354517/3248700"
    assert found["ev_by_bet"]["bet2"]["fraction"] == "742459/3248700"
    assert Fraction(found["ride"]["bet1"]["fraction"]) == Fraction(1608, 22100)
    assert (found["ride"]["bet2"]["hands"], found["ride"]["bet2"]["of"]) == (40865, 270725)
    assert found["hands"]["royal_flush"]["count"] == 4
    assert Fraction(found["bonus"]["paytable_a"]["house_edge"]["fraction"]) == Fraction(1568, 22100)
    assert found["optimal"]["zero_hands"] == {"bet1": 0, "bet2": 2268}
    assert found["cost"]["fraction"] == "0"
    assert found["mistakes"] == []
    figures = fractions(found)
    assert len(figures) > 100
    assert all(float(Fraction(each["fraction"])) == each["value"] for each in figures)


def test_exact_answers_are_told_in_words_too(typed: Call) -> None:
    said = typed("exact", "--strategy", "aggressive", "--table")
    assert said.code == 0
    for words in (
        "-0.1473450919 = -7978/54145",
        "(6,476 of 22,100 hands)",
        "three to a straight flush, in 3 straights  [is_flush_draw and straights == 3]",
        "2,268 more hands have a value of exactly 0",
        "Mistakes of this strategy",
        "+26.6041666667",
    ):
        assert words in said.out


def test_costs_of_a_strategy_add_up_to_what_it_loses(typed: Call) -> None:
    found = typed("exact", "--strategy", "conservative", "--json").last
    cost = Fraction(found["cost"]["fraction"])
    assert cost > 0
    assert sum(Fraction(each["cost"]["fraction"]) for each in found["mistakes"]) == cost
    assert Fraction(found["optimal"]["ev"]["fraction"]) - cost == Fraction(found["ev"]["fraction"])


def test_pays_may_be_changed_in_place_and_come_from_a_configuration(
    typed: Call, tmp_path: Path
) -> None:
    (tmp_path / "custom.yaml").write_text(CUSTOM)
    placed = typed("exact", "--paytable", "flush=6,two_pair=3/2", "--json").last
    read = typed("exact", "--paytable", "custom.yaml", "--json").last
    assert placed == read
    assert placed["paytable"]["two_pair"] == "3/2"
    assert placed["ev"]["value"] < -37963 / 1082900


def test_a_strategy_may_be_a_configuration_s_or_a_class_of_one_s_own(
    typed: Call, tmp_path: Path
) -> None:
    (tmp_path / "custom.yaml").write_text(CUSTOM)
    (tmp_path / "own.py").write_text(OWN)
    known = typed("exact", "--strategy", "conservative", "--json").last
    for name in ("custom.yaml", "own.py:Careful"):
        found = typed("exact", "--strategy", name, "--json").last
        assert found | {"strategy": ""} == known | {"strategy": ""}


@pytest.mark.parametrize(("bonus", "edge"), [("c", "-2592/5525"), ("pair=2", "-2752/22100")])
def test_the_bonus_may_be_chosen(typed: Call, bonus: str, edge: str) -> None:
    (found,) = typed("exact", "--bonus", bonus, "--json").last["bonus"].values()
    assert Fraction(found["house_edge"]["fraction"]) == Fraction(edge)


def test_answers_are_kept_and_damaged_ones_made_again(
    typed: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = typed("exact", "--json").out
    (path,) = cache.folder().glob("*.json")
    with monkeypatch.context() as patched:
        patched.setattr("runyard.doors.letitride.exact.answers._answer", pytest.fail)
        assert typed("exact", "--json").out == first
    path.write_text(path.read_text()[:500])
    assert typed("exact", "--json").out == first
    assert typed("exact", "--paytable", "flush=7", "--json").out != first
    assert len(list(cache.folder().glob("*"))) == 2


def test_a_cache_that_cannot_be_written_is_done_without(
    typed: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert typed("exact", "--json").last["ev"]["fraction"] == "-37963/1082900"


def test_only_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "MOST", 3)
    for number in range(6):
        assert cache.cached(number, lambda: {"made": True}) == {"made": True}
    assert len(list(cache.folder().glob("*.json"))) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exact", "--paytable", "flsh=3"], "unknown hand 'flsh'"),
        (["exact", "--paytable", "flush=-1"], "flush pays -1"),
        (["exact", "--paytable", "tight"], "'tight' is neither a known name nor a file"),
        (["exact", "--strategy", "brave"], "'brave' is neither a known name nor a file"),
        (["exact", "--strategy", "own.py:Half"], "own.py:Half is not a strategy"),
        (["exact", "--strategy", "own.py:None"], "has no function 'None'"),
        (["exact", "--strategy", "own.py:Hasty"], "the strategy failed on 2h 2d 2c"),
        (["exact", "--bonus", "z"], "'z' is neither a known name nor a file"),
        (["ruin", "--bankroll", "much"], "'much' is not an amount of money"),
        (["ruin", "--bankroll", ""], "names no amount"),
        (["ruin", "--endless", "--hands", "9"], "can't be combined"),
        (["ruin", "martingale.yaml", "--endless"], "a simulation needs a limit"),
        (["ruin", "--bonus-bet", "1000"], "bonus_strategy.always.amount is 1000"),
        (["exakt"], "did you mean 'exact'?"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(
    typed: Call, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "martingale.yaml").write_text(MARTINGALE)
    answer = typed(*words)
    assert answer.code == 2
    assert said in answer.err


def test_ruin_of_flat_bets_is_exact_and_what_simulated_sessions_show(
    typed: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flat.yaml").write_text(FLAT)
    words = ("ruin", "flat.yaml", "--bankroll", "30,60,120", "--json")
    exact = typed(*words).last["ruin"]
    assert {each["method"] for each in exact} == {"exact"}
    monkeypatch.setattr("runyard.doors.letitride.report.risk.flat_bonus", lambda game: None)
    simulated = typed(*words, "--sessions", "40000").last["ruin"]
    assert {each["method"] for each in simulated} == {"simulated"}
    for a, b in zip(exact, simulated, strict=True):
        assert a["bankroll"] == b["bankroll"]
        for reason, share in b["stops"].items():
            p = a["stops"][reason]
            assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / 40_000) + 1e-9
        assert b["mean_hands"] == pytest.approx(a["mean_hands"], rel=0.02)


def test_ruin_of_bets_that_change_is_simulated_with_its_interval(
    typed: Call, tmp_path: Path
) -> None:
    (tmp_path / "martingale.yaml").write_text(MARTINGALE)
    words = ("ruin", "martingale.yaml", "--sessions", "15000", "--bankroll", "60,600")
    few, many = typed(*words, "--json").last["ruin"]
    assert few["method"] == many["method"] == "simulated"
    assert many["ruin"] < few["ruin"] <= few["interval"][1]
    assert few["interval"][0] <= few["ruin"]
    assert typed(*words, "--json").last["ruin"] == [few, many]
    assert "simulated: 15,000 sessions" in typed(*words).out


def test_options_of_ruin_take_the_place_of_the_configuration_s(typed: Call, tmp_path: Path) -> None:
    (tmp_path / "flat.yaml").write_text(FLAT)
    options = ("--bankroll", "60", "--hands", "40", "--win-limit", "80", "--bonus-bet", "1")
    assert (
        typed("ruin", *options, "--json").last
        == typed("ruin", "flat.yaml", "--bankroll", "60", "--json").last
    )
    bonus = "bonus_strategy: {enabled: true, type: static, static: {amount: 2}}"
    (tmp_path / "static.yaml").write_text(bonus)
    assert (
        typed("ruin", "static.yaml", *options, "--json").last
        == typed("ruin", *options, "--json").last
    )
    pulled = typed("ruin", *options, "--strategy", "always_pull", "--json").last["ruin"][0]
    ridden = typed("ruin", *options, "--strategy", "always_ride", "--json").last["ruin"][0]
    assert pulled["ruin"] < ridden["ruin"]


def test_ruin_without_an_end_is_certain_unless_the_game_gains(typed: Call) -> None:
    lost = typed("ruin", "--endless", "--bankroll", "5000", "--json").last["ruin"][0]
    assert (lost["ruin"], lost["mean_hands"]) == (1.0, None)
    gains = ("ruin", "--endless", "--paytable", "pair_tens_or_better=2", "--bankroll", "100")
    won = typed(*gains, "--json").last["ruin"][0]
    assert 0 < won["ruin"] < 1
    assert won["ruin"] + won["stops"]["never"] == pytest.approx(1)
    assert "exact, by Markov chain" in typed(*gains).out
