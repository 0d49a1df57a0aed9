"""Large arrays that many calls share: written to a file once, mapped by every worker.

Otherwise an array that a thousand calls share would be sent a thousand times. The first call sends
the array, so one that is used once needs no file; from the second call on it is mapped, read-only
unless another `mmap_mode` is given.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from runyard.spec import units


class Memmaps:
    """The arrays of one call of `Parallel`, by identity; their files are gone after `close`."""

    def __init__(self, least: int | str | None, mode: str | None) -> None:
        self._least = None if mode is None or least is None else units.size(least)
        self._mode = mode
        self._seen: dict[int, tuple[weakref.ref[Any], str | None]] = {}  # array and file, by id
        self._folder: Path | None = None

    def reduce(self, value: Any) -> Any:
        """How to pickle this value if it is a large array seen before, otherwise None."""
        kind = type(value)
        if self._least is None or kind.__module__ != "numpy" or kind.__name__ != "ndarray":
            return None
        if value.nbytes < self._least or value.dtype.hasobject:
            return None
        array, path = self._seen.get(id(value), (None, None))
        if array is None or array() is not value:
            self._seen[id(value)] = weakref.ref(value), None
            return None
        import numpy as np

        if path is None:
            path = self._save(value)
            self._seen[id(value)] = array, path
        return np.load, (path, self._mode)

    def _save(self, array: Any) -> str:
        import numpy as np

        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="runyard-arrays-"))
        path = self._folder / f"{len(self._seen)}-{id(array)}.npy"
        np.save(path, array, allow_pickle=False)
        return str(path)

    def close(self) -> None:
        """Remove the files; a worker that has one mapped keeps it."""
        self._seen.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
