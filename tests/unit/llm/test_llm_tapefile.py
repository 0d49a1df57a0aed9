"""The tape file: what cells write is kept whole, in order, and replaces what they wrote before."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.errors import UsageError
from runyard.llm import tapefile
from runyard.llm.tapefile import Entry, cells, load, save, tidy

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
BODIES = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=3)


def entries(cell: str, bodies: list[Any]) -> list[Entry]:
    return [Entry(cell, n, {"body": body}, {"json": body}, 0.5) for n, body in enumerate(bodies)]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.text(max_size=4), BODIES), max_size=8), st.sampled_from([0, 1 << 20]))
def test_a_tape_has_what_each_cell_wrote_last(
    writes: list[tuple[str, list[Any]]], small: int
) -> None:
    before, tapefile.SMALL = tapefile.SMALL, small  # with 0, all is appended
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder, "tape.jsonl")
            last: dict[str, list[Entry]] = {}
            for cell, bodies in writes:
                last[cell] = entries(cell, bodies)
                save(path, cell, last[cell])
            for _ in range(2):
                for cell, written in last.items():
                    assert load(path, cell) == written
                if writes:
                    assert set(cells(path)) == set(last)
                    tidy(path)
            if writes:
                tidied = path.read_bytes()
                tapefile.SMALL = 1 << 20
                save(path, *(item := next(iter(last.items()))))
                assert path.read_bytes() == tidied, item
    finally:
        tapefile.SMALL = before


def test_cells_are_in_natural_order(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    for cell in ("10", "a/10", "9", "a/9", "b"):
        save(path, cell, entries(cell, [{}]))
    assert cells(path) == ["9", "10", "a/9", "a/10", "b"]


def test_half_a_surrogate_pair_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    save(path, "a", entries("a", [{"text": "\ud83d"}]))
    assert load(path, "a") == entries("a", [{"text": "\ud83d"}])
    path.read_bytes().decode()


def test_what_a_killed_writer_left_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tape.jsonl"
    save(path, "a", entries("a", [{"n": 1}]))
    whole = path.read_bytes()
    for size in (10, len(whole) - 1):
        for small in (0, 1 << 20):
            monkeypatch.setattr(tapefile, "SMALL", small)
            path.write_bytes(whole + whole.replace(b'"a"', b'"b"')[:size])
            assert load(path, "a") == entries("a", [{"n": 1}])
            save(path, "c", entries("c", [{"n": 3}]))
            assert load(path, "a") == entries("a", [{"n": 1}])
            assert load(path, "c") == entries("c", [{"n": 3}])


def test_a_full_disk_leaves_the_tape_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tape.jsonl"
    save(path, "a", entries("a", [{"n": 1}]))
    before = path.read_bytes()
    monkeypatch.setattr(tapefile, "SMALL", 0)
    with pytest.raises(TypeError):
        tapefile._append(os.open(path, os.O_RDWR), len(before), [b"part", None])  # type: ignore[list-item]
    assert load(path, "a") == entries("a", [{"n": 1}])


def test_a_tape_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        load(tmp_path, "a")
