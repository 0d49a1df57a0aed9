"""The method: paired rounds in alternating order, each call in a fresh interpreter.

round 1:  A  B  C        ratios are taken inside a round, between neighbours in time,
round 2:  C  B  A        and the median over the rounds is the figure
round 3:  A  B  C
"""

from __future__ import annotations

import atexit
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
LONGEST_CALL = 600

T = TypeVar("T")


def in_rounds(
    name: str, contestants: Mapping[str, Callable[[int], T]], rounds: int
) -> dict[str, list[T]]:
    """Call every contestant once a round, the order turned round each time."""
    measured: dict[str, list[T]] = {contestant: [] for contestant in contestants}
    for number in range(rounds):
        order = list(contestants)
        for contestant in order if number % 2 == 0 else reversed(order):
            print(f"{name}: round {number + 1} of {rounds}, {contestant}", file=sys.stderr)
            measured[contestant].append(contestants[contestant](number))
    return measured


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the ratios taken round by round."""
    return median(a / b for a, b in zip(above, below, strict=True))


def spread(above: Sequence[float], below: Sequence[float]) -> str:
    """The lowest and the highest ratio of a round: how far to trust the median."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    return f"rounds {min(ratios):.2f}–{max(ratios):.2f}"


def fresh(function: str, **arguments: Any) -> Any:
    """Call `module:function` in a new interpreter, with a folder of its own."""
    folder = Path(tempfile.mkdtemp(dir=_scratch()))
    answer, errors, scratch = folder / "answer.json", folder / "stderr", folder / "scratch"
    scratch.mkdir()
    call = json.dumps({"folder": str(scratch), **arguments})
    with errors.open("w") as stderr:
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.rounds", function, call, str(answer)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            timeout=LONGEST_CALL,
            check=False,
        )
    if ended.returncode != 0:
        raise SystemExit(f"{function} failed ({ended.returncode}):\n{errors.read_text()}")
    return json.loads(answer.read_text())


@cache
def _scratch() -> str:
    """Removed at the end: ext4 without a journal makes a file slowly where many were removed."""
    place = tempfile.TemporaryDirectory(prefix="runyard-bench-")
    atexit.register(place.cleanup)
    return place.name


def _answer(function: str, call: str, answer: str) -> None:
    module, _, name = function.partition(":")
    value = getattr(importlib.import_module(module), name)(**json.loads(call))
    Path(answer).write_text(json.dumps(value))


if __name__ == "__main__":
    _answer(*sys.argv[1:])
