"""States and outputs as values that are recorded: equal runs give equal bytes.

Messages and pydantic models become records of their fields. Ids of messages and tool calls that
were drawn at random are numbered in order of appearance, since they would differ in every run.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import re
import sys
import uuid
from typing import Any

from runyard.spec.codec import encode
from runyard.spec.records import Record

_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_TEXT = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID,
         decimal.Decimal, pathlib.PurePath)  # fmt: skip
_RANDOM_ID = re.compile(
    r"(?:\w+-+)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:-\d+)?"
)
_MESSAGES = "langchain_core.messages."


class Recorder:
    """Makes the values of one cell, whose messages are numbered together."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, str]] = {"message": {}, "call": {}}

    def plain(self, value: Any) -> Any:  # noqa: C901
        """A value as it is recorded."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is dict:
            return {key: self.plain(each) for key, each in value.items()}
        if kind is list:
            return [self.plain(each) for each in value]
        if kind is tuple:
            return tuple(self.plain(each) for each in value)
        if isinstance(value, set | frozenset):
            return sorted((self.plain(each) for each in value), key=encode)
        if hasattr(kind, "model_fields"):
            return self._model(value)
        if isinstance(value, enum.Enum):
            return self.plain(value.value)
        if isinstance(value, _TEXT):
            return str(value)
        if isinstance(value, BaseException):
            return f"{kind.__name__}: {value}"
        if isinstance(value, dict | list):  # of a class of its own, such as defaultdict
            return self.plain(dict(value) if isinstance(value, dict) else list(value))
        return value

    def _model(self, value: Any) -> Record:
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        usual = {name: each.default for name, each in type(value).model_fields.items()}
        extra = getattr(value, "model_extra", None) or {}
        given = {
            name: self.plain(each)
            for name, each in {**fields, **extra}.items()
            if each is not None and not _same(each, usual.get(name)) and each not in ({}, [])
        }
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        if name.startswith(_MESSAGES):
            self._number(given, "id", "message")
            self._number(given, "tool_call_id", "call")
            for call in given.get("tool_calls", ()):
                self._number(call, "id", "call")
        return Record(name, given)

    def _number(self, fields: dict[str, Any], name: str, kind: str) -> None:
        found, numbers = fields.get(name), self._numbers[kind]
        if isinstance(found, str) and _RANDOM_ID.fullmatch(found) is not None:
            fields[name] = numbers.setdefault(found, f"{kind}-{len(numbers)}")


def revived(value: Any) -> Any:
    """A recorded value for people: messages are LangChain's own again, where it is loaded."""
    if isinstance(value, Record):
        fields = {key: revived(each) for key, each in value.items()}
        return _message(value.type_name, fields) or Record(value.type_name, fields)
    if isinstance(value, dict):
        return {key: revived(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(revived, value)) if type(value) in (list, tuple) else value
    return value


def _message(name: str, fields: dict[str, Any]) -> Any:
    if not name.startswith(_MESSAGES):
        return None
    module, _, kind = name.partition(":")
    found = getattr(sys.modules.get(module), kind, None)
    return None if found is None else found(**fields)


def _same(value: Any, usual: Any) -> bool:
    return type(value) is type(usual) and value == usual
