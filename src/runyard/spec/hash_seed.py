"""By which seed Python hashes strings: it decides in which order a set of them is iterated.

Unless `PYTHONHASHSEED` says otherwise, each interpreter draws its own. Workers get a fixed one, so
that such an order is the same in every worker, run and backend.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

VARIABLE = "PYTHONHASHSEED"
DEFAULT = "0"
RANDOM = "random"


def workers_seed(variables: Mapping[str, str] | None = None) -> str:
    """The hash seed of workers and commands: the user's number where there is one, else 0."""
    given = (os.environ if variables is None else variables).get(VARIABLE, "")
    is_number = given.isascii() and given.isdigit() and int(given) < 1 << 32
    return str(int(given)) if is_number else DEFAULT


def seeded(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of workers and commands: this process's own, and what is said here."""
    variables = {**os.environ, **(more or {})}
    return {**variables, VARIABLE: workers_seed(variables)}


def own_seed() -> str:
    """The hash seed of this interpreter; where it is random, with what tells it from others."""
    if not sys.flags.hash_randomization:
        return "0"
    seed = DEFAULT if sys.flags.ignore_environment else workers_seed(_variables_at_start())
    return seed if seed != "0" else f"{RANDOM} {hash(__name__) & 0xFFFFFFFF:08x}"


@cache
def _variables_at_start() -> Mapping[str, str]:
    """What this interpreter was started with; what a script sets later changes no hash."""
    try:
        lines = Path("/proc/self/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {**os.environ}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def pinned(seed: str) -> str:
    """The seed that another interpreter is to have, so that it hashes as one with this did."""
    return seed if seed and not is_random(seed) else workers_seed()


def shown(seed: str) -> str:
    """A hash seed in a sentence: `PYTHONHASHSEED=0`, or `the random hash seed 5f2ec0a1`."""
    return f"the {RANDOM} hash seed {seed.split()[-1]}" if is_random(seed) else f"{VARIABLE}={seed}"


def is_random(seed: str) -> bool:
    """Whether no other interpreter can be given this seed."""
    return seed.startswith(RANDOM)
