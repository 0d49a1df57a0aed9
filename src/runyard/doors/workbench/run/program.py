"""What all cells of a batch have in common: the graph, implementations by name, settings.

by name:   everything is found by import, in any process; the batch can be resumed from anywhere
by value:  objects travel with the batch's function, or stay where they are if it runs here
"""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from runyard.attempt.load import load_object
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.spec.codec import encode

if TYPE_CHECKING:
    from runyard.doors.workbench.run.prepared import Prepared

BY_VALUE = "value:"
"""The prefix of references to objects that travel with the batch."""

HOLDER = "runyard:by-value"
"""The key of a dict that stands for such an object among a task's parameters."""


class CellProgram:
    """Turns references into objects, and variants into graphs that are ready to run."""

    def __init__(self, objects: Mapping[str, Any], settings: CellSettings) -> None:
        self.objects = dict(objects)
        self.settings = settings
        self.root: str | None = None  # the project's folder; None: the current one
        self._prepared: dict[bytes, Prepared] = {}
        self._caches: dict[tuple[str, int], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"objects": self.objects, "settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["objects"], state["settings"])  # type: ignore[misc]

    def resolve(self, reference: str) -> Any:
        """The object of a reference."""
        if reference.startswith(BY_VALUE):
            return self.objects[reference]
        return load_object(reference, self.root or os.getcwd())

    def unpacked(self, value: Any) -> Any:
        """A parameter's value; objects are copied, so that no cell changes another's."""
        if isinstance(value, dict) and value.keys() == {HOLDER}:
            return copy.deepcopy(self.objects[value[HOLDER]])
        return value

    def prepared(self, graph: str, nodes: Mapping[str, str]) -> Prepared:
        """A variant's graph, compiled once in each process."""
        from runyard.doors.workbench.run.prepared import Prepared

        key = encode([graph, dict(nodes)])
        if key not in self._prepared:
            made = {name: self.resolve(reference) for name, reference in nodes.items()}
            self._prepared[key] = Prepared.of(self.resolve(graph), made, self.settings)
        return self._prepared[key]

    def cache(self, variant: str, replicate: int) -> Any:
        """The node cache of a variant, as LangGraph's keys would confuse variants."""
        if self.settings.cache == "off":
            return None
        from langgraph.cache.memory import InMemoryCache

        return self._caches.setdefault((variant, replicate), InMemoryCache())

    def store(self, factory: str | None, graph: Any) -> Any:
        """A store for one cell, if its graph has one or one was asked for."""
        if factory is not None:
            return self.resolve(factory)()
        if getattr(graph, "store", None) is None:
            return None
        from langgraph.store.memory import InMemoryStore

        return InMemoryStore()


_here: weakref.WeakValueDictionary[int, CellProgram] = weakref.WeakValueDictionary()


def found_here(number: int) -> CellProgram:
    """The program that `as_local` was called for."""
    return _here[number]


class Local:
    """A program of this process, which is found again instead of copied."""

    def __init__(self, program: CellProgram) -> None:
        self.program = program

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[int]]:
        _here[id(self.program)] = self.program
        return _again, (id(self.program),)


def _again(number: int) -> Local:
    return Local(found_here(number))
