"""A cache of answers in the user's cache folder, so that nothing is enumerated twice.

Keys include a hash of this package's code, so answers of other versions are never used. If the
folder is lost or can't be written, answers are just computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from runyard.errors import RunyardError
from runyard.spaces import whole_file

Array = NDArray[Any]

MOST = 256
"""The most answers that are kept; the oldest are removed first."""


def cached(key: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Read the answer with this key, or make and store it; plain JSON values in both cases."""
    path = _place(key, ".json")
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    answer: dict[str, Any] = json.loads(json.dumps(make()))
    with contextlib.suppress(OSError, RunyardError):
        _write(path, json.dumps(answer).encode())
    return answer


def cached_arrays(key: Any, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """The same for arrays, which are read-only in both cases."""
    path = _place(key, ".npz")
    damage = (OSError, ValueError, EOFError, BadZipFile, KeyError)
    with contextlib.suppress(*damage):
        stored = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        return {name: _fixed(stored[name]) for name in stored.files}
    found = {name: _fixed(array) for name, array in make().items()}
    with contextlib.suppress(OSError, RunyardError), io.BytesIO() as buffer:
        np.savez(buffer, allow_pickle=False, **found)
        _write(path, buffer.getvalue())
    return found


def has_happened(what: Any) -> bool:
    """Whether `note_happened` was called with this key by the same code."""
    return _place(what, ".note").exists()


def note_happened(what: Any) -> None:
    """Tell later processes that something need not be done again."""
    with contextlib.suppress(OSError, RunyardError):
        _write(_place(what, ".note"), b"")


def folder() -> Path:
    """The folder of the cache: under `XDG_CACHE_HOME`, or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "runyard" / "letitride"


def _place(key: Any, suffix: str) -> Path:
    text = json.dumps([_code(), key], sort_keys=True)
    return folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}{suffix}"


def _fixed(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _write(path: Path, data: bytes) -> None:
    """Write atomically: other processes may write the same file."""
    with whole_file(path) as place:
        place.write_bytes(data)
    answers = sorted(path.parent.glob(f"*{path.suffix}"), key=lambda other: other.stat().st_mtime)
    for old in answers[:-MOST]:
        old.unlink(missing_ok=True)


@cache
def _code() -> str:
    """A hash of this package's source."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
