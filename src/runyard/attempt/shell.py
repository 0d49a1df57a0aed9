"""A shell command as a task."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import string
import subprocess
from collections.abc import Callable
from typing import Any

from runyard.attempt.context import context
from runyard.attempt.output import ChildStream
from runyard.attempt.system_failure import AttemptAborted, SystemFailure, is_full
from runyard.errors import CommandFailed
from runyard.spec.hash_seed import seeded

KEPT = 64 * 1024
"""How much of a command's output its value holds; all of it is in the task's stdout file."""


def command(template: str) -> Callable[..., dict[str, Any]]:
    """A function that fills in the template and runs it."""

    def run(**params: Any) -> dict[str, Any]:
        return _run(filled(template, params))

    return run


def filled(template: str, params: dict[str, Any]) -> str:
    """The command line of a task: the template with its quoted parameters."""
    return template.format_map({k: shlex.quote(str(v)) for k, v in params.items()})


def fields(template: str) -> set[str]:
    """The parameters that a template uses."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def _run(line: str) -> dict[str, Any]:
    ctx = context()
    own = {
        "RUNYARD_BATCH": ctx.batch,
        "RUNYARD_TASK": str(ctx.task),
        "RUNYARD_ATTEMPT": str(ctx.attempt),
        "RUNYARD_SEED": str(ctx.seed),
    }
    with ChildStream("stdout") as out, ChildStream("stderr") as err:
        process = subprocess.Popen(
            ["/bin/sh", "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=out.descriptor,
            stderr=err.descriptor,
            env=seeded(own),
            start_new_session=True,
        )
        ctx.on_cancel(lambda: _end(process))
        try:
            code = process.wait()
        except BaseException as error:
            _end(process)
            process.wait()
            raise error.with_traceback(None) from None  # the traceback of the wait is useless
        if is_full(out.descriptor) or is_full(err.descriptor):
            # Some of its output may be lost, and that may be why it failed.
            raise AttemptAborted(
                SystemFailure("no room left on the disk for its output", is_full=True)
            )
        stdout, stderr = out.text(), err.text()
    if code:
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = (stderr.strip() or stdout.strip()).rpartition("\n")[2]
        raise CommandFailed(f"{ended}: {line}" + (f" ({last})" if last else ""))
    return {"exit_code": code, "stdout": stdout[-KEPT:]}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the command's process group. Must not wait: signal handlers call it, too."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
