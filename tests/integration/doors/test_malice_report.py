"""What a batch of runs shows: the summary has every figure, the report every variant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runyard import Yard
from runyard.doors.malice import MaliceBatch, run_batch
from runyard.doors.malice.report.summary import percents, rate_cells, summary_text

RUNS = 5
SPEECHLESS = """
from runyard.doors.malice import Parts


class Speechless:
    name = "mallory"

    def speak(self, scene):
        raise ValueError("lost its words")


def speechless():
    return Parts(agents=[Speechless()])
"""


def batch(place: Path, **given: Any) -> MaliceBatch:
    with Yard(place) as yard:
        found = run_batch(RUNS, 40, seed=5, yard=yard, backend="serial", progress=False, **given)
        found.report(place / "report.html")
        return found


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> tuple[MaliceBatch, str]:
    """Three variants, in one of which mallory gets promoted; the batch and its report."""
    place = tmp_path_factory.mktemp("variants")
    found = batch(place, without=["civil"], grid={"promote_at": [1]})
    return found, (place / "report.html").read_text()


@pytest.mark.parametrize("variant", ["whole", "without-civil", "promote_at=1"])
def test_the_summary_has_every_figure_in_columns(
    variants: tuple[MaliceBatch, str], variant: str
) -> None:
    folder = variants[0].folder / variant
    found = json.loads((folder / "batch_parallel_results.json").read_text())
    text = (folder / "batch_summary.txt").read_text()
    told = [" ".join(line.split()) for line in text.splitlines()]
    threat, social = found["threat_analysis"], found["social_dynamics"]
    spread = ("mean", "stdev", "median", "min", "max")
    for name in ("score", "reputation"):
        figures = threat[f"mallory_{name}_stats"]
        assert " ".join([name, *(f"{figures[each]:.2f}" for each in spread)]) in told
    for of, head in (("runs", "mallory, of runs"), ("batches", "mallory, of batches")):
        below = told[told.index(f"{head} count rate 95% interval") + 1 :]
        for row, (when, words) in enumerate((("final", "ends as BINDER"), ("ever", "ever BINDER"))):
            cells = rate_cells(threat["mallory_binder"][when][of])
            assert below[row] == " ".join([words, *cells])
    resists = percents(threat["manipulation_resistance"] / 100)[0]
    assert f"resists manipulation {resists}" in told
    blocks = found["defense_system_stats"]["gate_blocks_stats"]
    assert f"all gates {blocks['total_mean']:.2f} {blocks['total_max']:.0f}" in told
    for name, count in (
        ("mallory", social["mallory_wins"]),
        ("legitimate users", social["legitimate_wins"]),
        ("no one", social["winner_distribution"].get("none", 0)),
    ):
        assert f"{name} {count} {percents(count / RUNS)[0]}" in told
    assert max(map(len, text.splitlines())) <= 60


def test_the_summary_names_parts_of_ones_own(variants: tuple[MaliceBatch, str]) -> None:
    path = variants[0].folder / "whole" / "batch_parallel_results.json"
    found = json.loads(path.read_text())
    found["experiment_metadata"]["parts"] = "mine.py:strict"
    assert "\nparts            mine.py:strict\n" in summary_text(found)


def test_several_variants_begin_with_an_overview(variants: tuple[MaliceBatch, str]) -> None:
    page = variants[1]
    overview = page[page.index("<caption>Variants") : page.index("<h3>whole")]
    for runs in variants[0].variants:
        ever = sum(record["mallory_ever_binder"] for record in runs.records)
        row = overview.partition(f">{runs.name}</th>")[2].partition("</tr>")[0]
        assert f">{RUNS} of {RUNS}</td>" in row
        assert f">{ever} of {RUNS} ({percents(ever / RUNS)[0]})</td>" in row
    assert page.count("ends as BINDER, of batches") == 3


def test_a_batch_of_failures_says_that_there_is_nothing_to_show(tmp_path: Path) -> None:
    parts = tmp_path / "speechless.py"
    parts.write_text(SPEECHLESS)
    batch(tmp_path, parts=f"{parts}:speechless")
    page = (tmp_path / "report.html").read_text()
    assert "No run completed, so there is nothing to show. The failures are below." in page
    assert page.index("No run completed") < page.index("lost its words")
