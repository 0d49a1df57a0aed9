"""A fingerprint covers the code of the project that a function reaches, and nothing besides."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runyard.attempt.load import load
from runyard.spec.fingerprint import fingerprint
from runyard.spec.task import Target

MODEL = '''
import enum
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sides.tools
from sides import marks
from sides.tools import scale

HERE = Path(__file__).parent
RATE = 0.5
WEIGHTS = np.array([1.0, 2.0])
SETTINGS = {"depth": 3, "steps": [1, 2]}
WORD = re.compile("[a-z]+")
RNG = np.random.default_rng()
CALLS = []
_loaded = None

def logged(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call

class Colour(enum.Enum):
    RED = 1

class Base:
    limit = 10
    def grow(self, x):
        return x + 1

class Walker(Base):
    def __init__(self, start):
        self.start = start
    @property
    def twice(self):
        return self.start * 2
    @staticmethod
    def halve(x):
        return x / 2
    @classmethod
    def make(cls):
        return cls(7)
    def call(self, x):
        return self.grow(x)

@dataclass
class Point:
    x: int = 1
    def norm(self):
        return abs(self.x)

ORIGIN = Point(4)

@functools.cache
def cached(x):
    return x + 100

@logged
def decorated(x):
    return x + 200

def even(n):
    return n == 0 or odd(n - 1)

def odd(n):
    return n != 0 and even(n - 1)

def loaded():
    global _loaded
    if _loaded is None:
        _loaded = object()
    return _loaded

def unused(x):
    return x - 1

def run(x, step=3):
    """What it does."""
    # how
    CALLS.append(x)
    loaded()
    point = Point(x)
    walker = Walker(x)
    if x in {"north", "south", "east", "west"}:
        return json.dumps(HERE.name), RNG, WORD
    total = scale(x) + sides.tools.shift(x) + marks.MARK + cached(x) + decorated(x) + even(x)
    return total + walker.call(x) + point.norm() + ORIGIN.x + RATE + WEIGHTS.sum() + len(SETTINGS)

def colour():
    return Colour.RED

def later(x):
    from sides.late import late
    return late(x)

def chosen(x, name):
    return getattr(sides.tools, name)(x)

class Steps:
    def move(self, x, far):
        return x * far + 40
    leap = functools.partialmethod(move, far=9)

def calls(x):
    return [inner(x) for inner in (lambda y: scale(y),)]
'''
TOOLS = """
from sides import deep

def scale(x):
    return deep.factor(x) * 2

def shift(x):
    return x + 5

def other(x):
    return x
"""
FILES = {
    "sides/__init__.py": "",
    "sides/tools.py": TOOLS,
    "sides/deep.py": "def factor(x):\n    return x * 10\n",
    "sides/marks.py": "MARK = 8\n",
    "sides/late.py": "from . import deep\n\ndef late(x):\n    return deep.factor(x) + 1\n",
    "model.py": MODEL,
}
NAMES = ("sides.deep", "sides.tools", "sides.marks", "sides.late", "sides", "model")


class Project:
    """Files of a project, imported anew after every change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "sides").mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)

    def edit(self, file: str, old: str, new: str) -> None:
        path = self._folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def module(self) -> ModuleType:
        self.forget()
        return importlib.import_module("model")

    def of(self, name: str = "run") -> str:
        return fingerprint(getattr(self.module(), name))

    @staticmethod
    def forget() -> None:
        for name in NAMES:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield Project(tmp_path)
    Project.forget()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("model.py", "step=3", "step=4"),
        ("model.py", "total + walker", "total - walker"),
        ("sides/tools.py", "* 2", "* 3"),
        ("sides/tools.py", "x + 5", "x + 6"),
        ("sides/deep.py", "* 10", "* 11"),
        ("sides/marks.py", "8", "9"),
        ("model.py", "x + 100", "x + 101"),
        ("model.py", "x + 200", "x + 201"),
        ("model.py", "return function(*args)", "return function(*args) + 1"),
        ("model.py", "n != 0", "n > 0"),
        ("model.py", "self.grow(x)", "self.grow(x) * 2"),
        ("model.py", "x + 1\n", "x + 2\n"),
        ("model.py", "limit = 10", "limit = 11"),
        ("model.py", "self.start * 2", "self.start * 3"),
        ("model.py", "x / 2", "x / 3"),
        ("model.py", "cls(7)", "cls(8)"),
        ("model.py", "class Walker(Base)", "class Walker"),
        ("model.py", "x: int = 1", "x: int = 2"),
        ("model.py", "abs(self.x)", "-self.x"),
        ("model.py", "Point(4)", "Point(5)"),
        ("model.py", "RATE = 0.5", "RATE = 0.6"),
        ("model.py", "[1.0, 2.0]", "[1.0, 2.5]"),
        ("model.py", '"steps": [1, 2]', '"steps": [1, 3]'),
        ("model.py", "[a-z]+", "[a-z]*"),
        ("model.py", '"south"', '"up"'),
    ],
)
def test_a_change_of_what_a_function_reaches_is_a_change(
    project: Project, file: str, old: str, new: str
) -> None:
    before = project.of()
    project.edit(file, old, new)
    assert project.of() != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("model.py", "# how", "# how else\n    # and why"),
        ("model.py", '    """What it does."""\n', ""),
        ("model.py", "What it does", "What else it does"),
        ("model.py", "import enum", "\n\n\nimport enum"),
        ("model.py", "x - 1", "x - 2"),
        ("model.py", "def run(x, step=3)", "def run(x: int, step: int = 3) -> float"),
        ("sides/tools.py", "    return x\n", "    return -x\n"),
        ("sides/deep.py", "def factor", "# ten times\n\n\ndef factor"),
    ],
)
def test_comments_docstrings_lines_and_what_is_not_reached_do_not_count(
    project: Project, file: str, old: str, new: str
) -> None:
    before = project.of()
    project.edit(file, old, new)
    assert project.of() == before


@pytest.mark.parametrize(
    ("function", "file", "old", "new"),
    [
        ("colour", "model.py", "RED = 1", "RED = 2"),
        ("chosen", "sides/tools.py", "    return x\n", "    return -x\n"),
        ("Steps", "model.py", "far=9", "far=8"),
        ("calls", "sides/tools.py", "* 2", "* 3"),
        ("later", "sides/late.py", "+ 1", "+ 2"),
        ("later", "sides/deep.py", "* 10", "* 11"),
        ("decorated", "model.py", "x + 200", "x + 201"),
        ("cached", "model.py", "x + 100", "x + 101"),
        ("Walker", "model.py", "x + 1\n", "x + 2\n"),
    ],
)
def test_other_ways_to_reach_code_count_too(
    project: Project, function: str, file: str, old: str, new: str
) -> None:
    before = project.of(function)
    project.edit(file, old, new)
    assert project.of(function) != before


def test_a_module_that_a_function_imports_counts_the_same_before_and_after_it_is_loaded(
    project: Project,
) -> None:
    model = project.module()
    before = fingerprint(model.later)
    assert model.later(1) == 11
    assert fingerprint(model.later) == before


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model.Walker(3).call,
        lambda model: model.Walker.make,
        lambda model: model.functools.partial(model.run, step=1),
        lambda model: lambda x: model.run(x),
        lambda model: model.logged(model.run),
    ],
    ids=["method", "classmethod", "partial", "closure", "decorated"],
)
def test_methods_partials_and_closures_reach_what_they_hold(
    project: Project, wrap: Callable[[Any], Any]
) -> None:
    before = fingerprint(wrap(project.module()))
    assert fingerprint(wrap(project.module())) == before
    for file, old, new in (("model.py", "x + 1\n", "x + 2\n"),):
        project.edit(file, old, new)
    assert fingerprint(wrap(project.module())) != before


def test_what_a_module_fills_while_it_runs_is_no_change_of_code(project: Project) -> None:
    model = project.module()
    before = fingerprint(model.run)
    model.run(2)
    model.run("north")
    assert model.CALLS
    assert fingerprint(model.run) == before


def test_reloading_a_helper_alone_is_seen(project: Project) -> None:
    model = project.module()
    before = fingerprint(model.run)
    project.edit("sides/tools.py", "x + 5", "x + 6")
    assert fingerprint(model.run) == before
    importlib.reload(sys.modules["sides.tools"])
    assert fingerprint(model.run) != before


def test_a_file_loaded_anew_is_the_same_code_until_its_code_changes(project: Project) -> None:
    def of() -> str:
        return fingerprint(load(Target.parse("model.py:run"), os.getcwd()))

    before = of()
    project.edit("model.py", "# how", "# how else")
    assert of() == before
    project.edit("model.py", "abs(self.x)", "-self.x")
    assert of() != before


def test_processes_with_other_hash_seeds_and_folders_agree(
    project: Project, tmp_path: Path
) -> None:
    other = tmp_path / "elsewhere"
    (other / "sides").mkdir(parents=True)
    for name, text in FILES.items():
        (other / name).write_text(text)
    script = (
        "import model; from runyard.spec.fingerprint import fingerprint as of; "
        "print(of(model.run), of(model.later))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(folder)},
            cwd=folder, capture_output=True, text=True, check=True,
        ).stdout
        for seed, folder in (("1", tmp_path), ("2", tmp_path), ("3", other))
    }  # fmt: skip
    assert found == {f"{project.of()} {project.of('later')}\n"}


def test_a_module_elsewhere_is_not_taken_for_a_name_inside_another_module(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.of("later")
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "late.py").write_text("late = 1\n")  # of the name that `sides.late` defines
    monkeypatch.syspath_prepend(str(other))
    assert project.of("later") == before


def test_a_long_chain_of_calls_is_followed_to_its_end() -> None:
    def chain(last: str) -> str:
        text = "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n" for n in range(3000))
        space: dict[str, Any] = {"__name__": "chain"}
        exec(compile(f"{text}def f3000(x):\n    return {last}\n", "chain.py", "exec"), space)
        return fingerprint(space["f0"])

    assert chain("x") == chain("x") != chain("-x")
