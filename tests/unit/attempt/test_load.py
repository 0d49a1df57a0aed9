from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.attempt.load import load
from runyard.attempt.shell import fields
from runyard.errors import BadTarget
from runyard.spec.codec import dump_function
from runyard.spec.task import Target


@pytest.fixture(autouse=True)
def modules_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    for name in ("loadable", "broken_load", "needs_load"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def call(target: str, root: Path, **params: Any) -> Any:
    return load(Target.parse(target), str(root))(**params)


def test_a_function_is_found_by_module_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "loadable.py").write_text(
        "class Thing:\n    @staticmethod\n    def plus(x): return x + 1\ndef f(x): return x * 2\n"
    )
    assert call("loadable:f", tmp_path, x=2) == 4
    assert call("loadable:Thing.plus", tmp_path, x=2) == 3
    assert call("loadable.py:f", tmp_path, x=2) == 4
    assert call(f"{tmp_path}/loadable.py:Thing.plus", Path("/"), x=2) == 3


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "loadable.py").write_text(f"def f(): return {value}\n")
    assert [call(f"{folder}/loadable.py:f", tmp_path) for folder in "ab"] == [1, 2]


def test_a_function_by_value_comes_with_the_job() -> None:
    target = Target("value", "<lambda>")
    assert load(target, "/", {"<lambda>": dump_function(lambda x: x + 1)})(x=1) == 2
    with pytest.raises(BadTarget, match="by value and is not available"):
        load(target, "/", {})


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("", "loadable:f", "loadable has no function 'f'"),
        ("f = 3", "loadable:f", "no function"),
        ("def good(): ...\ndef _hidden(): ...", "loadable:f", "its functions: good"),
        ("1 / 0", "loadable:f", "ZeroDivisionError"),
        ("import nothing_like_it", "loadable:f", "nothing_like_it"),
        ("def f(:", "loadable:f", "SyntaxError"),
        ("1 / 0", "loadable.py:f", "ZeroDivisionError"),
        ("", "other.py:f", "no such file"),
        ("", "no_such_module_at_all:f", "no module named 'no_such_module_at_all'"),
        ("", "loadable.sub:f", "loadable"),
        ("raise SystemExit(3)", "loadable:f", "SystemExit"),
        ("raise SystemExit(3)", "loadable.py:f", "SystemExit"),
    ],
)
def test_what_can_not_be_loaded_says_why(
    tmp_path: Path, source: str, target: str, text: str
) -> None:
    (tmp_path / "loadable.py").write_text(source)
    with pytest.raises(BadTarget) as caught:
        load(Target.parse(target), str(tmp_path))
    assert text in str(caught.value)


def test_a_file_that_failed_to_load_is_loaded_again_when_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "loadable.py"
    path.write_text("1 / 0")
    with pytest.raises(BadTarget):
        call("loadable.py:f", tmp_path)
    path.write_text("def f(): return 'mended'\n")
    assert call("loadable.py:f", tmp_path) == "mended"


def test_the_parameters_of_a_command_are_its_fields() -> None:
    assert fields("echo {a} {b} {a} {{no}}") == {"a", "b"}
    assert fields("echo") == set()
