"""`runyard letitride run`, `validate`, `init`, `compare`, and the files they write."""

from __future__ import annotations

import csv
import json
import os
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Call, Said, call

from runyard.backends.processes import close_pools
from runyard.doors.letitride.report import charts


@pytest.fixture
def cli(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Call]:
    """The command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNYARD_YARD", raising=False)

    def letitride(*words: str) -> Said:
        return call(capfd, "letitride", *words)

    yield letitride
    close_pools()


SMALL = ("--sessions", "50", "--hands", "20", "--seed", "7", "--workers", "1")


def write(path: str, **sections: Any) -> str:
    Path(path).write_text(json.dumps(sections))  # JSON is YAML
    return path


@pytest.mark.parametrize("name", ["game.txt", "game", "game.toml.bak"])
def test_init_refuses_a_name_that_says_no_format(cli: Call, name: str) -> None:
    said = cli("init", name)
    assert said.code == 2
    assert ".toml" in said.err
    assert not Path(name).exists()


def test_init_writes_toml_that_runs(cli: Call) -> None:
    assert cli("init", "game.toml").code == 0
    assert tomllib.loads(Path("game.toml").read_text())["simulation"]["num_sessions"] == 10_000
    assert cli("validate", "game.toml").code == 0
    assert cli("run", "game.toml", *SMALL).code == 0


def test_init_validate_and_run_from_nothing(cli: Call) -> None:
    assert cli("init", "game.yaml").code == 0
    assert cli("init", "game.yaml").code == 2, "it is there already"
    assert cli("init", "game.yaml", "--force").code == 0
    assert "is valid" in cli("validate", "game.yaml").out
    said = cli("run", "game.yaml", *SMALL)
    assert said.code == 0, said.err
    assert "50 sessions, 1,000 hands" in said.out
    assert "session profit in $, from" in said.out
    names = {path.name for path in Path("results").iterdir()}
    assert names == {"simulation_sessions.csv", "simulation_aggregate.csv",
                     "simulation_results.json"}  # fmt: skip


def test_files_are_written_where_the_reader_of_stdout_is_gone(cli: Call) -> None:
    write("game.yaml")
    reader, stdout = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "runyard", "letitride", "run", "game.yaml", *SMALL]
    try:
        assert subprocess.run(words, stdout=stdout, check=False).returncode == 141
    finally:
        os.close(stdout)
    assert Path("results", "simulation_results.json").exists()


def test_the_same_command_again_gives_the_same_document_and_plays_nothing(cli: Call) -> None:
    write("game.yaml")
    first = cli("run", "game.yaml", *SMALL, "--json", "--output", "a").last
    again = cli("run", "game.yaml", *SMALL, "--json", "--output", "b").last
    assert first["digest"] == again["digest"]
    assert first["aggregate"] == again["aggregate"]
    asked = cli("run", "game.yaml", *SMALL, "--json", "--fresh")
    assert (asked.code, "--yes" in asked.last["error"]["hint"]) == (2, True)
    fresh = cli("run", "game.yaml", *SMALL, "--json", "--fresh", "--yes").last
    assert fresh["digest"] == first["digest"]
    other = cli("run", "game.yaml", *SMALL[:-3], "8", "--workers", "1", "--json").last
    assert other["digest"] != first["digest"]


def test_quiet_says_nothing(cli: Call) -> None:
    write("game.yaml")
    said = cli("run", "game.yaml", *SMALL, "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"table": {"num_seats": 9}}, "table.num_seats is 9"),
        ({"tabel": {}}, "unknown key 'tabel'"),
        ({"deck": {"shuffle_algorithm": "cryptographic"}}, "deck.shuffle_algorithm"),
    ],
)
def test_a_bad_configuration_is_a_usage_error_that_names_the_file_and_the_key(
    cli: Call, data: dict[str, Any], place: str
) -> None:
    write("bad.yaml", **data)
    for command in ("validate", "run"):
        said = cli(command, "bad.yaml")
        assert said.code == 2
        assert "bad.yaml" in said.err
        assert place in said.err
    assert cli("validate", "bad.yaml", "--json").last["error"]["hint"]


def test_every_file_that_is_asked_for_is_written_and_agrees(cli: Call) -> None:
    kinds = tuple(charts.TITLES)
    write(
        "game.yaml",
        metadata={"name": "all files"},
        table={"num_seats": 2},
        dealer={"discard_enabled": True, "discard_cards": 4},
        bonus_strategy={"enabled": True, "type": "always"},
        output={
            "prefix": "x",
            "formats": {"html": {"enabled": True},
                        "csv": {"include_hands": True, "include_seat_aggregate": True}},
            "visualizations": {"charts": [{"type": kind, "title": f"A <{kind}>"}
                                          for kind in kinds]},
        },
    )  # fmt: skip
    said = cli("run", "game.yaml", *SMALL, "--output", "out", "--json")
    assert said.code == 0, said.err
    assert said.last["batch"].startswith("all-files-")
    files = {path.name: path for path in Path("out").iterdir()}
    assert len(files) == 6 + len(kinds)
    assert {str(path) for path in files.values()} == set(said.last["files"])
    sessions = list(csv.DictReader(files["x_sessions.csv"].read_text().splitlines()))
    hands = list(csv.DictReader(files["x_hands.csv"].read_text().splitlines()))
    assert len(sessions) == 100
    assert len(hands) == sum(int(row["hands_played"]) for row in sessions)
    assert sessions[0].keys() >= {"session_id", "outcome", "stop_reason", "royal_flush"}
    for row in sessions[:10]:
        own = [h for h in hands if (h["session_id"], h["seat_number"])
               == (row["session_id"], row["seat_number"])]  # fmt: skip
        profit = sum(float(h["main_profit"]) + float(h["bonus_profit"]) for h in own)
        assert profit == pytest.approx(float(row["session_profit"]))
        assert float(own[-1]["bankroll"]) == float(row["final_bankroll"])
    for row in hands:
        cards = [*row["cards"].split(), *row["community"].split(), *row["discarded"].split()]
        assert len(set(cards)) == 9
    data = json.loads(files["x_results.json"].read_text())
    assert data["aggregate"] == said.last["aggregate"]
    assert data["config"]["table"]["num_seats"] == 2
    seats = {
        row["seat_number"]
        for row in csv.DictReader(files["x_seat_aggregate.csv"].read_text().splitlines())
    }
    assert seats == {"1", "2"}
    page = files["x_report.html"].read_text()
    assert "Let It Ride" in page
    assert "<polyline" in page
    for kind in kinds:
        drawn = files[f"x_{kind}.svg"].read_text()
        assert f"A &lt;{kind}&gt;" in drawn


def test_charts_can_be_asked_for_on_the_command_line(cli: Call) -> None:
    shown = {"enabled": False, "format": "html", "charts": [{"type": "hand_frequency"}]}
    write("game.yaml", output={"visualizations": shown})
    asked = ("--chart", "bonus_impact", "--chart", "session_outcomes_histogram")
    found = cli("run", "game.yaml", *SMALL, *asked, "--json").last
    assert [Path(path).name for path in found["files"] if path.endswith(".html")] == [
        "simulation_bonus_impact.html", "simulation_session_outcomes_histogram.html",
    ]  # fmt: skip
    again = cli("run", "game.yaml", *SMALL, "--json").last
    assert again["batch"] == found["batch"]
    assert not [path for path in again["files"] if path.endswith(".html")]
    assert "bonus_impact" in cli("run", "game.yaml", "--chart", "pie").err


def test_the_report_command_knows_the_game(cli: Call, capfd: pytest.CaptureFixture[str]) -> None:
    write("game.yaml", output={"formats": {"html": {"enabled": True, "include_charts": False}}})
    found = cli("run", "game.yaml", *SMALL, "--json").last
    assert call(capfd, "report", found["batch"], "--output", "own.html").code == 0
    page = Path("own.html").read_text()
    assert page.count("Let It Ride</h2>") == 1
    assert "<polyline" in page
    assert "<polyline" not in Path("results/simulation_report.html").read_text()


def test_png_is_as_large_as_its_dots_per_inch_say(cli: Call) -> None:
    sizes = []
    for dpi in (96, 192):
        shown = {"format": "png", "dpi": dpi, "charts": [{"type": "hand_frequency"}]}
        write("game.yaml", output={"visualizations": shown})
        assert cli("run", "game.yaml", *SMALL).code == 0
        picture = Path("results/simulation_hand_frequency.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        sizes.append(struct.unpack(">II", picture[16:24]))
    assert sizes == [(charts.WIDTH, charts.HEIGHT), (2 * charts.WIDTH, 2 * charts.HEIGHT)]


def test_png_without_a_font_is_refused_before_anything_is_played(
    cli: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "FONTS", "No Such Font")
    shown = {"format": "png", "charts": [{"type": "hand_frequency"}]}
    write("game.yaml", output={"visualizations": shown})
    said = cli("run", "game.yaml", *SMALL)
    assert said.code == 2
    assert "no font" in said.err
    assert not Path(".runyard").exists()


def test_png_without_its_maker_is_refused_before_anything_is_played(
    cli: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    shown = {"format": "png", "charts": [{"type": "hand_frequency"}]}
    write("game.yaml", output={"visualizations": shown})
    said = cli("run", "game.yaml", *SMALL)
    assert said.code == 2
    assert "runyard[letitride]" in said.err
    assert not Path(".runyard").exists()


def test_compare_pairs_sessions_on_the_same_cards(cli: Call) -> None:
    write("good.yaml")
    write("bold.yaml", strategy={"type": "always_ride"})
    said = cli("compare", "good.yaml", "bold.yaml", "--sessions", "400", "--hands", "50",
               "--workers", "1", "--seed", "3", "--json")  # fmt: skip
    assert said.code == 0, said.err
    found = said.last["comparisons"][0]
    assert found["winner"] == "good"
    assert found["n"] == 400
    assert found["correlation"] > 0.5
    text = cli("compare", "good.yaml", "bold.yaml", "--sessions", "400", "--hands", "50",
               "--workers", "1", "--seed", "3", "--quiet").out  # fmt: skip
    assert "good beats bold" in text
    won = cli("compare", "good.yaml", "bold.yaml", "--sessions", "400", "--hands", "50",
              "--workers", "1", "--seed", "3", "--metric", "won", "--json")  # fmt: skip
    assert won.last["comparisons"][0]["method"] == "McNemar's exact test"


def test_what_does_not_pair_is_refused(cli: Call) -> None:
    write("a.yaml", simulation={"num_sessions": 5, "random_seed": 1})
    write("b.yaml", simulation={"num_sessions": 6, "random_seed": 2})
    assert "different seeds" in cli("compare", "a.yaml", "b.yaml").err
    assert "5 and 6 sessions" in cli("compare", "a.yaml", "b.yaml", "--seed", "1").err
    assert "two configurations" in cli("compare", "a.yaml").err


def test_until_adds_sessions_until_the_condition_holds(cli: Call) -> None:
    write("game.yaml")
    words = ("run", "game.yaml", "--hands", "20", "--sessions", "2000", "--seed", "5",
             "--workers", "1", "--until")  # fmt: skip
    said = cli(*words, "ci95(session_win_rate) < 0.012", "--json")
    assert said.code == 0, said.err
    assert said.last["sessions"] > 2000
    rate = said.last["aggregate"]["session_win_rate"]
    assert (rate["high"] - rate["low"]) / 2 < 0.012
    again = cli(*words, "ci95(session_win_rate) < 0.012", "--json")
    assert again.last["digest"] == said.last["digest"]
    assert "unknown figure 'luck'" in cli(*words, "ci95(luck) < 1").err
    assert cli(*words, "ci95(ev_per_hand) < 0").code == 2
    assert "compares sides" in cli(*words, "low95(a - b) > 0").err


def test_neither_help_nor_validate_pays_for_numba(tmp_path: Path) -> None:
    path = tmp_path / "game.yaml"
    path.write_text("table: {num_seats: 2}\n")
    script = (
        "import sys\n"
        "from runyard.cli.main import main\n"
        "import runyard.doors.letitride as door\n"
        "door.FullConfig, door.SimulationController\n"
        f"codes = [main(['letitride', '--help']), main(['letitride', 'validate', {str(path)!r}])]\n"
        "assert codes == [0, 0], codes\n"
        "assert 'numba' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_files_are_written_through_links(cli: Call) -> None:
    Path("kept").mkdir()
    links = [
        Path(name)
        for name in ("game.yaml", "x_results.json", "x_sessions.csv", "x_hand_frequency.svg")
    ]
    for link in links:
        link.symlink_to(f"kept/{link.name}")
    assert cli("init", "game.yaml").code == 0
    write(
        "own.yaml",
        output={
            "directory": ".",
            "prefix": "x",
            "formats": {"json": {"enabled": True}, "csv": {"enabled": True}},
            "visualizations": {"enabled": True, "charts": [{"type": "hand_frequency"}]},
        },
    )
    assert cli("run", "own.yaml", *SMALL).code == 0
    assert all(link.is_symlink() and link.stat().st_size for link in links)
