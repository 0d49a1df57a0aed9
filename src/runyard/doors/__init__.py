"""Doors: one application each on top of the engine; they never import each other.

A door is one folder: its rules, its commands in `commands`, and what it adds to its own batches in
`hooks`. `cli/applications.py` names its commands and describes `hooks`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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
