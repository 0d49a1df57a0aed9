"""`code_execution` and `custom_function`: code that a model wrote, run under limits."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from runyard.attempt.context import Context
from runyard.attempt.load import load
from runyard.doors.agent.functions.registry import own_limit
from runyard.doors.agent.inputs.arguments import BadCall, mapping
from runyard.doors.agent.inputs.settings import Settings, read_settings
from runyard.doors.agent.sandbox.program import LATE, ProgramResult, level_of, run
from runyard.errors import CommandFailed, NotEncodable, TaskTimeout, UsageError
from runyard.events import Redactor
from runyard.format import cut
from runyard.spaces import read_file, walk
from runyard.spec.codec import encode
from runyard.spec.task import Target
from runyard.store import files_folder

KEPT = 64 * 1024
"""Characters of each stream in a result; `runyard logs` shows all of it."""

MOST_FILES = 200
MOST_LINE = 200
_AUDITED = 20_000
_RUNTIMES = {"python": "code.py", "shell": "code.sh", "nodejs": "code.js"}
_ALIASES = {
    "py": "python", "python3": "python", "bash": "shell", "sh": "shell", "terminal": "shell",
    "node": "nodejs", "javascript": "nodejs", "js": "nodejs",
}  # fmt: skip
_TRACE = re.compile(r"^(Traceback \(most recent call last\)|Fatal Python error):", re.MULTILINE)
_NODE_ENDS = re.compile(r"Node\.js v[\d.]+")
_NODE_ERROR = re.compile(r"^\w*Error\b.*", re.MULTILINE)
_ANSWER = ".answer.json"
_CALL = """
import json as _json
_scope = {"__name__": "custom_function"}
with open("process.py", encoding="utf-8") as _file:
    exec(compile(_file.read(), "process.py", "exec"), _scope)
if not callable(_scope.get("process")):
    raise SystemExit("the code defines no function named process")
with open("arguments.json", encoding="utf-8") as _file:
    _value = _scope["process"](**_json.load(_file))
with open(%r, "w", encoding="utf-8") as _file:
    _json.dump(_value, _file)
"""


def check(settings: Settings, params: dict[str, Any]) -> None:
    """Refuse an invalid call before it is queued."""
    if "function" in params:
        if params["function"] not in settings.allowed:
            raise BadCall(
                f"custom_function may not call {str(params['function'])[:60]!r}",
                hint=f"allowed: {', '.join(settings.allowed) or 'nothing (see agent.toml)'}",
            )
        return
    level_of(settings)
    if "runtime" in params:
        _runtime(params["runtime"])
    code = params.get("code")
    if not isinstance(code, str) or not code.strip():
        raise BadCall("code is empty", hint="give the program as text")


def code_execution(ctx: Context, code: str, runtime: str = "python") -> dict[str, Any]:
    """Run a program and return what it printed, its exit code and the files it made."""
    settings = _settings()
    check(settings, {"code": code, "runtime": runtime})
    kind = _runtime(runtime)
    name = _RUNTIMES[kind]
    (ctx.workspace / name).write_text(code, encoding="utf-8")
    ran = _run(ctx, settings, kind, [name], code)
    return _result(ctx, ran, {name})


def custom_function(
    ctx: Context,
    code: str | None = None,
    args: dict[str, Any] | None = None,
    function: str | None = None,
) -> Any:
    """Call `process(**args)` of the code, or an allowed function; what it returns."""
    settings = _settings()
    given = mapping(args or {}, "args")
    if function is not None:
        check(settings, {"function": function})
        return load(Target.parse(function), os.getcwd())(**given)
    check(settings, {"code": code})
    files = {"process.py": str(code), "arguments.json": json.dumps(given)}
    for name, text in {**files, "code.py": _CALL % _ANSWER}.items():
        (ctx.workspace / name).write_text(text, encoding="utf-8")
    ran = _run(ctx, settings, "python", ["code.py"], str(code))
    found = _result(ctx, ran, {*files, "code.py"})
    return _returned(ctx.workspace / _ANSWER, settings.limits.result, found)


def _returned(answer: Path, most: int, found: dict[str, Any]) -> Any:
    """What `process` returned: the code wrote it, so that it may be anything at all."""
    try:
        value = Redactor().redact(json.loads(read_file(answer, most).decode("utf-8")))
        encode(value)
        return value
    except OSError as error:
        if error.errno == errno.EFBIG:
            text = (
                f"process() returned more than {most:,} bytes of JSON; "
                "write it to a file, or return less"
            )
        else:
            text = f"process() left no value: {_ANSWER}: {error.strerror}"
        raise CommandFailed(text, value=found) from error
    except NotEncodable as error:
        text = f"process() left no value that can be recorded: {error.message}"
        raise CommandFailed(text, value=found) from error
    except (ValueError, RecursionError) as error:
        text = f"process() left no value that is JSON: {error}"
        raise CommandFailed(text, value=found) from error


def _run(ctx: Context, settings: Settings, kind: str, words: list[str], code: str) -> ProgramResult:
    digest = hashlib.sha256(code.encode()).hexdigest()
    shown = Redactor().redact_text(code[:_AUDITED])
    ctx.emit("code_executed", runtime=kind, sha256=digest, code=shown, level=level_of(settings))
    if kind == "python":
        program, reach = (
            [sys.executable, "-I", "-u", "-X", "faulthandler"],
            [sys.prefix, sys.base_prefix],
        )
    elif kind == "shell":
        program, reach = ["/bin/sh"], []
    else:
        most = settings.limits.memory >> 20
        program, reach = [str(_node()), f"--max-old-space-size={most}"], []
    return run(
        [*program, *words], ctx, settings, seconds=_limit(ctx),
        address_space=kind != "nodejs", dumps=kind == "python",
        reach=[os.path.realpath(place) for place in reach] + reach,
    )  # fmt: skip


def _result(ctx: Context, ran: ProgramResult, own: set[str]) -> dict[str, Any]:
    """A program's result; raised as an error, with that result, if the program failed."""
    clean = Redactor().redact_text
    stdout, stderr = clean(ran.stdout), clean(ran.stderr)
    sys.stdout.write(stdout)
    sys.stderr.write(stderr)
    found = {
        "exit_code": ran.exit_code, "stdout": stdout[-KEPT:], "stderr": stderr[-KEPT:],
        "files": _files(ctx.workspace, own), "seconds": round(ran.seconds, 3),
        "isolation": ran.isolation,
    }  # fmt: skip
    if ran.ended == LATE:
        text = f"ran longer than its limit of {_limit(ctx):g} s"
        raise TaskTimeout(text, value=found, trace=_trace(stderr))
    if ran.exit_code or ran.ended:
        how = ran.ended or f"exit code {ran.exit_code}"
        last = _last_line(stderr) or _last_line(stdout)
        text = f"{how} at isolation level {ran.isolation['level']}" + (f": {last}" if last else "")
        raise CommandFailed(text, value=found, trace=_trace(stderr))
    return found


def _limit(ctx: Context) -> float | None:
    """The time limit of the code itself."""
    return own_limit("code_execution", {}, ctx.timeout)


def _last_line(text: str) -> str:
    """The line that says what went wrong."""
    line = text.strip().rpartition("\n")[2]
    # Node ends with its version; the error itself is above the stack.
    if _NODE_ENDS.fullmatch(line) and (found := _NODE_ERROR.search(text)):
        line = found[0]
    return cut(line, MOST_LINE)


def _trace(stderr: str) -> str | None:
    """The traceback that a program printed, or all of its errors; None if it printed none."""
    found = _TRACE.search(stderr)
    return stderr[found.start() :] if found else stderr.strip("\n") or None


def _files(workspace: Path, own: set[str]) -> list[str]:
    """The files that a program made, top-level ones first; long names are cut."""
    paths = {each.path for each in walk(workspace) if not each.is_folder} - own
    found = sorted(paths, key=lambda path: (path.count("/"), path))[:MOST_FILES]
    return [os.fsencode(name).decode(errors="replace")[:MOST_LINE] for name in found]


def _runtime(runtime: Any) -> str:
    word = runtime.strip().lower() if isinstance(runtime, str) else ""
    kind = _ALIASES.get(word, word)
    if kind not in _RUNTIMES:
        raise BadCall(
            f"unknown runtime {word[:40]!r}",
            hint=f"use one of: {', '.join(_RUNTIMES)}",
        )
    if kind == "nodejs":
        _node()
    return kind


def _node() -> str:
    found = shutil.which("node") or shutil.which("nodejs")
    if found is None:
        raise BadCall("node is not installed here", hint="use python or shell")
    return found


def _settings() -> Settings:
    return read_settings(yard_folder())


def yard_folder() -> Path:
    """The yard that this worker serves."""
    location = os.environ.get("RUNYARD_YARD")
    if location is None:
        raise UsageError("RUNYARD_YARD is not set", hint="set it to the location of the yard")
    return files_folder(location).absolute()
