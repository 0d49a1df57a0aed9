"""A module whose file was edited after its import is found, and no other."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from runyard.spec.edited import edited

NAME = "module_to_edit"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / f"{NAME}.py"
    path.write_text("x = 1\n")
    os.utime(path, (1000, 1000))
    importlib.invalidate_caches()
    importlib.import_module(NAME)
    yield path
    sys.modules.pop(NAME, None)


def edit(path: Path) -> None:
    path.write_text("x = 2\n")
    os.utime(path, (2000, 2000))


def test_an_edit_before_the_first_question_is_found(file: Path) -> None:
    edit(file)
    assert edited([NAME]) == [str(file)]
    assert edited([NAME]) == [str(file)]
    importlib.reload(sys.modules[NAME])
    assert edited([NAME]) == []


def test_an_edit_after_it_is_found(file: Path) -> None:
    assert edited([NAME]) == []
    edit(file)
    assert edited([NAME]) == [str(file)]


def test_without_bytecode_of_the_import_nothing_is_made_up(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept is of an earlier import."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    edit(file)
    importlib.reload(sys.modules[NAME])
    assert edited([NAME]) == []


def test_bytecode_that_is_gone_or_short_is_no_edit(file: Path) -> None:
    spec = sys.modules[NAME].__spec__
    assert spec is not None
    Path(str(spec.cached)).unlink()
    assert edited([NAME, "no_such_module", "__main__", "sys"]) == []


class OtherLoader(SourceFileLoader):
    """One that keeps bytecode elsewhere, as that of pytest does."""


def test_bytecode_that_another_import_left_is_no_edit(file: Path) -> None:
    edit(file)
    sys.modules[NAME].__spec__ = spec_from_file_location(
        NAME, file, loader=OtherLoader(NAME, str(file))
    )
    assert edited([NAME]) == []
