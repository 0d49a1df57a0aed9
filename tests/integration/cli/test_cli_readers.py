"""Yards that may be read and not written, or not read at all, and what `doctor` says of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from command_line import Said, call
from ordinary_user import run_as_ordinary_user
from polling import eventually

import runyard as ry
from runyard.errors import StoreForbidden
from runyard.spec.outcome import OutcomeRow

JOBS = """
import time
def double(x):
    return 2 * x
def slow(x):
    time.sleep(0.01)
    return x
"""
READS = (
    ("status",),
    ("status", "b"),
    ("results", "b"),
    ("compare", "b", "--by", "x"),
    ("export", "b", "-o", "../out.csv"),
    ("report", "b", "-o", "../out.html"),
    ("logs", "b/1"),
    ("verify", "b", "--sample", "2"),
    ("doctor",),
    ("repro", "b/1"),
)
WRITES = (("resume", "b"), ("cancel", "b"), ("clear", "b", "--yes"), ("worker",))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on the way to which nothing is closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "work").mkdir()
        (Path(name) / "work" / "jobs.py").write_text(JOBS)
        yield Path(name)
        for each in Path(name).rglob("*"):
            each.chmod(0o755)


CALLS = """
import contextlib, io, json, os, sys
from runyard.cli.main import main
os.chdir("work")
told = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    told.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(told))
"""


def runyard(folder: Path, *commands: Sequence[str]) -> list[Said]:
    """The program, called by somebody whose rights count, also where tests run as root."""
    said = run_as_ordinary_user(["-c", CALLS, json.dumps(commands)], folder=folder)
    assert said.returncode == 0, said.stderr
    return [Said(*each) for each in json.loads(said.stdout)]


def recorded(folder: Path) -> Path:
    """A yard with a batch in it."""
    place = folder / "work" / ".runyard"
    with ry.Yard(place) as yard:
        target = f"{place.parent / 'jobs.py'}:double"
        batch = ry.grid(target, x=[1, 1.5, 2, 2.5], replicates=5, name="b", seed=1)
        assert yard.run(batch, backend="serial").stats.completed == 20
    return place


def close(place: Path, *, to: int) -> None:
    """Take rights to write away, or those to read too."""
    for each in (place, *place.rglob("*")):
        each.chmod((0o555 if each.is_dir() else 0o444) & to)


def test_reading_takes_no_right_to_write_and_changes_nothing(folder: Path) -> None:
    place = recorded(folder)
    close(place, to=0o777)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in place.rglob("*"))
    for words, said in zip(READS, runyard(folder, *READS), strict=True):
        assert said.code == 0, (words, said)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in place.rglob("*")) == before
    for words, said in zip(WRITES, runyard(folder, *WRITES), strict=True):
        assert (said.code, "is read-only for you" in said.err) == (3, True), (words, said)


def test_who_may_only_read_sees_what_an_engine_records_and_what_a_dead_one_left(
    folder: Path,
) -> None:
    work = folder / "work"
    command = [sys.executable, "-m", "runyard", "run", "jobs.py:slow", "--grid", "x=0..9999"]
    process = subprocess.Popen(
        [*command, "--name", "b", "--workers", "1", "--no-progress"],
        cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        place = work / ".runyard"
        assert eventually(lambda: (place / "yard.db-shm").exists() and _done(place) > 10, 30)
        close(place, to=0o777)  # what is open stays open
        seen = _read(folder)
        assert seen > 10
        assert eventually(lambda: _read(folder) > seen, 30)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    (said,) = runyard(folder, ["doctor"])
    assert (said.code, "is intact" in said.out) == (0, True), said
    assert "died: you may not sign it off" in said.out
    place.chmod(0o755)
    (place / "yard.db-shm").unlink()
    place.chmod(0o555)
    (said,) = runyard(folder, ["doctor"])
    assert (said.code, "a log without an index" in said.err) == (3, True), said


def _done(place: Path) -> int:
    try:
        with ry.Yard(place) as yard:
            return yard.results("b").stats.done
    except ry.RunyardError:
        return 0


def _read(folder: Path) -> int:
    (said,) = runyard(folder, ["results", "b", "--limit", "1000000"])
    assert said.code == 0, said
    return said.out.count("completed")


def test_a_store_that_may_not_be_read_is_no_damaged_one(folder: Path) -> None:
    place = recorded(folder)
    (place / "yard.db").chmod(0)
    found = runyard(folder, ["doctor"], ["status"], ["results", "b"], ["resume", "b"])
    place.chmod(0)
    for said in [*found, *runyard(folder, ["doctor"], ["status"])]:
        assert (said.code, "Permission denied" in said.err) == (3, True), said
        assert "damaged" not in said.out + said.err
        assert "--fresh" not in said.out + said.err


def test_logs_that_may_not_be_read_or_mended_are_no_damaged_ones(folder: Path) -> None:
    place = recorded(folder)
    log = place / "batches" / "b" / "events.jsonl"
    with log.open("ab") as file:
        file.write(b"abc")
    close(place, to=0o777)
    (said,) = runyard(folder, ["doctor"])
    assert (said.code, "is intact: the store" in said.out) == (0, True), said
    assert "3 bytes of an incomplete last line" in said.out
    log.chmod(0)
    (said,) = runyard(folder, ["doctor"])
    assert said.code == 3
    assert "events.jsonl: Permission denied" in said.out
    assert "damaged" not in said.out
    assert "is intact: the store" not in said.out
    logs, report = runyard(folder, ["logs", "b/1"], ["report", "b", "-o", "../out.html"])
    assert (logs.code, "events.jsonl: Permission denied" in logs.err) == (3, True), logs
    assert "unexpected" not in logs.err
    assert report.code == 0, report


def test_a_reading_during_which_somebody_began_to_write_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = recorded(folder)
    monkeypatch.setattr("runyard.store.readonly.may_only_read", lambda path: True)
    with ry.Yard(place) as yard:
        with yard.store.snapshot() as view:
            assert view.batch("b") is not None
        with pytest.raises(StoreForbidden):
            yard.stop()
        with pytest.raises(ry.RunyardError, match="changed while it was read"):
            with yard.store.snapshot():
                (place / "yard.db-wal").touch()


ODD: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "a pipe for a log": (
        lambda y: _replaced(y / "batches/b/events.jsonl", os.mkfifo), 3, "not a regular file"),
    "a folder for a log": (
        lambda y: _replaced(y / "batches/b/events.jsonl", os.mkdir), 3, "not a regular file"),
    "a socket for a log": (
        lambda y: _replaced(y / "batches/b/events.jsonl", _socket), 3, "not a regular file"),
    "a loop for a log": (
        lambda y: _replaced(y / "batches/b/events.jsonl", lambda path: path.symlink_to(path)),
        3, "can't read the audit log"),
    "a link to nothing for a log": (
        lambda y: _replaced(y / "batches/b/events.jsonl", lambda path: path.symlink_to("gone")),
        3, "broken link"),
    "zeros for a log": (
        lambda y: (y / "batches/b/events.jsonl").write_bytes(bytes(900)), 3,
        "it has 900 bytes, but no valid line"),
    "other text for a log": (
        lambda y: (y / "batches/b/events.jsonl").write_text("hello\n"), 3,
        "it has 6 bytes, but no valid line"),
    "a log that begins": (
        lambda y: (y / "batches/b/events.jsonl").write_bytes(b'{"seq":1,"pr\0\0'), 0,
        "of an incomplete last line"),
    "a pipe for a store": (lambda y: _replaced(y / "yard.db", os.mkfifo), 3, "not a regular file"),
    "a folder for a store": (lambda y: _replaced(y / "yard.db", os.mkdir), 3, "not a regular file"),
    "pipes of engines": (
        lambda y: [os.mkfifo(y / "run" / name) for name in ("77.alive", "78.slots")], 0, "intact"),
    "a pipe for a lock": (lambda y: _replaced(y / "yard.lock", os.mkfifo), 0, "intact"),
}  # fmt: skip


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def _replaced(path: Path, by: Callable[[Path], object]) -> None:
    path.unlink()
    by(path)


@pytest.mark.parametrize("odd", ODD)
def test_doctor_waits_for_nothing_and_calls_nothing_whole_that_is_not(
    folder: Path, odd: str, capfd: pytest.CaptureFixture[str]
) -> None:
    place = recorded(folder)
    change, code, says = ODD[odd]
    change(place)
    answer, out, err = call(capfd, "doctor", "--yard", str(place))
    assert (answer, says in out + err) == (code, True), out + err
    assert "unexpected" not in err
    assert ("is intact: the store" in out) == (code == 0)
    log = place / "batches/b/events.jsonl"
    if not log.is_file() or log.is_symlink():
        answer, out, err = call(capfd, "logs", "b/1", "--yard", str(place))
        assert (answer, "events.jsonl" in err, "unexpected" in err) == (3, True, False), err
        page = folder / "out.html"
        answer, _, err = call(capfd, "report", "b", "-o", str(page), "--yard", str(place))
        assert (answer, "events.jsonl" in page.read_text()) == (0, True), err
    if log.is_symlink():
        log.unlink()


def test_what_can_not_be_decoded_is_not_whole(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its checksum is that of what is stored: no accident, but nobody can read it either."""
    place = recorded(folder)
    with ry.Yard(place) as yard, yard.store.snapshot() as view:
        rows = list(view.outcomes(1, limit=2))
    odd = [rows[0]._replace(value=b"\xc1"), rows[1]._replace(error=b"\x91\x01")]
    connection = sqlite3.connect(place / "yard.db")
    for row in odd:
        with_checksum = OutcomeRow.with_checksum(1, *row[:-1])
        connection.execute(
            "UPDATE outcomes SET value = ?, error = ?, checksum = ? WHERE task = ?",
            (with_checksum.value, with_checksum.error, with_checksum.checksum, with_checksum.task),
        )
    connection.commit()
    connection.close()
    code, out, _ = call(capfd, "doctor", "--yard", str(place))
    assert code == 3
    assert "the outcome of task 0 can't be read" in out
    assert "the outcome of task 1 can't be read" in out


@pytest.mark.parametrize("host", ["127.0.0.1:1", "nowhere.invalid"])
def test_a_server_that_can_not_be_reached_is_no_damaged_store(
    host: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capfd, "doctor", "--yard", f"postgresql://me@{host}/lab")
    assert (code, "can't be reached" in err) == (3, True), err
    assert "damaged" not in out + err
    assert "--fresh" not in out + err
