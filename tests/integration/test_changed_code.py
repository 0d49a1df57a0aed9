"""Code that changes between two runs of a batch is always said, and never mixed unnoticed."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Call, Said

import runyard as ry
from runyard.errors import CodeHasChanged, UsageError
from runyard.events import CodeChanged, Event, Notice

JOBS = "from helper_of_jobs import grow\n\ndef job(x):\n    return grow(x)\n"
SERIAL = ("--backend", "serial")
LISTED = JOBS + "\ndef other(x):\n    return -x\n"


class Project:
    """A module with a task, and one with the helper that it calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._edits = 0
        folder.joinpath("jobs_of_test.py").write_text(LISTED)
        self.edit("x + 1")

    def edit(self, result: str) -> None:
        """Change the helper, and load both modules again."""
        self._edits += 1
        text = f"def grow(x):\n    return {result}{' ' * self._edits}\n"
        self._folder.joinpath("helper_of_jobs.py").write_text(text)
        importlib.invalidate_caches()
        for name in ("helper_of_jobs", "jobs_of_test"):
            if name in sys.modules:
                importlib.reload(sys.modules[name])

    @property
    def job(self) -> Any:
        return importlib.import_module("jobs_of_test").job

    def run(self, xs: list[int], **options: Any) -> ry.Result:
        options = {"backend": "serial", "progress": False} | options
        return ry.run(ry.grid(self.job, x=xs, name="b", seed=7), **options)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Project(tmp_path)
    for name in ("helper_of_jobs", "jobs_of_test"):
        sys.modules.pop(name, None)


def values(result: ry.Result) -> list[Any]:
    return list(result.values())


def test_a_changed_helper_warns_where_the_user_called_and_keeps_what_is_recorded(
    project: Project,
) -> None:
    assert values(project.run([1, 2])) == [2, 3]
    project.edit("x + 100")
    with pytest.warns(ry.CodeChangedWarning, match="2 outcomes were recorded; they are kept") as w:
        assert values(project.run([1, 2])) == [2, 3]
    assert w[0].filename == __file__


def test_code_that_has_not_changed_is_not_mentioned(project: Project) -> None:
    project.run([1, 2])
    importlib.reload(sys.modules["jobs_of_test"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert project.run([1, 2, 3]).mixed_code == {}


def test_growing_with_changed_code_mixes_and_says_so(project: Project) -> None:
    project.run([1, 2])
    project.edit("x + 100")
    seen: list[Event] = []
    with pytest.warns(ry.CodeChangedWarning):
        result = project.run([1, 2, 3], on_event=seen.append)
    assert values(result) == [2, 3, 103]
    (changed,) = [event for event in seen if isinstance(event, CodeChanged)]
    assert (changed.functions, changed.outcomes, changed.action) == (
        ["jobs_of_test:job"], 2, "keep",
    )  # fmt: skip
    assert [e.text for e in seen if type(e) is Notice] == ["the batch grew from 2 to 3 tasks"]
    (versions,) = result.mixed_code.values()
    assert [version.outcomes for version in versions] == [2, 1]
    assert "mixed code: 2 versions of jobs_of_test:job: 2 outcomes from" in result.summary()
    logged = [event["event"] for event in ry.Yard().events("b")]
    assert logged.index("CodeChanged") < len(logged) - 1 - logged[::-1].index("BatchStarted")
    assert "mixed code" in result.report().read_text()


def test_rerun_makes_a_mixed_batch_whole_again(project: Project) -> None:
    project.run([1, 2])
    project.edit("x + 100")
    with pytest.warns(ry.CodeChangedWarning):
        assert project.run([1, 2, 3]).mixed_code
    again = project.run([1, 2, 3], changed="rerun")
    assert values(again) == [101, 102, 103]
    assert again.mixed_code == {}
    assert list(again.columns.metric("value")) == [101, 102, 103]


def test_going_back_to_the_first_version_keeps_its_outcomes(project: Project) -> None:
    project.run([1])
    project.edit("x + 100")
    with pytest.warns(ry.CodeChangedWarning):
        project.run([1, 2])
    project.edit("x + 1")
    again = project.run([1, 2], changed="rerun")
    assert values(again) == [2, 3]
    assert again.stats.completed == 2


def test_refuse_leaves_everything_as_it_is(project: Project) -> None:
    project.run([1, 2])
    project.edit("x + 100")
    with pytest.raises(CodeHasChanged, match="2 outcomes were recorded") as refused:
        project.run([1, 2, 3], changed="refuse")
    assert "--changed keep" in str(refused.value)
    result = ry.Yard().results("b")
    assert (result.stats.total, values(result)) == (2, [2, 3])


def test_a_batch_without_outcomes_may_change_its_code(project: Project) -> None:
    ry.Yard().submit(ry.grid(project.job, x=[1], name="b", seed=7))
    project.edit("x + 100")
    assert values(project.run([1], changed="refuse")) == [101]


def test_resume_heeds_it_as_well(project: Project) -> None:
    project.run([1, 2, 3, 4], budget={"tasks": 2})
    project.edit("x + 100")
    with ry.Yard() as yard:
        with pytest.raises(CodeHasChanged):
            yard.resume("b", backend="serial", changed="refuse")
        with pytest.warns(ry.CodeChangedWarning):
            mixed = yard.resume("b", backend="serial", changed="keep", budget={"tasks": 9})
        assert values(mixed) == [2, 3, 103, 104]
        again = yard.resume("b", backend="serial", changed="rerun")
    assert values(again) == [101, 102, 103, 104]


def test_of_a_list_only_the_tasks_of_the_changed_function_run_again(project: Project) -> None:
    calls = [("jobs_of_test:job", {"x": 1}), ("jobs_of_test:other", {"x": 1})]
    batch = ry.tasks([ry.Task(call, params) for call, params in calls], name="b", seed=7)
    first = ry.run(batch, backend="serial", progress=False)
    before = {outcome.task: outcome.started for outcome in first.outcomes()}
    project.edit("x + 100")
    again = ry.run(batch, backend="serial", progress=False, changed="rerun")
    assert values(again) == [101, -1]
    after = {outcome.task: outcome.started for outcome in again.outcomes()}
    assert after[1] == before[1]
    assert after[0] > before[0]


def test_warm_workers_run_the_module_as_it_was_loaded_again(project: Project) -> None:
    assert values(project.run([1, 2], backend="processes", workers=2)) == [2, 3]
    project.edit("x + 100")
    again = project.run([1, 2], backend="processes", workers=2, changed="rerun")
    assert values(again) == [101, 102]


def test_warm_workers_load_again_what_a_function_imports_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("late.py").write_text(
        "def job(x):\n    from late_helper import grow\n    return grow(x)\n"
    )
    results = []
    for step in ("1", "100 "):
        Path("late_helper.py").write_text(f"def grow(x):\n    return x + {step}\n")
        batch = ry.tasks([ry.Task("late:job", {"x": 1})], name="b", seed=7)
        run = ry.run(batch, workers=2, progress=False, changed="rerun")
        results += values(run)
    assert results == [2, 101]
    assert "late_helper" not in sys.modules


def test_a_module_edited_after_its_import_is_told(project: Project, tmp_path: Path) -> None:
    project.run([1])
    helper = tmp_path / "helper_of_jobs.py"
    helper.write_text("def grow(x):\n    return x + 100  # without a reload\n")
    with pytest.warns(ry.CodeChangedWarning, match=f"{helper}: edited after the import"):
        project.run([1, 2])
    importlib.reload(sys.modules["helper_of_jobs"])
    importlib.reload(sys.modules["jobs_of_test"])
    with pytest.warns(ry.CodeChangedWarning, match="2 outcomes were recorded"):
        project.run([1, 2])


@pytest.mark.parametrize("growing", ["run", "resume"])
def test_what_workers_made_of_an_edited_file_is_of_another_version(
    project: Project, tmp_path: Path, growing: str
) -> None:
    """This process has the old code still, and its workers load the new one."""

    def grow() -> ry.Result:
        if growing == "run":
            return project.run([1, 2, 3, 4], backend="processes", workers=2)
        return ry.Yard().resume("b", workers=2, progress=False, budget={})

    project.run([1, 2, 3, 4], backend="processes", workers=2, budget={"tasks": 2})
    (tmp_path / "helper_of_jobs.py").write_text("def grow(x):\n    return x + 100  # no reload\n")
    with pytest.warns(ry.CodeChangedWarning) as told:
        result = grow()
    assert values(result) == [2, 3, 103, 104]
    assert any("edited after the import" in str(each.message) for each in told)
    (versions,) = result.mixed_code.values()
    assert [version.outcomes for version in versions] == [2, 2]
    with pytest.warns(ry.CodeChangedWarning):
        again = project.run([1, 2, 3, 4], backend="processes", workers=2, changed="rerun")
    assert (values(again), again.mixed_code) == ([101, 102, 103, 104], {})


def test_a_file_edited_while_workers_come_and_go_is_told(project: Project, tmp_path: Path) -> None:
    """Task 0 changes the helper and takes its worker along; the next one loads the new code."""
    (tmp_path / "jobs_of_test.py").write_text(
        "import os\nfrom pathlib import Path\nfrom helper_of_jobs import grow\n\n"
        "def job(x):\n"
        "    if x == 0 and not Path('edited').exists():\n"
        "        Path('edited').touch()\n"
        "        Path('helper_of_jobs.py').write_text('def grow(x): return x + 100')\n"
        "        os._exit(3)\n"
        "    return grow(x)\n"
    )
    words: dict[str, Any] = {"backend": "processes", "workers": 1, "retries": 1}
    with pytest.warns(ry.CodeChangedWarning, match="helper_of_jobs.py: edited while the b") as told:
        assert values(project.run([0, 1], **words)) == [100, 101]
    assert (len(told), told[0].filename) == (1, __file__)
    logged = [event.get("text", "") for event in ry.Yard().events("b")]
    assert any("outcomes of this run may come from either version" in text for text in logged)


def test_every_run_warns_where_the_same_line_runs_again(project: Project) -> None:
    project.run([1, 2])
    project.edit("x + 100")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            project.run([1, 2])
    assert [each.category for each in told] == [ry.CodeChangedWarning] * 3


def test_a_misspelt_choice_is_refused_at_the_start(project: Project) -> None:
    with pytest.raises(UsageError, match="changed: 'rurun' is not a choice"):
        project.run([1], changed="rurun")


def test_the_command_line_says_it_and_decides(cli: Call, project: Project) -> None:
    def run(xs: str, *more: str) -> Said:
        return cli("run", "jobs_of_test:job", "--grid", f"x={xs}", "--name", "b", *SERIAL, *more)

    assert run("1,2").code == 0
    project.edit("x + 100")
    assert run("1,2", "--changed", "refuse").code == 2
    assert run("1,2", "--changed", "refuse", "--dry-run").code == 2
    planned = run("1,2", "--changed", "rerun", "--dry-run", "--json")
    assert (planned.last["recorded"], planned.last["left"]) == (0, 2)
    assert "2 outcomes were recorded; rerunning their tasks" in planned.err
    grown = run("1,2,3")
    assert "has changed since 2 outcomes were recorded" in grown.err
    assert "Warning" not in grown.err
    assert "mixed code: 2 versions of jobs_of_test:job" in grown.out
    assert "mixed code: 2 versions of jobs_of_test:job" in cli("results", "b").err
    alone = cli("compare", "b", "--gate", "failed < 1%")
    assert (alone.code, alone.err.startswith("mixed code: 2 versions of jobs_of_test:job")) == (
        0,
        True,
    )
    cli("run", "jobs_of_test:job", "--grid", "x=1,2,3", "--name", "c", *SERIAL)
    assert "b: mixed code: 2 versions of jobs_of_test:job" in cli("compare", "b", "c").err
    found = cli("verify", "b", "--sample", "100%", "--json")
    assert found.code == 1
    assert (found.last["different"], found.last["other_code"]) == (2, 2)
    assert list(found.last["mixed_code"]) == ["jobs_of_test:job"]
    assert cli("resume", "b", "--changed", "rerun", *SERIAL).code == 0
    assert cli("verify", "b", "--sample", "100%").code == 0
