"""Doors: packages on top of the engine that bring one domain each, and never import each other.

What a door adds to batches of its own is found by the name of a module: `section` registers a part
of the report, and `collect(yard, name)` of `batch` writes the files that it makes of the outcomes.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runyard.store.stored_batch import StoredBatch


def module_of(recorded: StoredBatch, name: str) -> ModuleType | None:
    """The module of this name in the door that a batch comes from, if there is one."""
    place = recorded.target.ref.partition(":")[0].split(".") if recorded.target else []
    if place[:2] != ["runyard", "doors"]:
        return None
    module = ".".join([*place[:3], name])
    return None if find_spec(module) is None else import_module(module)
