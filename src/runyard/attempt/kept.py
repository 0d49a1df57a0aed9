"""What of a task's output is kept, and where: little of it in the store, the rest in files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from runyard.attempt.system_failure import SYSTEM_ERRORS
from runyard.spaces import clear_errors, task_folder
from runyard.spec.outcome import Printed

IN_STORE = 64 * 1024
"""A longer stream goes into a file of the task's own."""

LIMIT = 10 * 1024 * 1024
"""A longer stream keeps its first and last half of this."""

STREAMS = ("stdout", "stderr")


def filed(
    texts: list[bytes], batch: Path, task: int, attempt: int, *, strict: bool
) -> Printed | None:
    """What an attempt printed, once what is too long for the store is in files of its own."""
    streams: list[bytes | None] = list(texts)
    for at, (name, text) in enumerate(zip(STREAMS, texts, strict=True)):
        if len(text) > IN_STORE:
            streams[at] = _or_filed(text, task_folder(batch, task, attempt) / name, strict=strict)
    return Printed(task, attempt, *streams) if any(s != b"" for s in streams) else None


def _or_filed(text: bytes, path: Path, *, strict: bool) -> bytes | None:
    """None once the text is in the file; else its last part, or where that is ours an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        if strict and error.errno in SYSTEM_ERRORS:
            with clear_errors(f"keep what it printed in {path}"):
                raise
        mark = f"… {len(text) - IN_STORE} bytes left out: {error.strerror} …\n".encode()
        return mark + text[-IN_STORE:]
    return None


def clipped(read: Callable[[int, int], bytes], size: int) -> bytes:
    """All that there is, or its ends; `read` takes how much, and from where."""
    if size <= LIMIT:
        return read(size, 0)
    half = LIMIT // 2
    mark = f"\n… {size - LIMIT} bytes left out …\n".encode()
    return read(half, 0) + mark + read(half, size - half)


def part(text: bytes, size: int, at: int) -> bytes:
    return text[at : at + size]
