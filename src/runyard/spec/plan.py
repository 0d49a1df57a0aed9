"""A plan: a million tasks described by a few lists.

A grid is a product of axes (parameters, variants, cases) and replicates. When it grows, the new
tasks are again a few products, appended as boxes, so that each task keeps its number:

    axis b ▲
     new   │ ┌─────────┬────┐     box 0: what was there
           │ │  box 1  │    │     box 1: new values of b with the old values of a
           │ ├─────────┤ 2  │     box 2: new values of a with every value of b
     old   │ │  box 0  │    │
           │ └─────────┴────┘
           └───old──────new──▶ axis a

Within a box the replicate number changes slowest, so that early outcomes cover all cells evenly.
A list of tasks has a stored row for each task instead.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, product
from typing import Any, Literal

import msgspec

from runyard.errors import BadSpec, NotEncodable, SpecChanged
from runyard.spec.codec import decode, encode
from runyard.spec.seeds import key_of

_PLAIN = frozenset({str, int, float, bool, bytes, complex, type(None)})

MOST_TASKS = (1 << 63) - 1
"""A task's number has to fit into a column of the store."""

Role = Literal["param", "variant", "case", "item"]


class Axis(msgspec.Struct, frozen=True):
    """One dimension of a batch."""

    name: str
    role: Role
    values: tuple[Any, ...] | range

    def params(self, position: int) -> dict[str, Any]:
        """The parameters that the value at this position sets."""
        value: Any = self.values[position]
        if self.role == "item":
            value = value[0]
        return value if self.role in ("variant", "case") else {self.name: value}

    def contents(self) -> Sequence[Any]:
        """The values of parameters on this axis."""
        values: Sequence[Any] = self.values
        if self.role in ("variant", "case"):
            return [part for value in values for part in value.values()]
        return [value[0] for value in values] if self.role == "item" else values

    def names(self) -> list[set[str]]:
        """The parameters that each value sets; one entry where all values set the same."""
        values: Sequence[Any] = self.values
        return [set(v) for v in values] if self.role in ("variant", "case") else [{self.name}]


class Box(msgspec.Struct, frozen=True):
    """A product of slices: first the replicates, then each axis."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its tasks."""
        return math.prod(high - low for low, high in zip(self.low, self.high, strict=True))

    def __contains__(self, place: tuple[int, ...]) -> bool:
        return all(
            low <= at < high for low, at, high in zip(self.low, place, self.high, strict=True)
        )

    def place(self, offset: int) -> tuple[int, ...]:
        """The coordinates of the box's task number `offset`."""
        found = []
        for low, high in zip(reversed(self.low), reversed(self.high), strict=True):
            offset, rest = divmod(offset, high - low)
            found.append(low + rest)
        return tuple(reversed(found))

    def offset(self, place: tuple[int, ...]) -> int:
        """The inverse of `place`."""
        number = 0
        for low, at, high in zip(self.low, place, self.high, strict=True):
            number = number * (high - low) + at - low
        return number


class Plan:
    """The tasks of a grid, by number."""

    def __init__(
        self,
        fixed: dict[str, Any],
        axes: Sequence[Axis],
        replicates: int,
        *,
        common_random_numbers: bool = False,
        order: Sequence[tuple[int, ...] | None] | None = None,
        boxes: Sequence[Box] | None = None,
    ) -> None:
        self.fixed = fixed
        self.axes = tuple(axes)
        self.replicates = replicates
        self.common_random_numbers = common_random_numbers
        # For each axis, the author's order of its values if growth has mixed them.
        self.order = tuple(order) if order else (None,) * len(self.axes)
        sides = _sides(replicates, self.axes)
        self.boxes = tuple(boxes) if boxes else (Box((0,) * len(sides), sides),)
        self._ends = list(accumulate(box.size for box in self.boxes))
        if self.total > MOST_TASKS:
            raise too_many_tasks()

    @cached_property
    def _is_plain(self) -> bool:
        """Whether no parameter can be changed in place."""
        lists = [axis.contents() for axis in self.axes]
        values = chain(self.fixed.values(), *(each for each in lists if type(each) is not range))
        return all(type(value) in _PLAIN for value in values)

    @cached_property
    def _turning(self) -> list[tuple[str, Sequence[Any], int, int]] | None:
        """How each parameter depends on the task's number: name, values, stride and period.

        None for plans that are more complex.
        """
        if len(self.boxes) > 1 or not self._is_plain:
            return None
        turning, stride = [], 1
        for axis in reversed(self.axes):
            if axis.role in ("variant", "case"):
                return None
            turning.append((axis.name, axis.contents(), stride, len(axis.values)))
            stride *= len(axis.values)
        return turning[::-1]

    @property
    def total(self) -> int:
        """The number of tasks."""
        return self._ends[-1]

    def place(self, number: int) -> tuple[int, ...]:
        """A task's coordinates: its replicate, then its position on each axis."""
        if not 0 <= number < self.total:
            raise IndexError(number)
        at = bisect_right(self._ends, number)
        return self.boxes[at].place(number - (self._ends[at - 1] if at else 0))

    def params(self, number: int) -> dict[str, Any]:
        """A task's parameters, which it may change without affecting others."""
        params = self._params(self.place(number))
        return params if self._is_plain else decode(encode(params))

    def replicate(self, number: int) -> int:
        """A task's replicate number."""
        return self.place(number)[0]

    def seed_key(self, number: int) -> tuple[bytes, int]:
        """What a task's seed is derived from: the hash of its parameters, and its replicate."""
        place = self.place(number)
        values: list[tuple[str, Any]] = [
            (axis.role, axis.values[position])
            for axis, position in zip(self.axes, place[1:], strict=True)
        ]
        if self.common_random_numbers:
            roles = ("case", "item")
            shared = [list(v) if role == "item" else v for role, v in values if role in roles]
            return key_of(shared), place[0]
        params = self._params(place)
        again = [value[1] for role, value in values if role == "item"]
        return key_of([params, *again] if any(again) else params), place[0]

    def labels(self, number: int) -> dict[str, Any]:
        """A task's coordinates for tables and reports."""
        replicate, *positions = self.place(number)
        found: dict[str, Any] = {}
        for axis, position in zip(self.axes, positions, strict=True):
            if axis.role in ("variant", "case"):
                found[axis.role] = axis_label(axis, position)
            else:
                found |= axis.params(position)
        if self.replicates > 1:
            found["replicate"] = replicate
        return found

    def walk(self, low: int, high: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and parameters of each task in a range; faster than `params`."""
        if self._turning is None:
            for number in range(low, high):
                yield number, self.params(number)
            return
        turning, fixed = self._turning, self.fixed
        for number in range(low, high):
            params = fixed.copy()
            for name, values, stride, size in turning:
                params[name] = values[number // stride % size]
            yield number, params

    def in_order(self) -> Iterator[int] | range:
        """Task numbers in the author's order, whether or not the plan has grown."""
        if len(self.boxes) == 1 and not any(self.order):
            return range(self.total)
        return self._search_order()

    def _search_order(self) -> Iterator[int]:
        starts = [0, *self._ends]
        for place in product(range(self.replicates), *self._positions()):
            for start, box in zip(starts, self.boxes, strict=False):
                if place in box:
                    yield start + box.offset(place)
                    break

    def _positions(self) -> list[Sequence[int]]:
        """For each axis, the positions of its values in the author's order."""
        return [o or range(len(a.values)) for o, a in zip(self.order, self.axes, strict=True)]

    def group_axes(self) -> list[str]:
        """The axes to group results by: variants and parameters, over all cases."""
        return [axis.name for axis in self.axes if axis.role != "case"]

    def with_replicates(self, replicates: int) -> Plan:
        """The plan with another number of replicates, as if it had never grown."""
        axes = [
            axis
            if isinstance(axis.values, range)
            else Axis(axis.name, axis.role, tuple(axis.values[at] for at in positions))
            for axis, positions in zip(self.axes, self._positions(), strict=True)
        ]
        return Plan(self.fixed, axes, replicates, common_random_numbers=self.common_random_numbers)

    def grown_to(self, wanted: Plan) -> Plan:
        """This plan with the additional tasks of `wanted`; other changes are refused."""
        changes = list(self._changes(wanted))
        if changes:
            raise SpecChanged("\n".join(changes))
        extended = [_extended(*pair) for pair in zip(self.axes, wanted.axes, strict=True)]
        axes = [axis for axis, _ in extended]
        added = _difference(_sides(self.replicates, self.axes), _sides(wanted.replicates, axes))
        return Plan(
            self.fixed, axes, wanted.replicates,
            common_random_numbers=self.common_random_numbers,
            order=[order for _, order in extended], boxes=_joined([*self.boxes, *added]),
        )  # fmt: skip

    def _changes(self, wanted: Plan) -> Iterator[str]:
        if encode(self.fixed) != encode(wanted.fixed):
            yield f"parameters: recorded {self.fixed!r}, now {wanted.fixed!r}"
        if self.common_random_numbers != wanted.common_random_numbers:
            yield f"common random numbers: recorded {self.common_random_numbers}"
        if wanted.replicates < self.replicates:
            yield f"replicates: recorded {self.replicates}, now {wanted.replicates}"
        mine = [(a.name, a.role) for a in self.axes]
        theirs = [(a.name, a.role) for a in wanted.axes]
        if mine != theirs:
            recorded, now = (", ".join(n for n, _ in names) or "none" for names in (mine, theirs))
            yield f"axes: recorded {recorded}; now {now}"
            return
        for old, new in zip(self.axes, wanted.axes, strict=True):
            if _continues(old.values, new.values):
                continue
            kept = {encode(v) for v in new.values}
            lost = [v for v in old.values if encode(v) not in kept]
            if lost:
                yield f"{old.name}: {lost[0]!r} is recorded, but now missing"

    def _params(self, place: tuple[int, ...]) -> dict[str, Any]:
        params = dict(self.fixed)
        for axis, position in zip(self.axes, place[1:], strict=True):
            params.update(axis.params(position))
        return params

    def to_data(self) -> dict[str, Any]:
        """The plan as a plain value."""
        return {
            "fixed": self.fixed,
            "axes": [(a.name, a.role, _values_to_data(a.values)) for a in self.axes],
            "replicates": self.replicates,
            "common_random_numbers": self.common_random_numbers,
            "order": [None if o is None else list(o) for o in self.order],
            "boxes": [(list(b.low), list(b.high)) for b in self.boxes],
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Plan:
        """The inverse of `to_data`."""
        return cls(
            data["fixed"],
            [Axis(name, role, _values_from_data(values)) for name, role, values in data["axes"]],
            data["replicates"],
            common_random_numbers=data["common_random_numbers"],
            order=[None if o is None else tuple(o) for o in data["order"]],
            boxes=[Box(tuple(low), tuple(high)) for low, high in data["boxes"]],
        )


def axis_label(axis: Axis, position: int) -> str:
    """A label for a variant or case: its `name`, its own `variant` or `case`, or its values."""
    value: Any = axis.values[position]
    for key in ("name", axis.role):
        named = value.get(key) if isinstance(value, dict) else None
        if isinstance(named, str):
            return named
    return " ".join(f"{k}={v}" for k, v in value.items()) or "(default)"


def distinct(values: Sequence[Any], what: str) -> None:
    """Refuse a value that occurs twice, as both tasks would have the same seed."""
    if isinstance(values, range):
        return
    seen: dict[bytes, int] = {}
    for position, value in enumerate(values):
        try:
            first = seen.setdefault(encode(value), position)
        except NotEncodable as error:
            raise NotEncodable(
                f"{what}: {error.message}",
                hint="use numbers, text, bytes, lists, tuples, dicts, dataclasses or numpy arrays",
            ) from error
        if first != position:
            raise BadSpec(
                f"{what} has the value {value!r} twice (positions {first} and {position})",
                hint="equal tasks would have equal seeds; use replicates to repeat a task",
            )


def _sides(replicates: int, axes: Sequence[Axis]) -> tuple[int, ...]:
    return replicates, *(len(axis.values) for axis in axes)


def _extended(old: Axis, new: Axis) -> tuple[Axis, tuple[int, ...] | None]:
    """The old axis with the new values appended, and the new axis's order in it."""
    if _continues(old.values, new.values):
        return new, None
    positions = {encode(value): at for at, value in enumerate(old.values)}
    values = list(old.values)
    for value in new.values:
        if positions.setdefault(encode(value), len(values)) == len(values):
            values.append(value)
    order = tuple(positions[encode(value)] for value in new.values)
    is_sorted = order == tuple(range(len(order)))
    return Axis(old.name, old.role, tuple(values)), None if is_sorted else order


def _continues(old: tuple[Any, ...] | range, new: tuple[Any, ...] | range) -> bool:
    """Whether a range begins with another one."""
    return isinstance(old, range) and isinstance(new, range) and new[: len(old)] == old


def _difference(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[Box]:
    """Boxes that cover what the new sides add to the old ones, each task once."""
    for side in range(len(old)):
        if new[side] > old[side]:
            low = (0,) * side + (old[side],) + (0,) * (len(old) - side - 1)
            high = (*old[:side], new[side], *new[side + 1 :])
            yield Box(low, high)


def _joined(boxes: Sequence[Box]) -> list[Box]:
    """Merge each box with the one before if it only adds replicates."""
    found = [boxes[0]]
    for box in boxes[1:]:
        last = found[-1]
        follows = box.low[0] == last.high[0] and box.low[1:] == last.low[1:]
        if follows and box.high[1:] == last.high[1:]:
            found[-1] = Box(last.low, box.high)
        else:
            found.append(box)
    return found


def _values_to_data(values: tuple[Any, ...] | range) -> Any:
    if isinstance(values, range):
        return {"range": [values.start, values.stop, values.step]}
    return list(values)


def _values_from_data(data: Any) -> tuple[Any, ...] | range:
    return range(*data["range"]) if isinstance(data, dict) else tuple(data)


def too_many_tasks() -> BadSpec:
    """The error for a batch with more tasks than can be numbered."""
    text = f"a batch has {MOST_TASKS:,} tasks at most"
    return BadSpec(text, hint="use fewer values or replicates")
