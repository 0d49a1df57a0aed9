"""The seed of Python's string hashes, which decides the order of sets.

Without `PYTHONHASHSEED`, each interpreter draws a random one. Workers get a fixed seed, so that
sets have the same order in every worker, run and backend.
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
    """The hash seed of workers and commands: the user's number if there is one, else 0."""
    return given_seed(variables) or DEFAULT


def given_seed(variables: Mapping[str, str] | None = None) -> str | None:
    """The user's number; None if there is none."""
    given = (os.environ if variables is None else variables).get(VARIABLE, "")
    is_number = given.isascii() and given.isdigit() and int(given) < 1 << 32
    return str(int(given)) if is_number else None


def seeded(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of workers and commands: this process's, with these changes."""
    variables = {**os.environ, **(more or {})}
    return {**variables, VARIABLE: workers_seed(variables)}


def own_seed() -> str:
    """The hash seed of this interpreter; if random, with an identifying number."""
    if not sys.flags.hash_randomization:
        return "0"
    seed = DEFAULT if sys.flags.ignore_environment else workers_seed(_variables_at_start())
    return seed if seed != "0" else f"{RANDOM} {hash(__name__) & 0xFFFFFFFF:08x}"


@cache
def _variables_at_start() -> Mapping[str, str]:
    """The environment at start, as later changes don't affect hashes."""
    try:
        lines = Path("/proc/self/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {**os.environ}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def pinned(seed: str) -> str:
    """The seed to give another interpreter so that it hashes in the same way."""
    return seed if seed and not is_random(seed) else workers_seed()


def shown(seed: str) -> str:
    """A hash seed as text: `PYTHONHASHSEED=0`, or `the random hash seed 5f2ec0a1`."""
    return f"the {RANDOM} hash seed {seed.split()[-1]}" if is_random(seed) else f"{VARIABLE}={seed}"


def is_random(seed: str) -> bool:
    """Whether the seed is random, so that no other interpreter can have it."""
    return seed.startswith(RANDOM)
