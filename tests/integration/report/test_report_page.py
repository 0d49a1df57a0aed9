"""The report of a real batch: what it holds, and that what it holds is true and harmless."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from polling import eventually
from report_kit import HOSTILE, Page, Project

import runyard as ry
from runyard.cli.main import main
from runyard.errors import NotFound, UsageError
from runyard.reports.html import (
    Html,
    ReportContext,
    Section,
    register,
    table,
    unregister,
    write_report,
)


def test_every_section_is_there_in_order(text: str) -> None:
    assert Page(text).headings == [
        "tills", "Outcome", "Alerts", "Failed tasks", "Metrics", "Comparison",
        "Timeline of workers", "Slowest tasks", "What was run", "Runs",
    ]  # fmt: skip


def test_the_page_tells_what_was_run(text: str, told: Project) -> None:
    said = Page(text).text
    with ry.Yard(told.folder / ".runyard") as yard:
        result = yard.results("tills")
        assert result.digest in said
        stats = result.stats
    assert f"{stats.completed:,} of 180 tasks completed, {stats.failed} failed" in said
    assert "jobs.py:till · 2 values of tills × 3 values of rush × 30 replicates" in said
    assert "runyard run jobs.py:till --name tills" in said
    assert f"{os.cpu_count()} core" in said


def test_nothing_of_the_users_becomes_markup(text: str) -> None:
    page = Page(text)
    assert HOSTILE in page.text
    assert not page.named("img")
    assert len(page.named("script")) == len(page.named("title")) - _tooltips(page) == 1
    assert not [name for _, found in page.tags for name in found if name.startswith("on")]


def _tooltips(page: Page) -> int:
    """Titles inside charts are tooltips; the page itself has one."""
    return len(page.named("title")) - 1


def test_the_page_refers_to_nothing_outside_itself(text: str) -> None:
    for tag, attributes in Page(text).tags:
        for name in ("src", "href", "xlink:href", "action", "data", "poster"):
            place = attributes.get(name)
            assert place is None or place.startswith(("#", "data:")), f"<{tag} {name}={place}>"
    assert "@import" not in text
    assert "url(" not in text


def test_no_folder_of_the_machine_is_told(text: str, told: Project) -> None:
    assert str(told.folder) not in text
    assert str(Path.home()) + "/" not in text


def test_a_command_taken_from_the_page_reproduces_the_failure(text: str, told: Project) -> None:
    commands = [line for line in Page(text).commands if line.startswith("runyard repro")]
    assert commands[0] == "runyard repro tills/7"
    answer = told.type(commands[0])
    assert answer.code == 0
    assert "same as recorded" in answer.out
    assert "ValueError" in answer.out


def test_a_slow_task_has_its_command_too(text: str, told: Project) -> None:
    answer = told.type([line for line in Page(text).commands if "repro" in line][-1])
    assert answer.code == 0, answer.err


def test_the_means_are_those_of_the_record(text: str, told: Project) -> None:
    with ry.Yard(told.folder / ".runyard") as yard:
        waits = [o.value["wait"] for o in yard.results("tills").outcomes("completed")
                 if o.params == {"tills": 1, "rush": 2.0}]  # fmt: skip
    shown = re.search(r"^12\.0(\d+\.(\d+))± ", _rows(text, "wait"), re.MULTILINE)
    assert shown is not None
    assert float(shown[1]) == round(sum(waits) / len(waits), len(shown[2]))


def _rows(text: str, metric: str) -> str:
    """The rows of a metric's table as lines."""
    section = text.partition(f"<h3>{metric}</h3>")[2].partition("</table>")[0]
    return Page(f"<div>{section.partition('<tbody>')[2].replace('<tr>', chr(10) + '<tr>')}"
                .removesuffix("</tbody>") + "</div>").text  # fmt: skip


def test_groups_are_compared_in_words(text: str) -> None:
    said = Page(text).text.replace("\u00a0", " ")
    assert "tills 2 is lower than tills 1: −" in said
    assert "p < 0.001" in said


def test_charts_speak_and_tables_have_heads(text: str) -> None:
    page = Page(text)
    drawn = [svg for svg in page.named("svg") if svg.get("role") == "img"]
    assert drawn
    assert all(svg["aria-label"] for svg in drawn)
    assert all(head.get("scope") in ("col", "row") for head in page.named("th"))
    assert page.named("html") == [{"lang": "en"}]


def test_alerts_retries_and_failures_are_told(text: str) -> None:
    said = Page(text).text
    assert f"queue {HOSTILE}" in said
    assert "9 × ValueError" in said
    assert "10 retries" in said.partition("Timeline of workers")[2]  # each failure once, and task 5


def test_one_metric_by_one_parameter_on_request(told: Project, tmp_path: Path) -> None:
    output = tmp_path / "deep" / "own.html"
    words = ["--metric", "wait", "--by", "rush", "-o", str(output), "--json"]
    answer = told("report", "tills", *words)
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["path"] == str(output)
    assert document["bytes"] == output.stat().st_size
    said = Page(output.read_text(encoding="utf-8")).text
    assert "wait by rush" in said
    assert "wait by tills" not in said
    assert "late by rush" not in said


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nowhere"], 5),
        (["tills", "--metric", "nothing"], 5),
        (["tills", "--by", "nothing"], 5),
        (["tills", "-o", "jobs.py/x.html"], 2),
    ],
)
def test_what_can_not_be_reported_is_said_in_words(
    told: Project,
    words: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(told.folder)
    assert main(["report", *words]) == code
    said = capsys.readouterr()
    assert said.err.startswith("error:")
    assert not said.out


def test_another_yard_is_named_in_the_commands(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.run("plain", "p", yard="other yard", x=[1, 2, 3])
    monkeypatch.chdir(project.folder)
    assert main(["report", "p", "--yard", "other yard"]) == 0
    page = Page(Path(capsys.readouterr().out.strip()).read_text(encoding="utf-8"))
    assert "runyard repro p/0 --yard 'other yard'" in page.commands
    assert main(["repro", "p/0", "--yard", "other yard"]) == 0


def test_an_unfinished_batch_says_so_at_the_top_and_then_lists_each_run(project: Project) -> None:
    words = project.command(
        "run", "jobs.py:patient", "--grid", "x=0,1,2,3", "--name", "p", "--backend", "processes",
        "--workers", "1", "--no-progress",
    )  # fmt: skip
    errors = project.folder / "errors"
    with (
        errors.open("w") as told,
        subprocess.Popen(
            words, cwd=project.folder, env=project.env, stdout=subprocess.DEVNULL, stderr=told
        ) as process,
    ):
        assert eventually(lambda: (project.folder / "marks" / "2").exists())
        process.send_signal(signal.SIGINT)
        assert eventually(lambda: "finishing 1 running task" in errors.read_text())
        (project.folder / "go").touch()
        assert process.wait(60) == 130
    page = Page(project.report("p"))
    top = page.text.partition("Outcome")[0]
    assert "Not finished." in top
    assert "1 task of 4 has no outcome yet; its last run ended early: interrupted" in top
    assert page.commands[0] == "runyard resume p"
    assert project.type(page.commands[0] + " --no-progress").code == 0
    said = Page(project.report("p")).text
    assert "Not finished." not in said
    assert "interrupted" in said.partition("Runs")[2]
    assert "finished" in said.partition("Runs")[2]


def test_a_lost_worker_is_an_alert_and_a_mark_on_the_timeline(project: Project) -> None:
    project.run("deadly", "d", x=[0, 1, 2, 3], backend="processes")
    page = Page(project.report("d"))
    assert "lost worker" in page.text
    assert "worker lost" in page.text.partition("Timeline")[2]
    assert any(path.get("class") == "cross" for path in page.named("path"))


def test_metrics_that_never_vary_or_are_no_numbers_need_no_chart(project: Project) -> None:
    project.run("same", "s", x=[1, 2, 3], replicates=4)
    page = Page(project.report("s"))
    assert "constant" in page.text
    assert "Distribution of" not in page.text


def test_a_damaged_audit_log_is_told_and_the_rest_still_stands(project: Project) -> None:
    project.run("plain", "p", x=[1, 2, 3])
    log = project.batch("p") / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], lines[1].replace(b'"', b"'", 1), *lines[2:]]))
    said = Page(project.report("p")).text
    assert f"the audit log {log} is damaged: line 2 was altered" in said
    assert "3 of 3 tasks completed" in said


# In Python


@pytest.fixture
def batch(yard: ry.Yard) -> ry.Result:
    """A small batch of a function sent by value."""

    def half(ctx: ry.Context, x: int) -> float:
        if x == 3:
            raise KeyError("three")
        return x / 2

    made = ry.grid(half, x=range(5), seed=1, name="halves")
    return yard.run(made, backend="serial", progress=False)


def test_a_function_by_value_gets_no_command_that_would_fail(
    yard: ry.Yard, batch: ry.Result
) -> None:
    path = write_report(batch, yard.batch_folder("halves"))
    assert path == yard.batch_folder("halves") / "report.html"
    page = Page(path.read_text(encoding="utf-8"))
    assert not page.commands
    assert "run its script again" in page.text


def test_sections_of_a_door_come_where_they_belong_and_nowhere_else(
    yard: ry.Yard, batch: ry.Result
) -> None:
    def hands(context: ReportContext) -> Section:
        return Section("Hands", table(["hand"], [[HOSTILE], [context.stats.total]]), order=45)

    def nothing(context: ReportContext) -> None:
        assert context.result.name == "halves"

    def elsewhere(context: ReportContext) -> Section:
        return Section("Elsewhere", Html("<p>x</p>"))

    register(lambda recorded: recorded.name == "halves", hands)
    register(lambda recorded: recorded.name == "other", elsewhere)
    try:
        path = write_report(batch, yard.batch_folder("halves"), sections=[nothing])
    finally:
        unregister(hands)
        unregister(elsewhere)
    page = Page(path.read_text(encoding="utf-8"))
    order = page.headings
    assert order.index("Hands") == order.index("Timeline of workers") - 1
    assert "Elsewhere" not in order
    assert HOSTILE in page.text
    assert not page.named("img")


def test_a_report_is_there_whole_or_not_at_all(yard: ry.Yard, batch: ry.Result) -> None:
    folder = yard.batch_folder("halves")
    before = write_report(batch, folder).read_text(encoding="utf-8")

    def broken(context: ReportContext) -> Section:
        raise LookupError("a door's own mistake")

    with pytest.raises(LookupError):
        write_report(batch, folder, sections=[broken])
    assert (folder / "report.html").read_text(encoding="utf-8") == before
    assert [path.name for path in folder.glob(".*")] == []


def test_an_unknown_metric_is_refused_before_anything_is_written(
    yard: ry.Yard, batch: ry.Result
) -> None:
    with pytest.raises(NotFound, match="no metric 'speed'"):
        write_report(batch, yard.batch_folder("halves"), metrics=["speed"])
    assert not (yard.batch_folder("halves") / "report.html").exists()


def test_a_batch_that_never_ran_can_be_reported(yard: ry.Yard) -> None:
    yard.submit(ry.grid(lambda x: x, x=[1, 2], seed=1, name="later"))
    page = Page(write_report(yard.results("later"), yard.batch_folder("later")).read_text("utf-8"))
    assert "Not started yet" in page.text
    assert "2 tasks of 2 have no outcome yet" in page.text
    assert "Metrics" not in page.headings


@pytest.mark.parametrize("tasks", [4000, pytest.param(150_000, marks=pytest.mark.slow)])
def test_a_report_stays_small_however_many_tasks_there_are(yard: ry.Yard, tasks: int) -> None:
    made = ry.grid(lambda x, r: {"a": x + r % 7, "b": r / 3}, x=[1, 2, 3, 4],
                   r=range(tasks // 4), seed=1, name="many")  # fmt: skip
    result = yard.run(made, backend="serial", progress=False)
    path = write_report(result, yard.batch_folder("many"))
    assert path.stat().st_size < 200_000


def test_long_texts_of_a_user_are_cut(yard: ry.Yard) -> None:
    def wordy(ctx: ry.Context, x: str) -> dict[str, float]:
        ctx.emit("alert", message=x * 1000)
        raise ValueError(x * 1000)

    made = ry.grid(wordy, x=["a" * 300, "b" * 300], seed=1, name="wordy")
    result = yard.run(made, backend="serial", progress=False)
    path = write_report(result, yard.batch_folder("wordy"))
    assert path.stat().st_size < 100_000


def test_more_groups_than_a_page_can_show_are_refused(yard: ry.Yard) -> None:
    made = ry.grid(lambda x: x, x=range(1000), seed=1, name="many")
    result = yard.run(made, backend="serial", progress=False)
    with pytest.raises(UsageError, match="1,000 groups"):
        write_report(result, yard.batch_folder("many"), by=["x"])


def test_groups_of_one_task_are_not_summarised_one_by_one(yard: ry.Yard) -> None:
    made = ry.grid(lambda x: x * 1.5, x=[1, 2, 3], seed=1, name="single")
    result = yard.run(made, backend="serial", progress=False)
    page = Page(write_report(result, yard.batch_folder("single")).read_text("utf-8"))
    assert "all tasks3.0" in page.text
    assert "x 1" not in page.text.partition("Metrics")[2].partition("Timeline")[0]


def test_a_grown_grid_is_listed_in_its_authors_order(project: Project) -> None:
    for values in ([1, 3], [1, 2, 3]):
        project.run("plain", "grown", x=values)
    assert "1, 2, 3" in Page(project.report("grown")).text


def test_histograms_of_a_grown_grid_stand_beside_their_groups(yard: ry.Yard) -> None:
    def spread(ctx: ry.Context, x: int) -> dict[str, float]:
        return {"v": float("inf") if x == 9 else 10 * x + ctx.replicate % 3}

    for values in ([1, 9, 3], [1, 2, 9, 3]):
        made = ry.grid(spread, x=values, replicates=6, seed=1, name="grown")
        result = yard.run(made, backend="serial", progress=False)
    page = write_report(result, yard.batch_folder("grown")).read_text("utf-8")
    bars = re.findall(r'class="label">x (\d)</div>.*?class="bars" d="M0 100H(\d+)', page)
    assert [label for label, _ in bars] == ["1", "2", "3"]
    starts = [int(start) for _, start in bars]
    assert starts[0] < 100 < starts[1] < 600 < starts[2]
