"""The examples of benches run from their tapes, alike on every backend."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "workbench"

LINES = {
    "rag": r"found +stems, plain +8 of 8 +0\.875 [^\n]*\n(?s:.*)gate passed",
    "router": r"routed +words +6 of 6 +0\.83 ",
    "approval": r"as_decided +sorry +3 of 4 +1 ",
}
"""A line that each example shows, in figures that don't depend on the model."""


def _run(name: str, backend: str, folder: Path, *more: str) -> str:
    """Run an example where no model answers."""
    unwanted = ("RUNYARD_YARD", "MODEL", "OPENAI_API_KEY")
    environment = {key: value for key, value in os.environ.items() if key not in unwanted}
    environment["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    words = ["workbench", "run", str(EXAMPLES / f"{name}.toml"), "--backend", backend]
    done = subprocess.run(
        [sys.executable, "-m", "runyard", *words, "--no-progress", *more],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", LINES)
def test_an_example_replays_alike_on_serial_and_processes(name: str, tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    for backend in ("serial", "processes"):
        place = ("--yard", str(tmp_path / backend))
        ran = _run(name, backend, tmp_path, *place, "--json")
        found[backend] = json.loads(ran.splitlines()[-1])
        assert found[backend]["failed"] == 0
        shown = _run(name, backend, tmp_path, *place)  # recorded, so that no cell runs again
        assert re.search(LINES[name], shown), shown
    assert found["serial"]["digest"] == found["processes"]["digest"]
    assert found["serial"]["matrix"] == found["processes"]["matrix"]


def test_scripted_answers_run_out_only_where_nobody_has_decided(tmp_path: Path) -> None:
    told = json.loads(_run("approval", "serial", tmp_path, "--json").splitlines()[-1])
    assert told["interrupted"] == 2
    for row in told["matrix"]["as_decided"].values():
        assert row.pop("not decided yet") is None
        assert set(row.values()) == {1.0}


def test_every_bench_has_a_tape_without_traces_of_the_machine_that_recorded_it() -> None:
    benches = {path.stem for path in EXAMPLES.glob("*.toml")}
    assert benches == LINES.keys()
    for name in benches:
        tape = (EXAMPLES / f"{name}_tape.jsonl").read_text(encoding="utf-8")
        assert re.search(r"127\.0\.0\.1|localhost|\.gguf|site-packages|/home/|/tmp/", tape) is None
        assert {json.loads(line)["answer"]["json"]["model"] for line in tape.splitlines()} == {
            "smollm2"
        }
