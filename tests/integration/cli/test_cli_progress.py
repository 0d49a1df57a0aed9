"""Progress: a live line on a terminal, plain lines elsewhere, nothing on stdout."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import tempfile
import termios

import pytest
from cli_project import Project

from runyard.events import BatchStarted, Notice, Progress, TaskEmitted, TaskFailed, WorkerLost
from runyard.format import duration, rate
from runyard.reports.progress import (
    BAR_WIDTHS,
    PLAIN_ALERTS,
    PlainView,
    alert,
    fit,
    progress_line,
)

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7])[;m]")


def on_terminal(project: Project, *words: str, columns: int, **env: str) -> tuple[int, str, str]:
    """The exit code, what the terminal got on stderr, and stdout."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 20, columns, 0, 0))
    out = tempfile.TemporaryFile()  # noqa: SIM115
    process = project.shown(*words, stdin=child, stdout=out.fileno(), stderr=child, **env)
    os.close(child)
    seen = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(parent)
    with out:
        code = process.wait(timeout=60)
        out.seek(0)
        return code, seen.decode(), out.read().decode()


@pytest.mark.parametrize("backend", ["processes", "serial"])
def test_a_narrow_terminal_gets_one_line_that_ends_neatly(project: Project, backend: str) -> None:
    code, seen, out = on_terminal(
        project, "run", "jobs:picky", "--grid", "x=0..99", "--backend", backend, "--json",
        "--name", "a-batch-with-a-rather-long-name-for-a-narrow-terminal", columns=60,
    )  # fmt: skip
    assert code == 1
    lines = [CONTROL.sub("", line) for line in re.split(r"[\r\n]+", seen)]
    assert all(len(line) < 60 for line in lines)
    last = [line for line in lines if line][-1]
    assert last.startswith("a-batch-with-a-rather-l… ━━━")
    assert "100/100 · 25 failed" in last
    assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h") == 1, "the cursor comes back"
    assert len(out.splitlines()) == 1


def test_colours_go_where_they_are_wanted(project: Project) -> None:
    words = ("run", "jobs:picky", "--grid", "x=0..7", "--fresh", "--yes", "--json")
    assert COLOR.search(on_terminal(project, *words, columns=80)[1])
    assert not COLOR.search(on_terminal(project, *words, columns=80, NO_COLOR="1")[1])
    assert "\x1b" not in project(*words).err


def test_notices_stay_above_the_bar(project: Project) -> None:
    words = ("run", "jobs:square", "--name", "s", "--grid")
    project(*words, "x=1,2")
    _, seen, _ = on_terminal(project, *words, "x=1,2,3", columns=80)
    assert "the batch grew from 2 to 3 tasks" in seen


def test_a_finished_batch_draws_no_bar(project: Project) -> None:
    words = ("run", "jobs:square", "--set", "x=1")
    project(*words)
    assert on_terminal(project, *words, columns=80)[1] == ""


def test_elsewhere_there_are_plain_lines(project: Project) -> None:
    answer = project("run", "jobs:picky", "--grid", "x=0..199", "--seed", "1", "--name", "p")
    lines = answer.err.splitlines()
    assert lines[0].startswith("p: 200 tasks on ")
    assert len([line for line in lines if " failed: ValueError" in line]) == PLAIN_ALERTS
    assert lines[-1] == "p: and 40 more messages"
    assert project("run", "jobs:square", "--set", "x=1", "--no-progress").err == ""


def progress(**changes: object) -> Progress:
    fields = {
        "batch": "b", "total": 2000, "completed": 1000, "failed": 3, "cancelled": 0, "running": 2,
        "retrying": 1, "workers": 2, "rate": 123.4, "eta": 75.0, "elapsed": 9.0,
    }  # fmt: skip
    return Progress(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_line_says_what_there_is_to_say() -> None:
    assert progress_line(progress()) == (
        "1,003/2,000 (50%) · 3 failed · 1 to retry · 123/s · 1 min 15 s left · 2 workers"
    )
    idle = progress(failed=0, retrying=0, rate=0.0, eta=None, workers=1)
    assert progress_line(idle) == "1,000/2,000 (50%) · 1 worker"


@pytest.mark.parametrize("width", range(10, 120))
def test_what_does_not_fit_is_left_out_from_the_end(width: int) -> None:
    parts = [("1,003/2,000", ""), ("3 failed", "red"), ("123/s", ""), ("12 s left", "")]
    kept, room = fit(parts, width)
    assert kept == parts[: len(kept)]
    assert len(kept) == 1 or room >= BAR_WIDTHS[0]
    used = len(" · ".join(text for text, _ in kept))
    assert room == width - 1 - used


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.000012, "12 µs"),
        (0.0042, "4.2 ms"),
        (0.25, "250 ms"),
        (0.9996, "1.0 s"),
        (3.14159, "3.1 s"),
        (42.4, "42 s"),
        (75, "1 min 15 s"),
        (3725, "1 h 02 min"),
        (260_000, "3 d 0 h"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_rates_read_as_people_say_them() -> None:
    assert [rate(each) for each in (0, 0.05, 0.5, 12.3, 123_456)] == [
        "0/s", "3.0/min", "0.5/s", "12/s", "123,456/s",
    ]  # fmt: skip


def test_alerts_are_what_a_person_should_see_at_once() -> None:
    failed = TaskFailed(batch="b", task=3, error="ValueError", message="one\ntwo", where="f.py:1")
    assert alert(failed) == "task 3 failed: ValueError: one"
    lost = WorkerLost(batch="b", worker=1, reason="killed by SIGSEGV", task=7)
    assert alert(lost) == "worker 1 killed by SIGSEGV at task 7; replaced"
    shouted = TaskEmitted(batch="b", task=1, kind="alert", data={"message": "too hot"})
    assert alert(shouted) == "too hot"
    assert alert(TaskEmitted(batch="b", task=1, kind="step", data={"message": "quiet"})) is None
    assert alert(Notice(batch="b", text="grew")) == "grew"


def test_a_plain_view_survives_a_closed_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView()
    view.handle(BatchStarted(batch="b", total=1, seed=1, backend="serial", workers=1))
    assert capsys.readouterr().err == "b: 1 task on 1 worker (serial), seed 1\n"
    with open(os.devnull, "w") as gone:  # noqa: PTH123
        view._file = gone
    view.handle(Notice(batch="b", text="nobody hears this"))
    view.close()
