"""Doors: one application each on top of the engine; they never import each other.

A door whose batches get something of their own has a module `hooks`, which may define
`register_sections()` for the HTML report and `collect(yard, name)` for files made of the outcomes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runyard.store.stored_batch import StoredBatch


def hooks_of(stored: StoredBatch) -> ModuleType | None:
    """The `hooks` of the door that a batch comes from, if there are any."""
    place = stored.target.ref.partition(":")[0].split(".") if stored.target else []
    if place[:2] != ["runyard", "doors"]:
        return None
    module = ".".join([*place[:3], "hooks"])
    return None if find_spec(module) is None else import_module(module)


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` that imports each public name of a door on first use.

    `homes` has the names of each module, separated by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
