"""Where a task's output is kept: in the store if it is short, else in files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from runyard import modes
from runyard.attempt.system_failure import SYSTEM_ERRORS
from runyard.spaces import clear_errors, task_folder
from runyard.spec.outcome import Printed

IN_STORE = 64 * 1024
"""A longer stream is kept in a file."""

LIMIT = 10 * 1024 * 1024
"""Of a longer stream only the first and last half of this are kept."""

STREAMS = ("stdout", "stderr")


def filed(
    texts: list[bytes], batch: Path, task: int, attempt: int, *, strict: bool
) -> Printed | None:
    """What an attempt printed; streams too long for the store are written to files."""
    streams: list[bytes | None] = list(texts)
    for at, (name, text) in enumerate(zip(STREAMS, texts, strict=True)):
        if len(text) > IN_STORE:
            streams[at] = _write(text, task_folder(batch, task, attempt) / name, strict=strict)
    return Printed(task, attempt, *streams) if any(s != b"" for s in streams) else None


def _write(text: bytes, path: Path, *, strict: bool) -> bytes | None:
    """Write a stream to a file; returns its end if that fails, or raises a system error."""
    try:
        modes.make_folder(path.parent)
        path.touch(modes.FILE)
        path.write_bytes(text)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        if strict and error.errno in SYSTEM_ERRORS:
            with clear_errors(f"write the output to {path}"):
                raise
        mark = f"… {len(text) - IN_STORE} bytes left out: {error.strerror} …\n".encode()
        return mark + text[-IN_STORE:]
    return None


def clipped(read: Callable[[int, int], bytes], size: int) -> bytes:
    """All of a stream, or its two ends; `read` takes a size and an offset."""
    if size <= LIMIT:
        return read(size, 0)
    half = LIMIT // 2
    mark = f"\n… {size - LIMIT} bytes left out …\n".encode()
    return read(half, 0) + mark + read(half, size - half)


def part(text: bytes, size: int, at: int) -> bytes:
    """A part of a text, as `clipped` reads it."""
    return text[at : at + size]
