"""The state that all tasks of a worker process share, and that a task may leave changed.

A change could affect the results of other tasks. So the state is read between tasks, every few
milliseconds (this takes about 20 µs); differences are undone, or the process is replaced.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import decimal
import locale
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from os import fstat, umask
from typing import Any, NamedTuple

from runyard.attempt.memory import lifting

CHANNEL = "the connection to the engine"

_NUMBERS = range(1, signal.SIGRTMIN) if hasattr(signal, "SIGRTMIN") else range(1, signal.NSIG)
_SIGNALS = sorted({*_NUMBERS} & {*signal.valid_signals()} - {signal.SIGINT})
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
# The raw bytes: `os.environ` would decode each variable.
_variables: Any = getattr(os.environ, "_data", os.environb)
_getsignal = _signal.getsignal  # `signal.getsignal` makes enums and is 30 times slower


class Aspect(NamedTuple):
    """One part of the shared state."""

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object] | None = None
    by_import: Callable[[Any, Any], bool] | None = None
    """Whether importing a module may turn the first value into the second."""


class ProcessState:
    """The state of a process before its tasks, and whether it has changed."""

    def __init__(self, channel: int) -> None:
        self._descriptors: list[int] = []
        self._aspects = (
            Aspect(CHANNEL, lambda: _file(channel)),
            Aspect("its open files", lambda: [_file(number) for number in self._descriptors]),
            *_ASPECTS,
        )
        self._before: dict[Aspect, Any] = {}
        self._modules = 0

    def keep(self, descriptors: Iterable[int]) -> None:
        """Take the current state as the reference, with these files open."""
        self._descriptors = list(descriptors)
        self._before = self._read_all()
        self._modules = len(sys.modules)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Accept what loading the tasks' functions changes."""
        before = self._read_all()
        try:
            yield
        finally:
            now = self._read_all()
            self._before |= {each: now[each] for each in now if now[each] != before[each]}
            self._modules = len(sys.modules)

    def changed(self) -> list[str]:
        """What has changed. Must be called in the thread that runs tasks."""
        with lifting:
            found = [each for each, before in self._before.items() if _read(each) != before]
        if found and self._modules != len(sys.modules):
            found = [aspect for aspect in found if not self._is_due_to_import(aspect)]
        self._modules = len(sys.modules)
        return [aspect.name for aspect in found]

    def is_connected(self) -> bool:
        """Whether the connection to the engine is intact."""
        channel = self._aspects[0]
        return bool(_read(channel) == self._before.get(channel))

    def restore(self) -> bool:
        """Undo the changes; False if that fails."""
        with lifting:
            for aspect, before in self._before.items():
                if aspect.restore is not None and _read(aspect) != before:
                    with contextlib.suppress(Exception):
                        aspect.restore(before)
        return not self.changed()

    def _read_all(self) -> dict[Aspect, Any]:
        with lifting:  # the memory limit is lifted while another thread sends a report
            return {aspect: _read(aspect) for aspect in self._aspects}

    def _is_due_to_import(self, aspect: Aspect) -> bool:
        now = _read(aspect)
        if aspect.by_import is None or not aspect.by_import(self._before[aspect], now):
            return False
        self._before[aspect] = now
        return True


class _Unknown:
    """Stands for a value that can't be read."""


def _read(aspect: Aspect) -> Any:
    try:
        return aspect.read()
    except Exception:  # the task replaced the function that reads it
        return _Unknown


def _file(descriptor: int) -> tuple[int, int] | None:
    try:
        found = fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _restore_environment(before: dict[bytes, bytes]) -> None:
    for name in _variables.keys() - before.keys():
        del os.environb[name]
    for name, value in before.items():
        if _variables.get(name) != value:
            os.environb[name] = value
    time.tzset()


_usual_mask = umask(0o77)
umask(_usual_mask)


def _mask() -> int:
    """The file mode mask. Reading it requires setting it, to its usual value."""
    found = umask(_usual_mask)
    if found != _usual_mask:
        umask(found)
    return found


def _each(
    name: str, keys: Iterable[Any], get: Callable[[Any], Any], put: Callable[[Any, Any], object]
) -> Aspect:
    """A value for each of these keys."""

    def restore(before: list[Any]) -> None:
        for key, value in zip(keys, before, strict=True):
            if get(key) != value:
                put(key, value)

    return Aspect(name, lambda: [get(key) for key in keys], restore)


Warnings = tuple[list[Any], Any]


def _warnings() -> Warnings:
    return [*warnings.filters], warnings.showwarning


def _restore_warnings(before: Warnings) -> None:
    warnings.simplefilter("default")  # clears the caches of `warnings`
    warnings.filters[:], warnings.showwarning = before  # type: ignore[index]


def _only_adds_filters(before: Warnings, now: Warnings) -> bool:
    added = [rule for rule in now[0] if rule not in before[0]]
    kept = [rule for rule in now[0] if rule in before[0]]
    return (kept, now[1]) == before and all(rule[0] != "error" for rule in added)


def _streams() -> tuple[Any, Any]:
    return getattr(sys, "stdout", None), getattr(sys, "stderr", None)


def _restore_streams(before: tuple[Any, Any]) -> None:
    if not any(stream.closed for stream in before):
        sys.stdout, sys.stderr = before


def _decimals() -> dict[str, Any]:
    context = decimal.getcontext()
    trapped = [kind for kind, is_trapped in context.traps.items() if is_trapped]
    return {
        "prec": context.prec,
        "rounding": context.rounding,
        "Emin": context.Emin,
        "Emax": context.Emax,
        "capitals": context.capitals,
        "clamp": context.clamp,
        "traps": trapped,
    }


def _numpy_errors() -> dict[str, str]:
    numpy = sys.modules.get("numpy")
    return _NUMPY_ERRORS if numpy is None else numpy.geterr()


# Functions of other modules are looked up each time, since a task may have replaced them.
_ASPECTS = (
    Aspect(
        "the environment",
        lambda: _variables.copy(),
        _restore_environment,
        by_import=lambda before, now: before.items() <= now.items(),
    ),
    _each(
        "the limits of its process", _LIMITS, lambda k: resource.getrlimit(k), resource.setrlimit
    ),
    Aspect("the file mode mask", _mask, umask),
    Aspect(
        "the recursion limit",
        sys.getrecursionlimit,
        sys.setrecursionlimit,
        by_import=lambda before, now: before <= now,
    ),
    _each("the handlers of signals", _SIGNALS, _getsignal, signal.signal),
    _each("the handler of SIGINT", [signal.SIGINT], _getsignal, signal.signal),
    Aspect(
        "the signals it blocks",
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda before: signal.pthread_sigmask(signal.SIG_SETMASK, before),
    ),
    _each(
        "its timers",
        _TIMERS,
        lambda timer: signal.getitimer(timer),
        lambda timer, times: signal.setitimer(timer, *times),
    ),
    Aspect(
        "the locale",
        lambda: locale.setlocale(locale.LC_ALL),
        lambda before: locale.setlocale(locale.LC_ALL, before),
    ),
    Aspect("the filters of warnings", _warnings, _restore_warnings, by_import=_only_adds_filters),
    Aspect("the standard streams", _streams, _restore_streams),
    Aspect(
        "the context of decimal",
        _decimals,
        lambda before: decimal.setcontext(decimal.Context(**before, flags=[])),
    ),
    Aspect(
        "how numpy handles errors",
        _numpy_errors,
        lambda before: sys.modules["numpy"].seterr(**before),
    ),
)
