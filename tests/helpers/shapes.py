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
