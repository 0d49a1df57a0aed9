"""Lenient reading of arguments from language models; the rest is refused in one sentence.

Models send numbers as text, priorities in capitals, lists as JSON text, and "null" for nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, NamedTuple

from runyard.errors import BadSpec, UsageError
from runyard.spec import units
from runyard.spec.status import Priority

_NOTHING = frozenset({"", "null", "none", "undefined"})
_TEXT = frozenset({str})
_YES, _NO = ("true", "yes", "1", "on"), ("false", "no", "0", "off")
_PRIORITIES = {each.name.lower(): each for each in Priority}
MOST_NAME = 200
DEFAULT_QUEUE = "queue"


class BadCall(UsageError):
    """The arguments of an action are invalid; the hint says how to call it."""


class TaskRequest(NamedTuple):
    """A task to add, read but not yet checked against the queue."""

    name: str
    function: str
    params: dict[str, Any]
    priority: Priority
    max_retries: int
    timeout: float | None
    depends_on: list[str]


TASK_FIELDS = ("name", "function", "params", "priority", "max_retries", "timeout", "depends_on")
USAGE = {
    "add": 'add(name="…", function="code_execution", params={"code": "…"}, priority="medium", '
    "max_retries=3, timeout=60, depends_on=[])",
    "add_batch": 'add_batch(tasks=[{"name": "…", "function": "…", "params": {}}, …])',
    "start": 'start(max_concurrent=5, timeout="10m", backend="processes")',
    "stop": "stop(graceful=true)",
    "status": 'status(detailed=false, task_id="queue/0")',
    "results": 'results(format="text", filter_status="failed", offset=0, limit=20, order="ended")',
    "export": 'export(format="json", output_file="results.json")',
    "clear": "clear()",
    "cancel": 'cancel(task_id="queue/0")',
}
"""How to call each action."""

INSTRUCTIONS = """A queue of tasks that run in parallel in the background, and survive restarts.
Use it in this order: add or add_batch, start, wait (again until done), results.
A task names a function and its params:
- code_execution {"code": "print(1)", "runtime": "python"|"shell"|"nodejs"}
- custom_function {"code": "def process(x): return x", "args": {"x": 1}}
- knowledge_search {"query": "words", "limit": 5, "path": "docs"}
- memory {"operation": "save"|"search"|"load"|"delete", "key", "content", "query"}
- tool {"server": "files", "name": "read", "arguments": {}}
- simulate {"duration": 1}
Task ids look like queue/0. Long answers are paged: results takes offset and limit.
For a failed task, status with its task_id shows its output and its traceback."""
"""Instructions that an agent gets before its first call."""


def is_nothing(value: Any) -> bool:
    """Whether a value means that none is given."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def known(action: str, given: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The given arguments without empty ones; a name that the action doesn't take is refused."""
    found = {
        name: value
        for name, value in given.items()
        if value is not None and not (type(value) is str and value.strip().lower() in _NOTHING)
    }
    for name in found:
        if name not in names:
            hint = f"{meant(spelled(name), names)}call it as {how(action)}"
            raise BadCall(f"{action} has no parameter {_shown(name)}", hint=hint)
    return found


def how(action: str) -> str:
    """How to call an action."""
    return USAGE.get(action, action)


def task_of(given: Any) -> TaskRequest:
    """Read one task, as `add` and `add_batch` take it."""
    if isinstance(given, str):
        given = _parsed(given, "a task")
    if type(given) is not dict and not isinstance(given, Mapping):
        raise BadCall(f"a task is {_shown(given)}, not an object", hint=f"call {how('add_batch')}")
    found = known("add", given, TASK_FIELDS)
    if "name" not in found or "function" not in found:
        needed = "name" if "name" not in found else "function"
        raise BadCall(f"a task needs a {needed}", hint=f"call it as {how('add')}")
    before = listing(found["depends_on"], "depends_on") if "depends_on" in found else []
    return TaskRequest(
        text(found["name"], "name")[:MOST_NAME],
        text(found["function"], "function"),
        mapping(found["params"], "params") if "params" in found else {},
        priority(found.get("priority", Priority.MEDIUM)),
        whole(found.get("max_retries", 3), "max_retries", 0, 100),
        None if "timeout" not in found else duration(found["timeout"], "timeout"),
        [text(each, "depends_on") for each in before],
    )


def text(value: Any, name: str) -> str:
    """Read a text."""
    if type(value) is str and value.isascii() and (word := value.strip()):
        return word
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = spelled(value)
    if not isinstance(value, str) or not value.strip():
        raise BadCall(f"{name} is {_shown(value)}", hint=f"give {name} as text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadCall(f"{name} is {_shown(value)}, which is not valid Unicode") from None
    return value.strip()


def whole(value: Any, name: str, least: int, most: int) -> int:
    """Read a whole number: 5, "5", 5.0."""
    if type(value) is int and least <= value <= most:
        return value
    try:
        number = float(value.strip()) if isinstance(value, str) else value
        if isinstance(number, bool) or number != int(number) or not least <= number <= most:
            raise ValueError
        return int(number)
    except (ValueError, TypeError, OverflowError):
        hint = f"use a whole number from {least} to {most:,}"
        raise BadCall(f"{name} is {_shown(value)}", hint=hint) from None


def yes_or_no(value: Any, name: str) -> bool:
    """Read a boolean: true, "True", "no", 1."""
    word = spelled(value).strip().lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise BadCall(f"{name} is {_shown(value)}", hint="use true or false")


def duration(value: Any, name: str) -> float:
    """Read seconds: 30, "30", "5m"."""
    try:
        return units.seconds(value)
    except BadSpec as error:
        raise BadCall(f"{name}: {error.message}", hint=error.hint) from None
    except RecursionError:
        raise BadCall(f"{name} is {_shown(value)}", hint="use seconds, 30s or 5m") from None


def priority(value: Any) -> Priority:
    """Read a priority in any case, or its number as text."""
    if type(value) is str and value in _PRIORITIES:  # the usual spelling
        return _PRIORITIES[value]
    if isinstance(value, str | int) and not isinstance(value, bool):
        with suppress(BadSpec, ValueError):  # a number may have too many digits for text
            is_number = isinstance(value, str) and value.strip().isdecimal()
            return Priority.parse(int(value) if is_number else value)
    raise BadCall(f"priority is {_shown(value)}", hint="use low, medium, high or critical")


def choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Read one of a few words, in any case."""
    word = re.sub("[- ]", "_", spelled(value).strip().lower())
    if word not in choices:
        hint = f"{meant(word, choices)}use one of: {', '.join(choices)}"
        raise BadCall(f"{name} is {_shown(value)}", hint=hint)
    return word


def meant(word: str, choices: Sequence[str]) -> str:
    """The start of a hint: the choice closest to a misspelt word, if one is close."""
    close = get_close_matches(word, choices, n=1)
    return f"did you mean '{close[0]}'? " if close else ""


def mapping(value: Any, name: str) -> dict[str, Any]:
    """Read an object, also as JSON text."""
    if type(value) is dict and _TEXT.issuperset(map(type, value)):
        return value
    if isinstance(value, str):
        value = _parsed(value, name)
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadCall(f"{name} is {_shown(value)}", hint=f'give {name} as an object: {{"x": 1}}')
    return dict(value)


def listing(value: Any, name: str) -> list[Any]:
    """Read a list, also as JSON text, or a single item."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, int | str | Mapping):
        value = [value]
    if not isinstance(value, list | tuple):
        raise BadCall(f"{name} is {_shown(value)}", hint=f"give {name} as a list: [ … ]")
    return list(value)


def tasks(value: Any) -> list[Any]:
    """Read the list that `add_batch` takes."""
    if isinstance(value, str):
        value = _parsed(value, "tasks")
    if isinstance(value, Mapping):
        value = value["tasks"] if set(value) == {"tasks"} else [value]
    if not isinstance(value, list | tuple) or not value:
        raise BadCall(f"tasks is {_shown(value)}", hint=f"call it as {how('add_batch')}")
    return list(value)


def task_ids(value: Any) -> list[str]:
    """Read task ids: a list, also as text, or a single id; empty if there is no value."""
    if is_nothing(value):
        return []
    return [text(each, "tasks") for each in listing(value, "tasks")]


def _parsed(value: str, name: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise BadCall(f"{name} is {_shown(value)}, which is not JSON", hint="send JSON") from None


def spelled(value: Any, spell: Callable[[Any], str] = str) -> str:
    """A value as text, or its type if it is nested too deeply or has too many digits."""
    try:
        return spell(value)
    except (ValueError, RecursionError):
        return type(value).__name__


def _shown(value: Any) -> str:
    shown = spelled(value, repr)
    return shown if len(shown) <= 60 else shown[:57] + "…"
