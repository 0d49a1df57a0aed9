"""A hash of what a function does: its code, and the code of the project that it reaches.

    function ──▶ instructions, defaults, closure
             ──▶ globals it names ──▶ functions, classes, constants of the project, and so on
             ──▶ modules it names ──▶ those of their attributes that it names

Equal in every process that has the same code and the same minor version of Python. Line numbers,
comments, docstrings and annotations of functions do not count; libraries count by name alone.
For a function of a script or notebook, the values that it uses count in full, as they are sent
with it.
"""

from __future__ import annotations

import contextlib
import copy
import copyreg
import enum
import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from runyard.errors import NotEncodable
from runyard.spec.bytecode import CodeContent, describe_code, imported_code, is_own
from runyard.spec.codec import encode

_SCALARS = frozenset({str, bytes, bool, int, float, complex, type(None)})
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})
_STRUCT = frozenset({"__struct_fields__", "__struct_defaults__"})  # of msgspec, which have no code
_RANDOM = ("random", "numpy.random")
_EMPTY = "(empty)"  # a cell of a closure without content

# Containers of modules and classes as first seen, since filling a cache does not change code.
# Reimporting the module creates new ones.
_first_seen: dict[str, tuple[Any, Any]] = {}


class Examined(NamedTuple):
    """What is known about a function's code."""

    fingerprint: str
    modules: frozenset[str]  # of the project, that define what it reaches


def examine(function: Callable[..., Any]) -> Examined:
    """The hash, short enough to show, and the modules of the code."""
    walk = _Walk(function)
    parts = repr(walk.parts()).encode(errors="backslashreplace")
    return Examined(hashlib.sha256(parts).hexdigest()[:16], frozenset(walk.modules))


def fingerprint(function: Callable[..., Any]) -> str:
    """The hash alone."""
    return examine(function).fingerprint


class _Walk:
    """One walk from a function to everything that it reaches.

    Data is described in place. Everything else is numbered when first met and described later, so
    that cycles and long chains of calls are no problem.
    """

    def __init__(self, start: Any) -> None:
        self._numbers: dict[tuple[int, bool], int] = {}
        self._met: list[tuple[Any, bool]] = []  # kept alive, so that ids stay unique
        self._inside: set[int] = set()  # containers and modules that are being described
        self._files: set[str] = set()  # imported by functions when they run
        self.modules: set[str] = set()
        self._start = start
        place = getattr(getattr(start, "__code__", None), "co_filename", "")
        folders = {Path.cwd(), Path.cwd().joinpath(place).parent}
        self._folders = tuple(sorted(f"{folder}{os.sep}" for folder in folders))

    def parts(self) -> list[Any]:
        """Everything in the order met; its `repr` is the same in every process."""
        parts = [self.of(self._start, deep=True)]
        at = 0
        while at < len(self._met):
            value, deep = self._met[at]
            try:
                parts.append(self._described(value, deep))
            except Exception:  # such as an unbound proxy
                parts.append(type(value).__qualname__)
            at += 1
        return parts

    def of(self, value: Any, *, deep: bool = False) -> Any:
        """A value or its number; `deep` if it belongs to the function, not to a module."""
        kind = type(value)
        if kind in _SCALARS:
            return self._scalar(value)
        if kind in _CONTAINERS:
            return self._container(value, deep)
        key = id(value), deep
        if key not in self._numbers:
            self._numbers[key] = len(self._met)
            self._met.append((value, deep))
        return f"#{self._numbers[key]}"

    def _described(self, value: Any, deep: bool) -> Any:  # noqa: C901
        if isinstance(value, FunctionType):
            return self._function(value, deep)
        if isinstance(value, functools.partial | functools.partialmethod):
            parts = value.func, value.args, value.keywords
            return "partial", *(self.of(part, deep=deep) for part in parts)
        if isinstance(value, MethodType):
            return self.of(value.__func__), self.of(value.__self__, deep=deep)
        if isinstance(value, ModuleType):
            return "module", "" if _is_own_module(value) else value.__name__
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, property):
            return "property", *(self.of(each) for each in (value.fget, value.fset, value.fdel))
        if isinstance(value, functools.cached_property):
            return "property", self.of(value.func)
        if isinstance(value, enum.Enum):
            return self.of(type(value)), value.name
        if inspect.isbuiltin(value):
            owner = value.__self__
            held = None if isinstance(owner, ModuleType) else self.of(owner, deep=deep)
            return value.__module__, value.__qualname__, held
        if hasattr(value, "__wrapped__"):  # @cache, @staticmethod, @numba.jit, …
            return type(value).__qualname__, self.of(value.__wrapped__)
        return self._object(value, deep)

    def _scalar(self, value: Any) -> Any:
        if type(value) is str and f"{value}{os.sep}".startswith(self._folders):
            folder = max(filter(f"{value}{os.sep}".startswith, self._folders), key=len)
            return "in the project", value[len(folder) :]
        return value if value is None else (type(value).__name__, value)

    def _container(self, value: Any, deep: bool) -> Any:
        name = type(value).__name__
        if type(value) in (list, tuple) and _SCALARS.issuperset(map(type, value)):
            return name, value
        if id(value) in self._inside:
            return name, "again"
        self._inside.add(id(value))
        try:
            if isinstance(value, dict):
                keys = sorted(value, key=_order)
                return name, [(self.of(k, deep=deep), self.of(value[k], deep=deep)) for k in keys]
            parts = sorted(value, key=_order) if isinstance(value, set | frozenset) else value
            return name, [self.of(part, deep=deep) for part in parts]
        finally:
            self._inside.discard(id(value))

    def _function(self, function: Any, deep: bool) -> Any:
        raw = function.__code__
        own = is_own(raw.co_filename)
        closure = _closure(function)
        cells = [v if v is _EMPTY else self.of(v, deep=deep) for v in closure.values()]
        wrapped = function.__dict__.get("__wrapped__")
        inner = cells, None if wrapped is None else self.of(wrapped)
        if not own and function is not self._start:
            return Path(raw.co_filename).name, raw.co_qualname, inner
        self.modules.add(function.__module__ or "")
        code = describe_code(raw)
        defaults = [
            self.of(each, deep=deep) for each in (function.__defaults__, function.__kwdefaults__)
        ]
        if not own:
            return code.content, inner, defaults
        owner, space = function.__module__ or "", function.__globals__
        names = code.names - code.assigned  # what a function assigns to is state, not code
        used = list(self._named(space, owner, names, deep=owner == "__main__"))
        held = {name: v for name, v in closure.items() if isinstance(v, ModuleType)}
        used += self._named(held, owner, names | held.keys(), deep=False)
        loaded = list(self._imported(code, space.get("__package__") or ""))
        return code.content, inner, defaults, used, loaded

    def _named(
        self, space: dict[str, Any], owner: str, names: frozenset[str], *, deep: bool
    ) -> Iterator[tuple[str, Any]]:
        """What names refer to in a module, and in modules of the project that they name."""
        for name in sorted(names & space.keys()):
            value = space[name]
            if not isinstance(value, ModuleType) or not _is_own_module(value):
                yield name, self.of(value, deep=True) if deep else self._kept(owner, name, value)
            elif id(value) not in self._inside:  # a package may name itself
                self._inside.add(id(value))
                inside = names | _called(value) if "getattr" in names else names
                yield name, list(self._named(vars(value), value.__name__, inside, deep=False))
                self._inside.discard(id(value))

    def _kept(self, owner: str, name: str, value: Any) -> Any:
        """What a name in a module or class refers to, as first seen."""
        if type(value) not in (list, dict, set):
            return self.of(value)
        place = f"{owner}.{name}"
        if place not in _first_seen or _first_seen[place][0] is not value:
            _first_seen[place] = value, copy.copy(value)
        return self.of(_first_seen[place][1])

    def _imported(self, code: CodeContent, package: str) -> Iterator[Any]:
        """The modules that the code imports when it runs, loaded or not."""
        for statement in code.imports:
            for name, file, found in imported_code(statement, package):
                if file not in self._files:
                    self._files.add(file)
                    described = describe_code(found)
                    yield name, described.content
                    yield from self._imported(described, name.rpartition(".")[0])

    def _class(self, kind: type) -> Any:
        if not _is_own_class(kind):
            return kind.__module__, kind.__qualname__
        self.modules.add(kind.__module__)
        owner = f"{kind.__module__}.{kind.__qualname__}"
        bases = [self.of(base) for base in (*kind.__bases__, type(kind))]
        values: list[Any] = []
        mine = {name: value for name, value in vars(kind).items() if _counts(name, value)}
        if isinstance(kind, enum.EnumType):
            members: dict[str, Any] = dict(kind.__members__)
            values = [(name, self.of(member.value)) for name, member in members.items()]
            mine = {name: value for name, value in mine.items() if name not in members}
        parts = [(name, self._kept(owner, name, mine[name])) for name in sorted(mine)]
        return kind.__qualname__, bases, parts, values, _annotations(kind)

    def _object(self, value: Any, deep: bool) -> Any:
        kind = type(value)
        if isinstance(value, PurePath):
            return kind.__name__, self._scalar(str(value))
        if kind.__module__ == "numpy":
            with contextlib.suppress(NotEncodable):
                return kind.__name__, encode(value)
        if deep or _is_own_class(kind):
            return self.of(kind), self.of(_state(value), deep=deep)
        return kind.__module__, kind.__qualname__, _plain_state(value)


def _closure(function: Any) -> dict[str, Any]:
    """What a function's closure holds, by name."""
    found = dict.fromkeys(function.__code__.co_freevars, _EMPTY)
    for name, cell in zip(found, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the cell is empty
            found[name] = cell.cell_contents
    return found


def _called(module: ModuleType) -> set[str]:
    """Names of a module's functions and classes, of which `getattr` may ask for any."""
    return {name for name, value in vars(module).items() if callable(value)}


def _order(value: Any) -> tuple[str, str]:
    """A sort key for parts of a set that does not depend on hashes."""
    plain = type(value) in _SCALARS or isinstance(value, tuple)
    return type(value).__name__, repr(value) if plain else getattr(value, "__qualname__", "")


def _is_own_module(module: ModuleType) -> bool:
    if module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    folders = getattr(module, "__path__", ())  # all that a namespace package has
    return is_own(file) if file else any(map(is_own, folders))


def _is_own_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return module is not None and _is_own_module(module)


def _counts(name: str, value: Any) -> bool:
    """Whether a class member was written by its author, not added by Python or a library."""
    if name.startswith("__"):
        is_code = isinstance(value, FunctionType | staticmethod | classmethod | property)
        return is_code or name in _STRUCT
    return name not in ("_member_map_", "_value2member_map_", "_abc_impl")


def _annotations(kind: type) -> list[tuple[str, str]]:
    """A class's annotations, which libraries turn into fields."""

    def written(each: Any) -> str:
        return each if isinstance(each, str) else getattr(each, "__qualname__", type(each).__name__)

    return [(name, written(each)) for name, each in vars(kind).get("__annotations__", {}).items()]


def _plain_state(value: Any) -> Any:
    """The content of a library's object in a module, if plain: a pattern, a date, …"""
    kind = type(value)
    if (_is_usual(kind) and kind not in copyreg.dispatch_table) or kind.__module__ in _RANDOM:
        return None
    state = _state(value)
    try:
        return encode(state[1]) if isinstance(state, list) else state
    except NotEncodable:
        return None


def _state(value: Any) -> Any:
    """The state of an object: its fields, or what it is pickled as."""
    kind = type(value)
    if _is_usual(kind) and hasattr(value, "__dict__"):
        return vars(value)
    reduce = copyreg.dispatch_table.get(kind)
    try:
        parts = reduce(value) if reduce is not None else value.__reduce_ex__(4)
    except Exception:
        return None
    if isinstance(parts, str):
        return parts
    return [list(part) if isinstance(part, Iterator) else part for part in parts]


def _is_usual(kind: Any) -> bool:
    """Whether objects of a class are pickled by their fields."""
    same = kind.__reduce__ is object.__reduce__
    return same and kind.__reduce_ex__ is object.__reduce_ex__
