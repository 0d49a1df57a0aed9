"""Configurations: every mistake is named with its place, its value and what is allowed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from letitride_configs import configurations

from runyard.doors.letitride import FullConfig, read_file
from runyard.doors.letitride.config.file import starting_text
from runyard.errors import NotFound, UsageError

EXAMPLES = Path(__file__).parents[4] / "examples" / "letitride"


def nested(path: str, value: Any) -> dict[str, Any]:
    """The data with one value at a dotted path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def refused(data: dict[str, Any]) -> UsageError:
    with pytest.raises(UsageError) as caught:
        FullConfig.from_data(data)
    return caught.value


@pytest.mark.parametrize("name", ["game.yaml", "game.yml", "game.toml", "GAME.TOML"])
def test_the_file_that_init_writes_reads_as_the_defaults(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(starting_text(path))
    assert read_file(path) == FullConfig() == FullConfig.from_data({})


@pytest.mark.parametrize("name", ["game.yaml", "game.toml"])
def test_the_file_that_init_writes_names_every_key(name: str) -> None:
    words = set(re.findall(r"\w+", starting_text(name)))
    unsaid = {"max_duration_minutes"} if name == "game.toml" else set()  # null alone is allowed
    assert keys_of(FullConfig) - words == unsaid


def test_what_init_leaves_out_of_toml_can_be_put_in() -> None:
    blocks = re.split(r"\n(?=\n\[)", starting_text("game.toml"))
    block = next(each for each in blocks if each.startswith("\n[strategy]"))
    given = re.sub(r"^# (?=\[|\w+ = |  \{|\])", "", block, flags=re.MULTILINE)
    found = tomllib.loads(given)["strategy"]
    assert found.keys() == {"type", "conservative", "aggressive", "custom"}
    for kind in ("conservative", "aggressive", "custom"):
        FullConfig.from_data({"strategy": {"type": kind, kind: found[kind]}})


def keys_of(part: type) -> set[str]:
    """Every key of a part and the parts in it."""
    found: set[str] = set()
    for name, kind in get_type_hints(part).items():
        inner = [k for k in (kind, *get_args(kind)) if isinstance(k, type)]
        parts = [k for k in inner if issubclass(k, msgspec.Struct)]
        found |= {name}.union(*map(keys_of, parts))
    return found


@given(configurations())
@settings(max_examples=50)
def test_a_configuration_survives_being_written_out(config: FullConfig) -> None:
    assert FullConfig.from_data(config.to_data()) == config


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", f"x = {'[' * 5000}"), ("a.toml", f"x = {'9' * 5000}"),
        ("a.yaml", "[" * 5000), ("a.yaml", f"x: {'9' * 5000}"), ("a.yaml", "x: 2020-99-99"),
    ],
)  # fmt: skip
def test_what_no_reader_can_take_is_refused_in_words(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=name):
        read_file(tmp_path / name)


def test_toml_and_yaml_say_the_same(tmp_path: Path) -> None:
    toml, yaml = tmp_path / "a.toml", tmp_path / "a.yml"
    toml.write_text('[simulation]\nnum_sessions = 5\n[strategy]\ntype = "always_ride"\n')
    yaml.write_text("simulation: {num_sessions: 5}\nstrategy: {type: always_ride}\n")
    assert read_file(toml) == read_file(yaml) != FullConfig()


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [
        ("simulation.num_sessions", 0, "from 1 to 100,000,000"),
        ("simulation.num_sessions", 100_000_001, "from 1 to 100,000,000"),
        ("simulation.hands_per_session", 10_001, "from 1 to 10,000"),
        ("simulation.hands_per_session", 2.5, "whole number"),
        ("simulation.random_seed", -1, ">= 0"),
        ("simulation.workers", 0, "auto"),
        ("simulation.workers", "four", "auto"),
        ("simulation.detailed_logging", "yes", "true or false"),
        ("table.num_seats", 7, "from 1 to 6"),
        ("dealer.discard_cards", 11, "from 1 to 10"),
        ("bankroll.base_bet", "5", "a number"),
        ("bankroll.base_bet", -5, "> 0"),
        ("bankroll.base_bet", 0.001, "two decimals"),
        ("bankroll.starting_amount", 14, "3 × base_bet"),
        ("bankroll.betting_system.type", "martngale", "martingale"),
        ("strategy.type", "perfect", "always_pull"),
        ("strategy.conservative.min_strength_bet1", 0, "a whole number from 1 to 10"),
        ("strategy.conservative.min_strength_bet2", 11, "a whole number from 1 to 10"),
        ("strategy.conservative.min_strength_bet2", "trips", "a whole number from 1 to 10"),
        ("output.formats.csv", [], "keys with values"),
        ("output.prefix", "a/b", "plain name"),
        ("output.visualizations.charts", [{"type": "pie"}], "hand_frequency"),
        ("bonus_strategy.limits.min_bet", 30, "at most 25"),
        ("simulation.num_sessions", "\ud800", "the character itself"),
        ("metadata.name", "\ud800", "the character itself"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(
    path: str, value: Any, allowed: str
) -> None:
    error = refused(nested(path, value))
    assert path in error.message
    assert allowed in (error.hint or "")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("paytables.main_game.type", "liberal"),
        ("paytables.main_game.type", "tight"),
        ("bonus_strategy.type", "session_conditional"),
        ("bonus_strategy.type", "combined"),
        ("bonus_strategy.type", "custom"),
        ("bankroll.betting_system.type", "custom"),
        ("paytables.bonus.progressive", {"starting_jackpot": 10000}),
        ("bankroll.stop_conditions.max_duration_minutes", 60),
        ("deck.shuffle_algorithm", "cryptographic"),
        ("bankroll.stop_conditions.stop_on_insufficient_funds", False),
    ],
)
def test_what_nothing_defines_or_would_break_a_promise_is_refused_with_the_reason(
    path: str, value: Any
) -> None:
    error = refused(nested(path, value))
    assert path in error.message
    assert "refused, because" in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("data", "key", "place"),
    [
        ({"simulatoin": {}}, "simulatoin", "at the top"),
        (nested("bankroll.stop_conditions.winlimit", 5), "winlimit", "in bankroll.stop_conditions"),
        (nested("strategy.custom", {"bet1_rules": [{"condition": "default", "do": "ride"}]}),
         "do", "strategy.custom.bet1_rules[0]"),
        (nested("output.visualizations.charts", [{"type": "hand_frequency", "tile": 1}]),
         "tile", "charts[0]"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_where_it_stands(
    data: dict[str, Any], key: str, place: str
) -> None:
    error = refused(data)
    assert repr(key) in error.message
    assert place in error.message
    assert "known keys" in (error.hint or "")


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (nested("bankroll.betting_system", {"type": "flat", "martingale": {}}),
         "bankroll.betting_system.martingale"),
        (nested("strategy", {"type": "basic", "aggressive": {}}), "strategy.aggressive"),
        (nested("strategy.type", "custom"), "strategy.custom"),
        (nested("paytables.main_game.type", "custom"), "paytables.main_game.custom"),
        (nested("paytables.main_game.custom", {"flush": 6}), "paytables.main_game.custom"),
        (nested("bankroll.betting_system", {"type": "martingale", "martingale": {"max_bet": 4}}),
         "martingale.max_bet"),
        (nested("bankroll.betting_system",
                {"type": "proportional", "proportional": {"min_bet": 9, "max_bet": 8}}),
         "proportional.min_bet"),
        ({"bonus_strategy": {"paytable": "paytable_a"}, "paytables": {"bonus": {"type":
         "paytable_c"}}}, "bonus_strategy.paytable"),
        (nested("bonus_strategy", {"enabled": True, "type": "always", "always": {"amount": 26}}),
         "bonus_strategy.always.amount"),
        (nested("bonus_strategy", {"type": "static", "static": {"amount": 1, "ratio": 0.5}}),
         "bonus_strategy.static.ratio"),
        (nested("bonus_strategy", {"type": "streak_based", "streak_based":
                {"trigger": "main_win", "reset_on": "main_win"}}), "streak_based.reset_on"),
        (nested("simulation", {"detailed_logging": True, "num_sessions": 10_000_000}),
         "simulation.num_sessions"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(data: dict[str, Any], path: str) -> None:
    assert path in refused(data).message


def test_a_rule_that_can_t_be_read_is_named_with_its_place() -> None:
    rules = [
        {"condition": "has_pair", "action": "ride"},
        {"condition": "luck > 3", "action": "ride"},
    ]
    error = refused(nested("strategy", {"type": "custom", "custom": {"bet2_rules": rules}}))
    assert "strategy.custom.bet2_rules[1].condition" in error.message
    assert "'luck'" in error.message


def test_files_that_can_t_be_read_say_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="file not found"):
        read_file(tmp_path / "none.yaml")
    for name, text in (
        ("twice.yaml", "table: {num_seats: 1}\ntable: {num_seats: 2}\n"),
        ("broken.yaml", "table: [1"),
        ("broken.toml", "table = ["),
        ("list.yaml", "- 1\n"),
        ("game.ini", "x"),
        ("code.yaml", "table: !!python/object/apply:os.getcwd []"),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(UsageError, match=name):
            read_file(path)


def test_empty_sections_and_dates_are_taken_as_people_mean_them(tmp_path: Path) -> None:
    path = tmp_path / "game.yaml"
    path.write_text("simulation:\nmetadata:\n  version: 1.0\n  created: 2025-01-31\n")
    metadata = read_file(path).metadata
    assert (metadata.version, metadata.created) == ("1.0", "2025-01-31")


def test_the_bonus_table_may_be_named_in_either_place() -> None:
    for data in (nested("bonus_strategy.paytable", "paytable_a"),
                 nested("paytables.bonus.type", "paytable_a")):  # fmt: skip
        config = FullConfig.from_data(data)
        assert config.bonus_table.straight == 6
        assert FullConfig.from_data(config.to_data()) == config
    assert FullConfig().bonus_table_name == "paytable_b"


def test_with_changes_one_section_and_checks_it() -> None:
    config = FullConfig().with_(simulation={"num_sessions": 3})
    assert config.simulation.num_sessions == 3
    assert config.simulation.hands_per_session == 200
    with pytest.raises(UsageError):
        config.with_(simulation={"num_sessions": 0})


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_every_example_is_sound(path: Path) -> None:
    assert read_file(path).metadata.name
