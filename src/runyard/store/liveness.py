"""Liveness of engines: each locks its own file, and the kernel drops the lock when it dies.

run/<engine>.alive
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from runyard.errors import StoreGone
from runyard.modes import make_folder
from runyard.store.locks import OpenFile

FOLDER = "run"

_lock = threading.Lock()
_held: dict[Path, OpenFile] = {}  # by this process, through any store object


class LivenessLocks:
    """The liveness locks of one yard."""

    def __init__(self, yard: Path) -> None:
        self._folder = yard.resolve() / FOLDER

    def hold(self, engine: int) -> None:
        """Hold this engine's lock until `drop` or the end of the process."""
        path = self._path(engine)
        with _lock:
            held = _held.get(path)
            if held is not None and held.is_at(path):
                return
            make_folder(self._folder)
            while True:
                file = OpenFile(path, os.O_RDWR | os.O_CREAT)
                file.lock()
                if file.is_at(path):  # else the file was removed before it was locked
                    break
                file.close()
            _held[path] = file

    def drop(self, engine: int) -> None:
        """Release this engine's lock."""
        path = self._path(engine)
        with _lock:
            file = _held.pop(path, None)
            if file is not None and file.is_open:
                if file.is_at(path):
                    path.unlink(missing_ok=True)
                file.close()

    def held(self, engine: int) -> bool:
        """Whether some process holds this engine's lock."""
        try:
            file = OpenFile(self._path(engine), os.O_RDONLY)
        except FileNotFoundError:
            return False
        except PermissionError:  # without permission to look, assume it is alive
            return True
        try:
            return not file.lock(shared=True, wait=False)
        finally:
            file.close()

    def check(self) -> None:
        """Raise if the file of an engine of this process is gone: others would take it for dead."""
        for path, file in list(_held.items()):
            if path.parent == self._folder and file.is_open and not file.is_at(path):
                raise StoreGone(
                    f"{path} was removed while its engine was running",
                    hint="leave the files of a yard alone while it is in use; `runyard resume` "
                    "continues from the record",
                )

    def _path(self, engine: int) -> Path:
        return self._folder / f"{engine}.alive"
