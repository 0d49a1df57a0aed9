"""A row that the store has lost is reported as damage, never as a row that never was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import Call

import runyard as ry
from runyard.errors import StoreDamaged

PAGE = 4096


def lose_a_row(store: Path, name: str) -> None:
    """Let the first page of a table or an index hold one cell less than it does."""
    with closing(sqlite3.connect(store)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", [name]
        ).fetchone()
    content = bytearray(store.read_bytes())
    content[(root - 1) * PAGE + 4] -= 1
    store.write_bytes(content)


@pytest.mark.parametrize("lost", ["batches", "batches_name"])
def test_a_batch_that_the_store_has_lost_is_damage_and_keeps_its_folder(
    cli: Call, tmp_path: Path, lost: str
) -> None:
    assert cli("run", "json:dumps", "--set", "obj=1", "--name", "d").code == 0
    folder = tmp_path / ".runyard" / "batches" / "d"
    (folder / "kept").touch()
    lose_a_row(tmp_path / ".runyard" / "yard.db", lost)
    for words in (["status"], ["status", "d"], ["gc", "--older-than", "1ms"], ["doctor"]):
        answer = cli(*words)
        assert answer.code == 3, words
        assert "damaged" in answer.out + answer.err
        assert "no batch" not in answer.out + answer.err
    assert (folder / "kept").exists()


def test_gc_removes_no_batch_folder_beside_a_damaged_store(cli: Call, tmp_path: Path) -> None:
    assert cli("run", "json:dumps", "--set", "obj=1", "--name", "d").code == 0
    orphan = tmp_path / ".runyard" / "batches" / "orphan"
    orphan.mkdir()
    lose_a_row(tmp_path / ".runyard" / "yard.db", "outcomes")
    refused = cli("gc", "--older-than", "1ms")
    assert refused.code == 3
    assert "nothing is removed" in refused.err
    assert orphan.exists()


@pytest.mark.parametrize("listed", [False, True])
def test_an_outcome_that_the_store_has_lost_is_damage_and_no_unfinished_task(
    cli: Call, tmp_path: Path, listed: bool
) -> None:
    with ry.Yard(tmp_path / ".runyard") as yard:
        tasks = [ry.Task(str, {"object": n}) for n in range(3)]
        grid = ry.grid(str, object=range(3), name="d")
        yard.run(ry.tasks(tasks, name="d") if listed else grid, backend="serial")
    lose_a_row(tmp_path / ".runyard" / "yard.db", "outcomes")
    assert cli("logs", "d/1").code == 0
    for words in (["logs", "d/2"], ["repro", "d/2"], ["doctor"]):
        answer = cli(*words)
        assert answer.code == 3, words
        assert "unfinished" not in answer.out
    with ry.Yard(tmp_path / ".runyard") as yard, pytest.raises(StoreDamaged, match="d/2"):
        yard.results("d").outcome(2)


def test_doctor_finds_printed_text_that_the_store_has_lost(cli: Call, tmp_path: Path) -> None:
    cli("run", "builtins:print", "--set", "end=text", "--name", "d", "--backend", "serial")
    assert "text" in cli("logs", "d/0").out
    lose_a_row(tmp_path / ".runyard" / "yard.db", "outputs")
    assert cli("doctor").code == 3
