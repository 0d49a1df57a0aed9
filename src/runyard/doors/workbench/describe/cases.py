"""A test case: what a graph starts from, and what is expected of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from runyard.errors import BadSpec
from runyard.spec.names import did_you_mean


@dataclass(frozen=True)
class Case:
    """A test case."""

    inputs: Any
    expected: Any = None  # what evaluators compare with
    id: str | None = None
    answers: Sequence[Any] = ()  # to interrupts, in the order in which they are asked
    tags: Sequence[str] = ()


_FIELDS = tuple(each.name for each in fields(Case))


def read_cases(given: Any, input_keys: Collection[str] | None) -> list[Case]:
    """The cases of a batch, each with its id; `input_keys` are those that the graph accepts."""
    if isinstance(given, str | Path):
        given = load_cases(given)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise BadSpec("test_cases is not a list", hint="write [{…}, {…}] or a file's path")
    cases = [read_case(each, at, input_keys) for at, each in enumerate(given)]
    if not cases:
        raise BadSpec("there are no test cases", hint="give at least one")
    seen: set[Any] = set()
    for case in cases:
        if case.id in seen:
            raise BadSpec(f"two cases have the id {case.id!r}", hint="give each its own")
        seen.add(case.id)
    return cases


def read_case(given: Any, at: int, input_keys: Collection[str] | None) -> Case:
    """A case from what people write: an input state, or a description."""
    case = given if isinstance(given, Case) else _described(given, input_keys)
    case = Case(case.inputs, case.expected, _id(case.id, at), _answers(case), tuple(case.tags))
    check_inputs(case.inputs, input_keys, f"case {case.id}")
    return case


def check_inputs(inputs: Any, keys: Collection[str] | None, where: str) -> None:
    """Refuse inputs that the graph would silently ignore."""
    if keys is None or not isinstance(inputs, Mapping):
        return
    for key in inputs:
        if key not in keys:
            raise BadSpec(
                f"{where}: the graph has no input {key!r}{did_you_mean(str(key), keys)}",
                hint=f"its inputs: {', '.join(keys) or 'none'}",
            )
    if keys and not inputs:
        raise BadSpec(f"{where} is empty", hint=f"the graph's inputs: {', '.join(keys)}")


def load_cases(path: str | Path) -> list[Any]:
    """Cases from a file: CSV, JSONL, YAML or JSON, one entry each."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadSpec(f"there is no file of cases {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadSpec(f"the cases in {path} can't be read: {error}") from None
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise BadSpec(
            f"{path}: cases can't be read from this kind of file",
            hint=f"use one of: {', '.join(_READERS)}",
        )
    try:
        found = reader(text)
    except ValueError as error:
        raise BadSpec(f"{path} is not valid: {error}") from None
    if not isinstance(found, list):
        raise BadSpec(f"{path} does not hold a list of cases")
    return found


def _described(given: Any, input_keys: Collection[str] | None) -> Case:
    if not isinstance(given, Mapping) or "inputs" not in given or "inputs" in (input_keys or ()):
        return Case(given)
    unknown = given.keys() - set(_FIELDS)
    if unknown:
        raise BadSpec(
            f"a case has no field {min(unknown)!r}{did_you_mean(min(unknown), _FIELDS)}",
            hint=f"its fields: {', '.join(_FIELDS)}",
        )
    return Case(**given)


def _id(given: Any, at: int) -> str:
    return f"case-{at}" if given is None else str(given)


def _answers(case: Case) -> Sequence[Any]:
    if isinstance(case.answers, str | Mapping) or not isinstance(case.answers, Iterable):
        raise BadSpec(
            f"the answers of a case are {case.answers!r}", hint="give a list, in the order asked"
        )
    return tuple(case.answers)


def _from_csv(text: str) -> list[Any]:
    """A column is an input, unless it is named as a case's field (`expected`, `id`, `tags`)."""
    found: list[Any] = []
    for row in csv.DictReader(text.splitlines()):
        if None in row or None in row.values():
            raise ValueError(f"row {len(found) + 1} has another number of columns than the head")
        own = {key: row.pop(key) for key in ("expected", "id") if key in row}
        tags = [tag for tag in row.pop("tags", "").split() if tag]
        found.append(Case(dict(row), tags=tags, **own))
    return found


def _from_jsonl(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _from_yaml(text: str) -> list[Any]:
    try:
        import yaml
    except ImportError:
        raise BadSpec("reading YAML needs pyyaml", hint="pip install pyyaml") from None
    try:
        found: list[Any] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    return found


_READERS: dict[str, Callable[[str], Any]] = {
    ".csv": _from_csv, ".jsonl": _from_jsonl, ".json": json.loads,
    ".yaml": _from_yaml, ".yml": _from_yaml,
}  # fmt: skip
