"""Classes whose instances tasks return, in a module that a process may or may not have loaded."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, ClassVar, NamedTuple

import msgspec


@dataclasses.dataclass
class Point:
    x: float
    y: float


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    inner: Any = None


@dataclasses.dataclass(slots=True)
class Counted:
    total: ClassVar[int] = 3
    x: int


@dataclasses.dataclass
class Prepared:
    x: int
    scale: dataclasses.InitVar[int]

    def __post_init__(self, scale: int) -> None:
        self.x *= scale


@dataclasses.dataclass
class Empty:
    pass


class Walk(msgspec.Struct):
    steps: int
    path: list[float]


class FrozenWalk(msgspec.Struct, frozen=True):
    steps: int


class Pair(NamedTuple):
    left: Any
    right: Any


class Loud:
    """Says so when it is constructed, and has a field list like a record."""

    _fields = ("x",)
    constructed = 0

    def __init__(self, x: int) -> None:
        type(self).constructed += 1
        self.x = x


class Colour(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    HELLO = "hello"


@dataclasses.dataclass
class MadeItself:
    x: Any

    def __new__(cls, x: Any) -> MadeItself:
        assert x is not MadeItself, "called while reading"
        return super().__new__(cls)


@dataclasses.dataclass(kw_only=True)
class Derived(Point):
    name: str = ""
    made: list[Any] = dataclasses.field(init=False, default_factory=list)


@dataclasses.dataclass(slots=True)
class Unset:
    x: Any
    later: Any = dataclasses.field(init=False)


@dataclasses.dataclass
class Holder(dict[str, Any]):
    x: Any = None


@dataclasses.dataclass
class Trouble(Exception):
    x: Any = None


@dataclasses.dataclass
class Finalised:
    x: Any
    ends: ClassVar[list[Any]] = []

    def __del__(self) -> None:
        self.ends.append(self.x)


@dataclasses.dataclass
class Computed:
    x: Any

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, f"_{name}", value)

    @property
    def y(self) -> Any:
        return self._x  # type: ignore[attr-defined]


hashes: list[int] = []


class Hashed(NamedTuple):
    x: Any

    def __hash__(self) -> int:
        hashes.append(1)
        return 1


class Longer(Pair):
    """A named tuple's subclass."""


class Tagged(msgspec.Struct, tag="t", frozen=True, array_like=True, rename="upper"):
    x: Any


class Untracked(msgspec.Struct, gc=False, kw_only=True):
    x: Any


class Checked(msgspec.Struct):
    x: Any
    checks: ClassVar[list[Any]] = []

    def __post_init__(self) -> None:
        self.checks.append(1)
