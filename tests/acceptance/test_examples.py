"""Every example runs, ends well and shows what it is there to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = ("-m", "runyard", "run")
PATIENCE = 110


class Example(NamedTuple):
    """How an example is run, and what it must say (a pattern)."""

    words: tuple[str, ...]
    says: str


def script(name: str, says: str, *words: str) -> tuple[str, Example]:
    """An example that Python runs."""
    return name, Example((str(EXAMPLES / name), *words), says)


def batch_file(name: str, says: str) -> tuple[str, Example]:
    """An example that `runyard run` runs."""
    return name, Example((*RUN, str(EXAMPLES / name), "--no-progress"), says)


EXPECTED = dict(
    [
        script("queue_from_python.py", r"squares below 1000: 332833500"),
        script("async_fetch.py", r"answers: 2,000 of 2,000 completed"),
        script("demo.py", r"all the same", "2000"),
        script("executor_survives.py", r"second run: 19 results, .* 19 calls ran"),
        script("malice_newcomer.py", r"eight users: mallory ends at -9\.83 on average"),
        script("pi_grid.py", r"300 tasks run, 300 already recorded"),
        script("prompts_compared.py", r"digest 1db15170a38e37ea"),
        script("resume_after_kill.py", r"(?s)kill -9: (\w{16})\n.*uninterrupted run: \1\n"),
        script("retries_and_events.py", r"task 1 failed permanently: ValueError"),
        script("sklearn_search.py", r"second search: 0 fits run, 40 already recorded"),
        script("toss.py", r"digest 296f9a76d3a6f9d2"),
        script("variants_paired.py", r"demand 0.8: saves a wait of 0.359 ± 0.031"),
        batch_file("pipeline.toml", r"pipeline: 4 of 4 completed"),
        batch_file("shell_sweep.toml", r"sweep: 12 of 12 completed"),
        batch_file("walks.toml", r"walks: 60 of 60 completed"),
    ]
)
EXPECTED["walks.toml"] = EXPECTED["walks.toml"]._replace(
    words=(*EXPECTED["walks.toml"].words, "--replicates", "5")
)
PARTS = {"walks.py": "walks.toml", "prompts_compared.jsonl": "prompts_compared.py"}
"""Files that are no examples of their own, and the example that runs them."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[str]]]:
    """Every example, a few at a time, each in a folder of its own."""
    with ThreadPoolExecutor(3) as pool:
        yield {
            name: pool.submit(_run, example, tmp_path_factory.mktemp("folder"))
            for name, example in EXPECTED.items()
        }


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs_and_shows_its_point(runs: dict[str, Future[str]], name: str) -> None:
    output = runs[name].result()
    assert re.search(EXPECTED[name].says, output), output


def test_every_example_is_run_here() -> None:
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert files == EXPECTED.keys() | PARTS.keys()


def test_the_readme_shows_the_first_example() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    script = (EXAMPLES / "toss.py").read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert _lines(shown[1]) == _lines(script)


def _run(example: Example, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "RUNYARD_YARD"}
    done = subprocess.run(
        [sys.executable, *example.words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def _lines(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip()]
