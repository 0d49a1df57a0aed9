"""LangGraph's own encoding, but what can't be rebuilt is an error instead of a dict."""

from __future__ import annotations

import importlib
import threading
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from runyard.errors import UsageError

_WITH_CLASS = range(6)
"""The extension types that name a module and a class."""


class NotRebuilt(UsageError):
    """A recorded value's class is not available in this process."""


class StrictSerializer(JsonPlusSerializer):
    """Decodes every class that can be imported; raises for others."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=True)
        rebuild = self._unpack_ext_hook

        self._problem = threading.local()

        def hook(code: int, data: bytes) -> Any:
            if code in _WITH_CLASS:
                try:
                    _check(*_name_in(data))
                except NotRebuilt as error:  # which the decoder would hide
                    self._problem.error = error
                    raise
            return rebuild(code, data)

        self._unpack_ext_hook = hook

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode a value."""
        try:
            return super().loads_typed(data)
        except ValueError:
            found = vars(self._problem).pop("error", None)
            if found is None:
                raise
            raise found from None


def _name_in(data: bytes) -> tuple[str, str]:
    found = ormsgpack.unpackb(data, ext_hook=lambda *_: None, option=ormsgpack.OPT_NON_STR_KEYS)
    return found[0], found[1]


def _check(module: str, name: str) -> None:
    if module == "uuid":
        return
    try:
        getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        where = "a script or notebook" if module == "__main__" else module
        raise NotRebuilt(
            f"a recorded value is of the class {name} of {where}, which this process does not have",
            hint="put the class into a module that every process can import",
        ) from error
