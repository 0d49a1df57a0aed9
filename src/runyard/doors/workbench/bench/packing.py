"""References to functions and objects: by name where another process can import them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from runyard.doors.workbench.run.program import BY_VALUE, HOLDER
from runyard.errors import NotEncodable
from runyard.spec.codec import encode
from runyard.spec.task import Target

_PLAIN = frozenset({str, int, float, bool, bytes, complex, type(None)})


class Packer:
    """Collects what can't be found by name, under references that are the same in every process."""

    def __init__(self, print_of: Callable[[Any], str]) -> None:
        self._print_of = print_of
        self.objects: dict[str, Any] = {}
        self.sources: dict[str, str] = {}  # fingerprints, by what was referred to

    def reference(self, value: Any, label: str) -> str:
        """A text that stands for a function or an object."""
        if isinstance(value, str):
            return value
        if callable(value):
            target = Target.of(value)
            if target.kind != "value":
                return target.ref
        print_ = self._print_of(value)
        reference = f"{BY_VALUE}{label}#{print_}"
        self.objects[reference] = value
        self.sources[label] = print_
        return reference

    def pack(self, value: Any, label: str) -> Any:
        """A value that can be recorded: itself if plain data, otherwise what stands for it."""
        if _is_plain(value):
            try:
                encode(value)
            except NotEncodable:
                pass
            else:
                return value
        reference = f"{BY_VALUE}{label}#{_hash(value)}"
        self.objects[reference] = value
        return {HOLDER: reference}


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in _PLAIN or kind.__module__ == "numpy":
        return True
    if kind is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return kind in (list, tuple) and all(map(_is_plain, value))


def _hash(value: Any) -> str:
    """A hash of an object's content; LangGraph's encoding is the same in every process."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    try:
        kind, data = JsonPlusSerializer().dumps_typed(value)
    except Exception:
        from runyard.spec.byvalue import dumps

        kind, data = "pickle", dumps(value)
    return hashlib.sha256(kind.encode() + data).hexdigest()[:16]
