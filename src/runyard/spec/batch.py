"""A batch: a named set of tasks with one root seed. Frozen data, no I/O.

There are two kinds: a *grid* (one function over a product of axes, see `plan`) and a *list* of
tasks that differ, with names, priorities and dependencies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

import msgspec

from runyard.errors import BadSpec
from runyard.spec.codec import CODECS, decode, encode
from runyard.spec.fingerprint import fingerprint
from runyard.spec.names import did_you_mean, safe_name, slug
from runyard.spec.option_kinds import integer
from runyard.spec.options import SPECS, Options, OptionSpec
from runyard.spec.plan import Axis, Plan, distinct, too_many_tasks
from runyard.spec.seeds import check_root, key_of
from runyard.spec.task import CONTEXT, Target, Task, check_parameters, defaults_of

Callee = Callable[..., Any] | Target | str

_REPLICATES = OptionSpec(integer(1), "The replicates of each combination.", name="replicates")


class ListedTask(msgspec.Struct, frozen=True):
    """One task of a list as it is stored, with its options settled."""

    target: Target
    params: dict[str, Any]
    name: str | None
    after: tuple[int, ...]  # numbers of the tasks that must complete first
    priority: int
    timeout: float | None
    retries: int | None

    def seed_key(self) -> tuple[bytes, int]:
        """What the task's seed comes from."""
        return key_of([self.name, self.params] if self.name else self.params), 0


class Batch(msgspec.Struct, frozen=True):
    """A named set of tasks with one root seed; made by `grid`, `batch`, `tasks` or a file."""

    target: Target | None  # None: a list of tasks
    plan: Plan | None  # None: a list of tasks
    listed: tuple[ListedTask, ...] = ()
    name: str | None = None  # None: derived from the batch
    seed: int | None = None  # None: chosen when it first runs
    codec: str = "msgpack"
    options: Options = Options()
    functions: dict[str, Callable[..., Any]] = {}  # those sent by value, by target ref
    sources: dict[str, str] = {}  # hashes of other code that outcomes depend on, by name

    @property
    def total(self) -> int:
        """The number of tasks."""
        return self.plan.total if self.plan else len(self.listed)

    @property
    def record_name(self) -> str:
        """The name it is recorded under: given, or derived from the batch."""
        if self.name:
            return self.name
        content = encode([self.identity(), self.seed, sorted(self.code().items())])
        label = self.target.label if self.target else "tasks"
        return f"{slug(label)[:40]}-{hashlib.sha256(content).hexdigest()[:8]}"

    def code(self) -> dict[str, str]:
        """A hash of the code of each function sent by value, and of other code."""
        found = {ref: fingerprint(function) for ref, function in self.functions.items()}
        return found | self.sources

    def identity(self) -> dict[str, Any]:
        """Everything that outcomes depend on, except the seed."""
        return {
            "target": None if self.target is None else [self.target.kind, self.target.ref],
            "plan": self.plan.to_data() if self.plan else None,
            "listed": [encode_listed(t) for t in self.listed],
            "codec": self.codec,
        }

    def with_task_options(self, defaults: Mapping[str, Mapping[str, Any]]) -> Batch:
        """A copy in which listed tasks without a timeout or retries have their function's."""

        def settled(task: ListedTask) -> ListedTask:
            brought = defaults.get(task.target.ref, {})
            missing = [name for name in ("timeout", "retries") if getattr(task, name) is None]
            return msgspec.structs.replace(task, **{name: brought.get(name) for name in missing})

        return msgspec.structs.replace(self, listed=tuple(map(settled, self.listed)))

    def with_replicates(self, replicates: int) -> Batch:
        """A copy with another number of replicates."""
        assert self.plan is not None
        return msgspec.structs.replace(self, plan=self.plan.with_replicates(replicates))

    def with_options(self, **changes: Any) -> Batch:
        """A copy with other run options."""
        return msgspec.structs.replace(self, options=self.options.with_(**changes))


def grid(
    fn: Callee,
    *,
    params: Mapping[str, Any] | None = None,
    replicates: int = 1,
    seed: int | None = None,
    name: str | None = None,
    common_random_numbers: bool = False,
    codec: str = "msgpack",
    **lists: Iterable[Any],
) -> Batch:
    """Every combination of the listed values, `replicates` times each.

    `grid(walk, dimension=[1, 2, 3], steps=[100, 1000], replicates=50, seed=7)` is 300 tasks.
    Parameters that don't vary go into `params`.
    """
    axes = [Axis(key, "param", _axis_values(key, values)) for key, values in lists.items()]
    return _grid(fn, params, axes, replicates, seed, name, common_random_numbers, codec)


def batch(
    fn: Callee,
    variants: Sequence[Mapping[str, Any]] | None = None,
    cases: Sequence[Mapping[str, Any]] | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    replicates: int = 1,
    seed: int | None = None,
    name: str | None = None,
    common_random_numbers: bool = False,
    codec: str = "msgpack",
) -> Batch:
    """Every variant on every case, `replicates` times each.

    Variants and cases are dicts of parameters. With `common_random_numbers`, replicate r of a case
    sees the same random stream under every variant, so variants can be compared in pairs.
    """
    axes = []
    for role, values in (("variant", variants), ("case", cases)):
        if values is not None:
            settled = tuple(map(dict, values))
            _check_axis(role, settled)
            axes.append(Axis(role, cast("Any", role), settled))
    return _grid(fn, params, axes, replicates, seed, name, common_random_numbers, codec)


def items(
    fn: Callee,
    values: Iterable[Any],
    *,
    parameter: str,
    seed: int | None = None,
    name: str | None = None,
    codec: str = "msgpack",
) -> Batch:
    """One task for each item, in order; equal items count as replicates of one another."""
    if isinstance(values, range):
        axis = Axis(parameter, "param", values)
    else:
        seen: dict[bytes, int] = {}
        settled = []
        for value in values:
            key = encode(value)
            again = seen[key] = seen.get(key, -1) + 1
            settled.append((value, again))
        axis = Axis(parameter, "item", tuple(settled))
    return _grid(fn, None, [axis], 1, seed, name, False, codec)


def tasks(
    listed: Iterable[Task],
    *,
    name: str | None = None,
    seed: int | None = None,
    codec: str = "msgpack",
    **options: Any,
) -> Batch:
    """Tasks that differ: each with its own function, name, priority and dependencies (`after`)."""
    given = list(listed)
    numbers: dict[str, int] = {}
    for number, task in enumerate(given):
        if task.name is not None and numbers.setdefault(task.name, number) != number:
            raise BadSpec(f"two tasks are named {task.name!r}", hint="give each task a unique name")
    settled_options = Options().with_(**options)
    functions: dict[str, Callable[..., Any]] = {}
    settled = tuple(_settle(task, numbers, settled_options, functions) for task in given)
    if not settled:
        raise BadSpec("the batch has no tasks", hint="list at least one")
    _refuse_cycles(settled)
    distinct([[t.name, t.target.ref, t.params] for t in settled], "the list of tasks")
    return Batch(None, None, settled, *_checked(name, seed, codec), settled_options, functions)


def encode_listed(task: ListedTask) -> bytes:
    """A listed task as stored."""
    params, name = msgspec.Raw(encode(task.params)), msgspec.Raw(encode(task.name))
    settings = task.after, task.priority, task.timeout, task.retries
    return _pack((_packed_target(task.target), params, name, *settings))


@lru_cache(maxsize=256)
def _packed_target(target: Target) -> msgspec.Raw:
    # Thousands of tasks have the same few targets.
    return msgspec.Raw(encode([target.kind, target.ref]))


def decode_listed(data: bytes) -> ListedTask:
    """The inverse of `encode_listed`."""
    target, params, name, after, *rest = decode(data)
    return ListedTask(Target(*target), params, name, tuple(after), *rest)


_pack = msgspec.msgpack.Encoder().encode
_settings = msgspec.msgpack.Decoder(
    tuple[msgspec.Raw, msgspec.Raw, msgspec.Raw, msgspec.Raw, int, float | None, int | None]
)


def targets_of(contents: Iterable[bytes]) -> set[Target]:
    """The targets of stored tasks; each is decoded once, the rest is not."""
    encoded = {bytes(_settings.decode(content)[0]) for content in contents}
    return {Target(*decode(target)) for target in encoded}


def settings_of(data: bytes) -> tuple[int, float | None, int | None]:
    """Priority, timeout and retries of a stored task; the rest is not decoded."""
    return _settings.decode(data)[4:]


def _grid(
    fn: Callee,
    params: Mapping[str, Any] | None,
    axes: list[Axis],
    replicates: int,
    seed: int | None,
    name: str | None,
    common_random_numbers: bool,
    codec: str,
) -> Batch:
    target, functions = _target(fn)
    options = Options().with_(**defaults_of(fn if callable(fn) else None))
    fixed = dict(params or {})
    plan = Plan(
        fixed, axes, _REPLICATES.read(replicates), common_random_numbers=common_random_numbers
    )
    names = set(fixed)
    by_axis = [axis.names() for axis in axes]  # what each value sets
    for sets in by_axis:
        brings = set().union(*sets)
        if brings & names:
            raise BadSpec(f"{min(brings & names)!r} is set twice", hint="set it in one place")
        names |= brings
    if CONTEXT in names:
        raise BadSpec(
            f"the parameter {CONTEXT!r} can't be set", hint="Runyard passes a task's context in it"
        )
    encode(fixed)
    if callable(fn):
        for sets in by_axis:
            others = names.difference(*sets)
            for each in sets:
                check_parameters(fn, others | each)
        check_parameters(fn, names)
    return Batch(target, plan, (), *_checked(name, seed, codec), options, functions)


def _target(fn: Callee) -> tuple[Target, dict[str, Callable[..., Any]]]:
    """What to call, and the function itself if it travels by value."""
    if isinstance(fn, Target):
        return fn, {}
    if isinstance(fn, str):
        return Target.parse(fn), {}
    target = Target.of(fn)
    return target, {target.ref: fn} if target.kind == "value" else {}


def _settle(
    task: Task,
    numbers: dict[str, int],
    options: Options,
    functions: dict[str, Callable[..., Any]],
) -> ListedTask:
    target, by_value = _target(task.call)
    for ref, function in by_value.items():
        if functions.setdefault(ref, function) is not function:
            target = Target("value", f"{ref}#{len(functions)}")
            functions[target.ref] = function
    if callable(task.call):
        check_parameters(task.call, task.params)
    unknown = [name for name in task.after if name not in numbers]
    if unknown:
        raise BadSpec(
            f"task {task.name or target.label!r} comes after {unknown[0]!r}, which does not exist"
            f"{did_you_mean(unknown[0], numbers)}",
            hint=f"named tasks: {', '.join(numbers) or 'none'}",
        )
    encode(task.params)
    settings: dict[str, Any] = {"priority": options.priority, "timeout": None, "retries": None}
    brought = defaults_of(task.call if callable(task.call) else None)
    for name in settings:
        given = getattr(task, name)
        if given is not None:
            settings[name] = SPECS[name].read(given)
        elif name in brought:
            settings[name] = brought[name]
    after = tuple(sorted({numbers[name] for name in task.after}))
    return ListedTask(target, dict(task.params), task.name, after, **settings)


def _refuse_cycles(listed: Sequence[ListedTask]) -> None:
    try:
        followers = {number: task.after for number, task in enumerate(listed) if task.after}
        TopologicalSorter(followers).prepare()
    except CycleError as error:
        names = " → ".join(repr(listed[number].name) for number in error.args[1])
        raise BadSpec(
            f"tasks wait for each other: {names}", hint="remove one of these `after`s"
        ) from None


def _axis_values(name: str, values: Any) -> tuple[Any, ...] | range:
    if isinstance(values, range):
        try:
            len(values)
        except OverflowError:
            raise too_many_tasks() from None
        settled: tuple[Any, ...] | range = values
    elif hasattr(values, "tolist"):
        settled = tuple(values.tolist())
    elif isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise BadSpec(
            f"{name!r} is {values!r}, not a list of values",
            hint=f"write {name}=[…], or params={{{name!r}: …}} for a single value",
        )
    else:
        settled = tuple(values)
    _check_axis(name, settled)
    return settled


def _check_axis(name: str, values: Sequence[Any]) -> None:
    if not len(values):
        raise BadSpec(f"{name!r} has no values", hint="pass at least one")
    distinct(values, name)


def _checked(name: str | None, seed: int | None, codec: str) -> tuple[str | None, int | None, str]:
    if codec not in CODECS:
        raise BadSpec(f"there is no codec {codec!r}", hint=f"use one of: {', '.join(CODECS)}")
    return (
        None if name is None else safe_name(name, "batch name"),
        None if seed is None else check_root(seed),
        codec,
    )
