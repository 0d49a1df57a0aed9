"""Whatever tasks print, raise, return or are given: no command lets it act on the terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_project import Answer, Project
from command_server import CommandServer

from runyard.plaintext import UNSEEN

TITLE = "\x1b]0;x\x07"
NASTY = f"{TITLE}\x1b[2J\x9b\x1b]52;c;eA==\x07\u202e\x7f\rhid\x1b[8mden"
OURS = re.compile(r"\r(?=\n)|\r?\x1b\[(?:[0-9;]*m|\?25[hl]|1A|2K)|\r")
"""What the terminal adds, and what Runyard writes itself: colours, and a bar drawn again."""

FUNCTIONS = f"""
import sys, warnings

NASTY = {NASTY!r}
Nasty = type("Nasty" + NASTY, (Exception,), {{}})


def nasty(ctx, x, label):
    print("out", NASTY)
    print("err", NASTY, file=sys.stderr)
    sys.stdout.buffer.write(b"\\x9bbytes\\x1b]0;y\\x07\\n")
    sys.stdout.flush()
    ctx.emit("alert", message="alert " + NASTY)
    if x % 3 == 0:
        raise Nasty("raised " + NASTY + "\\n" + NASTY)
    return {{"text": NASTY, "metric " + NASTY: x, "n": x}}


def quiet(x, label):
    if x % 3 == 0:
        raise Nasty("raised " + NASTY)
    return {{"text": NASTY, "n": x}}


def fickle(x, label):
    import os
    return NASTY + str(os.getpid())
"""


def batch_file(function: str) -> str:
    labels = json.dumps([f"a {NASTY}", f"b {NASTY}"]).replace("\x7f", r"\u007f")
    return (
        f'run = "nasty.py:{function}"\nname = "{function}"\nseed = 1\n'
        f"[grid]\nx = [0, 1, 2, 3, 4, 5]\nlabel = {labels}\n"
    )


@pytest.fixture(scope="module")
def done(
    tmp_path_factory: pytest.TempPathFactory, commands: CommandServer
) -> Iterator[tuple[Project, dict[str, Answer]]]:
    """Batches that have run, and what was said meanwhile."""
    project = Project(tmp_path_factory.mktemp("plain"), commands)
    (project.folder / "nasty.py").write_text(FUNCTIONS)
    said = {}
    for function in ("nasty", "quiet", "fickle"):
        (project.folder / f"{function}.toml").write_text(batch_file(function))
        said[function] = project("run", f"{function}.toml", "--workers", "2")
    yield project, said
    project.close()


def assert_plain(*texts: str, where: object = "") -> None:
    for text in texts:
        found = UNSEEN.search(text)
        assert found is None, (where, found, text)


def on_terminal(project: Project, *words: str) -> str:
    """What a terminal gets on stdout and stderr."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = project.shown(*words, stdin=child, stdout=child, stderr=child)
    os.close(child)
    seen = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        seen += part
    os.close(parent)
    process.wait(timeout=60)
    return seen.decode()


def test_a_run_says_it_in_plain_text(done: tuple[Project, dict[str, Answer]]) -> None:
    for name in ("nasty", "quiet"):
        answer = done[1][name]
        assert answer.code == 1
        assert_plain(answer.out, answer.err)
        assert r"\x1b]0;x\x07" in answer.out + answer.err
    assert r"alert \x1b]0;x" in done[1]["nasty"].err


COMMANDS = (
    ("status",),
    ("status", "nasty"),
    ("results", "nasty"),
    ("results", "nasty", "--failures"),
    ("results", "nasty", "--by", "label"),
    ("results", "nasty", "--metric", "n", "--by", "label"),
    ("compare", "nasty", "--by", "label", "--metric", "n"),
    ("compare", "nasty", "--by", "label", "--metric", "n", "--gate", f"{NASTY} < 1"),
    ("compare", "nasty", "quiet"),
    ("logs", "nasty/0"),
    ("logs", "nasty/2", "--only", "stdout"),
    ("logs", "nasty/2", "--only", "stderr"),
    ("logs", "nasty/2", "--only", "events"),
    ("verify", "fickle", "--sample", "2"),
    ("verify", "quiet", "--sample", "2", "--backend", "serial"),
    ("repro", "quiet/0"),
    ("repro", "quiet/2"),
    ("repro", "fickle/2"),
    ("retry", "quiet"),
    ("resume", "nasty"),
    ("export", "nasty", "--format", "txt", "-o", "-"),
    ("run", "nasty.toml", "--dry-run"),
    ("run", "nasty.toml", "--set", f"x={NASTY}"),
    ("run", f"{NASTY}.toml"),
    ("run", f"{NASTY}:f"),
    ("results", NASTY),
    (NASTY,),
    ("status", "--yard", NASTY),
    ("report", "nasty", "-o", f"r{TITLE}.html"),
    ("doctor",),
    ("cancel", NASTY),
    ("letitride", "validate", f"{NASTY}.yaml"),
    ("letitride", "run", "nasty.yaml"),
    ("malice", "replay", NASTY),
    ("queue", "add", f"n{NASTY}", "code_execution", "--set", f"code={NASTY}"),
    ("queue", "add", NASTY, NASTY),
    ("queue", "status"),
    ("queue", "status", "queue/0"),
    ("queue", "results"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(NASTY, "?"))
def test_every_command_says_it_in_plain_text(
    done: tuple[Project, dict[str, Answer]], words: tuple[str, ...]
) -> None:
    project = done[0]
    (project.folder / "nasty.yaml").write_text(json.dumps({"metadata": {NASTY: NASTY}}))
    answer = project(*words)
    assert "unexpected" not in answer.err, answer.err
    assert_plain(answer.out, answer.err, where=words)
    if words[0] not in ("export", "mcp") and "-o" not in words:
        told = project(*words, "--json")
        for line in told.out.splitlines():
            assert line.isascii()
            json.loads(line)
        assert_plain(told.out, told.err, where=words)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "nasty.toml", "--name", "live"),
        ("run", "quiet.toml", "--name", "threads", "--backend", "threads", "--metric", "n"),
        ("results", "nasty"),
        ("results", "nasty", "--failures"),
        ("status", "nasty"),
        ("logs", "nasty/2"),
        *(("export", "nasty", "--format", kind, "-o", "-") for kind in ("txt", "csv", "json")),
    ],
)
def test_a_terminal_gets_nothing_that_is_not_our_own(
    done: tuple[Project, dict[str, Answer]], words: tuple[str, ...]
) -> None:
    project, _ = done
    seen = on_terminal(project, *words)
    assert "hid" in seen or words[0] == "status"
    assert "\x1b[8m" not in seen
    assert_plain(OURS.sub("", seen), where=words)


def test_data_that_goes_elsewhere_is_as_it_is(done: tuple[Project, dict[str, Answer]]) -> None:
    project, _ = done
    assert NASTY in project("export", "quiet", "--format", "csv", "-o", "-").out.replace(
        "\r\n", "\n"
    )


@pytest.mark.parametrize("task", [0, 1])
def test_logs_give_the_bytes_of_a_task_on_request(
    done: tuple[Project, dict[str, Answer]], task: int
) -> None:
    project, _ = done
    text = NASTY.encode()
    out = b"out " + text + b"\n\x9bbytes\x1b]0;y\x07\n"
    err = b"err " + text + b"\n"

    def logs(*words: str) -> tuple[bytes, bytes]:
        told = subprocess.run(
            project.command("logs", f"nasty/{task}", "--raw", *words),
            cwd=project.folder, env=project.env, capture_output=True, check=True,
        )  # fmt: skip
        return told.stdout, told.stderr

    assert logs() == (out, err)
    assert logs("--only", "stderr") == (err, b"")


@pytest.mark.parametrize("more", [("--json",), ("--only", "events")])
def test_only_what_was_printed_is_raw(
    done: tuple[Project, dict[str, Answer]], more: tuple[str, ...]
) -> None:
    answer = done[0]("logs", "nasty/1", "--raw", *more)
    assert answer.code == 2
    assert "--raw is for what a task printed" in answer.out + answer.err


def test_a_summary_in_python_is_plain_too(tmp_path: Path) -> None:
    import runyard as ry

    def nasty(label: str) -> float:
        if label.startswith("b"):
            raise ValueError(NASTY)
        return 1.0

    with ry.Yard(tmp_path) as yard:
        labels = [f"a{NASTY}", f"b{NASTY}"]
        result = yard.run(ry.grid(nasty, label=labels, replicates=3), backend="serial")
        assert_plain(result.summary(), result.summary(by="label"))
