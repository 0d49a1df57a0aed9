"""A recorded batch whose function can't be loaded any more: nothing is recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import runyard as ry
from runyard.errors import BadTarget
from runyard.execution import RunSettings
from runyard.worker import YardWorker

SUBMIT = """
import runyard as ry
with ry.Yard("yard") as yard:
    yard.submit(ry.grid("gone_soon.py:f", x=range(20), name="b"))
"""


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ry.Yard:
    monkeypatch.chdir(tmp_path)
    Path("gone_soon.py").write_text("def f(x):\n    return x\n")
    # By another process: this one must not have loaded the code.
    subprocess.run([sys.executable, "-c", SUBMIT], check=True)
    return ry.Yard("yard")


@pytest.mark.parametrize("text", [None, "def f(x:\n"], ids=["removed", "broken"])
def test_a_batch_is_not_run_without_its_code(yard: ry.Yard, text: str | None) -> None:
    if text is None:
        Path("gone_soon.py").unlink()
    else:
        Path("gone_soon.py").write_text(text)
    with yard:
        with pytest.raises(BadTarget, match="gone_soon"):
            yard.resume("b", backend="serial")
        said: list[str] = []
        turns = YardWorker(yard, RunSettings("serial", progress=False), say=said.append).run()
        assert [turn.tasks for turn in turns] == [0]
        assert "skipping b: " in said[0]
        assert yard.results("b").stats.done == 0
        Path("gone_soon.py").write_text("def f(x):\n    return x\n")
        assert list(yard.resume("b", backend="serial").values()) == list(range(20))
