"""How an error raised by a task is recorded."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from runyard.errors import TaskError
from runyard.spec.outcome import ErrorInfo
from runyard.spec.shown import json_text

TRACE_LIMIT = 8000
MESSAGE_LIMIT = 4000
_HERE = str(Path(__file__).parent.parent)
LIBRARIES = tuple(
    {sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
)
"""Folders of code that is not the user's."""


def error_info(error: BaseException) -> ErrorInfo:
    """An error's class, message, location in the task's own code, and traceback."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_HERE)
    ]
    own = [f for f in frames if not f.filename.startswith(LIBRARIES)] or frames
    where = f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""
    try:
        message = str(error)
    except Exception as broken:
        message = f"(str() of the error failed: {type(broken).__name__})"
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    trace = (error.trace if isinstance(error, TaskError) else None) or "".join(lines)
    return ErrorInfo(
        type(error).__name__, json_text(message[:MESSAGE_LIMIT]), json_text(where),
        json_text(trace[-TRACE_LIMIT:]),
    )  # fmt: skip


def class_names(error: BaseException) -> list[str]:
    """The names of the error's class and its base classes."""
    return [c.__name__ for c in type(error).__mro__ if c is not object]
