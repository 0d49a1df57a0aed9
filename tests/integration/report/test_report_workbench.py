"""The section of a bench in the report, in real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bench_graphs as graphs
import pytest
from playwright.sync_api import Browser, Page

from runyard import Yard
from runyard.cli.main import cli
from runyard.doors.workbench import Case, Workbench

HOSTILE = "<script>alert(1)</script>"


def correct(outputs: Any, reference: Any) -> dict[str, Any]:
    right = outputs["answer"] == reference
    return {"score": right, "reason": f"it said {outputs['answer']} {HOSTILE}"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bench with a variant that is right, one that is wrong and one that fails."""
    folder = tmp_path_factory.mktemp("bench")
    variants = [
        {"node": graphs.answer_a},
        {"node": graphs.answer_b},
        {"node": graphs.trouble},
    ]
    cases = [Case({"query": q}, f"A: about {q}", q) for q in ("Q0", "Q1", "raise")]
    with Yard(folder / "yard") as yard:
        bench = Workbench("serial", yard=yard)
        result = bench.run_batch(
            graphs.qa, variants, cases, repetitions=2, name="bench",
            evaluators={"correct": correct, "length": lambda outputs: len(outputs["answer"])},
        )  # fmt: skip
        result.write_baseline(folder / "base.json")
        return result.report(folder / "report.html")


def opened(browser: Browser, report: Path, width: int = 1200) -> tuple[Page, list[Any]]:
    """The page, and everything that it asks for or complains about."""
    page, heard = browser.new_page(viewport={"width": width, "height": 800}), []
    for event in ("request", "console", "pageerror", "dialog"):
        page.on(event, lambda each: heard.append(each))
    page.goto(report.as_uri())
    return page, heard


@pytest.mark.parametrize("width", [360, 1200])
def test_it_opens_without_a_complaint_and_fits_the_screen(
    browser: Browser, report: Path, width: int
) -> None:
    page, heard = opened(browser, report, width)
    assert len(heard) == 1
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


def test_a_click_on_the_matrix_shows_the_cells_of_that_field(
    browser: Browser, report: Path
) -> None:
    page, heard = opened(browser, report)
    section = page.locator("section").first
    assert section.locator("h2").inner_text() == "Workbench"
    fields = section.locator(".matrix").first.locator("td a")
    assert fields.count() == 9
    assert fields.all_inner_texts() == [
        "1.00", "0.00", "0.00", "1.00", "0.00", "0.00", "1.00", "0.00", "failed",
    ]  # fmt: skip
    articles = section.locator("article")
    assert articles.locator("visible=true").count() == 0
    fields.nth(4).click()
    [shown] = [each for each in articles.all() if each.is_visible()]
    text = shown.inner_text()
    assert "node=answer_b on Q1" in text
    assert f"it said B: about Q1 {HOSTILE}" in text
    assert "retrieve → node" in text
    assert "runyard workbench show bench/" in text
    fields.nth(8).click()
    [shown] = [each for each in articles.all() if each.is_visible()]
    assert "ValueError: as asked" in shown.inner_text()
    shown.get_by_text("close").click()
    assert not any(each.is_visible() for each in articles.all())
    assert len(heard) == 1
    page.close()


def test_figures_comparisons_and_trajectories_are_there(browser: Browser, report: Path) -> None:
    page, heard = opened(browser, report)
    text = page.locator("section").first.inner_text()
    assert "16 of 18" in text
    assert "node=answer_b and node=answer_a differ by 1 in each of 3 pairs" in text
    assert "pass@2" in text
    drawn = page.locator("section").first.locator("figure svg[role=img] rect")
    assert drawn.count() >= 6
    assert len(heard) == 1
    page.close()


def test_the_command_report_has_the_section_and_the_differences_from_the_baseline(
    report: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from runyard.doors.workbench.bench.recorded import recorded_bench
    from runyard.doors.workbench.evaluate.baseline import keep_for_report

    place = report.parent / "yard"
    with Yard(place) as yard:
        found = recorded_bench(yard, "bench")
        base = report.parent / "base.json"
        text = base.read_text().replace('"correct": 0.0', '"correct": 1.0')
        base.write_text(text)
        keep_for_report(yard.batch_folder("bench"), base, found.changes(base))
    out = tmp_path / "out.html"
    cli.main(["report", "bench", "--yard", str(place), "-o", str(out)], standalone_mode=False)
    written = out.read_text()
    assert "Differences from the baseline" in written
    assert "node=answer_b on Q0: correct 1 → 0" in written
