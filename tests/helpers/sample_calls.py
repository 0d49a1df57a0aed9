"""What tests of the executor and of joblib's backend call."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from sample_tasks import note


class Special(Exception):
    """An error with more to it than its message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


class Unpicklable(Exception):
    """An error that can't be sent."""

    def __init__(self) -> None:
        super().__init__("it holds a lambda")
        self.held = lambda: None

    def __reduce__(self) -> Any:
        raise TypeError("no way")


def raise_special() -> None:
    raise Special(7, "text")


def raise_unpicklable() -> None:
    raise Unpicklable


def die_once(folder: str, value: Any) -> Any:
    """Kill the own worker the first time."""
    with contextlib.suppress(FileExistsError):
        Path(folder, f"died-{value}").touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def noted_square(folder: str, x: int) -> int:
    note(folder, x)
    return x * x


def nested_backend() -> tuple[str, int]:
    """What `Parallel` uses inside a task."""
    from joblib import Parallel, delayed

    inner = Parallel(n_jobs=2)
    ran = inner(delayed(abs)(x) for x in range(4))
    return type(inner._backend).__name__, len(ran)


def look(array: Any) -> tuple[str, bool, float]:
    """How an array arrived."""
    return type(array).__name__, bool(array.flags.writeable), float(array.sum())
