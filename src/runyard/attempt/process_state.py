"""The state that all tasks of a worker process share, and that a task may leave changed.

A change could affect the results of other tasks. So the state is read between tasks, every few
milliseconds (this takes about 20 µs); differences are undone, or the process is replaced.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import decimal
import gc
import importlib
import locale
import os
import resource
import signal
import sys
import threading
import time
import warnings
from _thread import _count as threads
from collections.abc import Callable, Iterable, Iterator
from os import fstat, umask
from socket import getdefaulttimeout, setdefaulttimeout
from typing import Any, NamedTuple

from runyard.attempt.memory import lifting

CHANNEL = "the connection to the engine"

_NUMBERS = range(1, signal.SIGRTMIN) if hasattr(signal, "SIGRTMIN") else range(1, signal.NSIG)
_SIGNALS = sorted({*_NUMBERS} & {*signal.valid_signals()} - {signal.SIGINT})
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# The raw bytes: `os.environ` would decode each variable.
_variables: Any = getattr(os.environ, "_data", os.environb)
_getsignal = _signal.getsignal  # `signal.getsignal` makes enums and is 30 times slower


class Aspect(NamedTuple):
    """One part of the shared state."""

    name: str
    read: Callable[[], Any]
    restore: Callable[[Any], object] | None = None
    by_import: Callable[[Any, Any, Any], Any] | None = None
    """The reference after an import that turned the second value into the third."""


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
        self._threads = 0

    def keep(self, descriptors: Iterable[int]) -> None:
        """Take the current state as the reference, with these files open."""
        self._descriptors = list(descriptors)
        self._before = self._read_all()
        self._threads = threads()

    @contextlib.contextmanager
    def accepting(self) -> Iterator[None]:
        """Accept what is changed in this block, such as by loading the tasks' functions."""
        before = self._read_all()
        try:
            yield
        finally:
            now = self._read_all()
            self._before |= {each: now[each] for each in now if now[each] != before[each]}

    def follow_imports(self) -> None:
        """From now on, accept what importing a module adds, and only that.

        Python looks this function up for each module that has not been loaded yet.
        """
        bootstrap: Any = importlib._bootstrap
        find_and_load, own = bootstrap._find_and_load, threading.local()

        def load(name: str, import_: Any) -> Any:
            if name in sys.modules or getattr(own, "is_loading", False):
                return find_and_load(name, import_)
            own.is_loading = True
            before = {each: _read(each) for each in self._before if each.by_import is not None}
            try:
                return find_and_load(name, import_)
            finally:
                own.is_loading = False
                self._accept_import(before)

        # Under this name Python leaves the frame out of tracebacks.
        place = find_and_load.__code__.co_filename
        load.__code__ = load.__code__.replace(co_filename=place)
        bootstrap._find_and_load = load

    def changed(self) -> list[str]:
        """What has changed. Must be called in the thread that runs tasks."""
        with lifting:
            found = [each for each, before in self._before.items() if _read(each) != before]
        return [aspect.name for aspect in found]

    @property
    def has_more_threads(self) -> bool:
        """Whether threads that tasks have started still run."""
        return threads() > self._threads

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

    def _accept_import(self, before: dict[Aspect, Any]) -> None:
        for aspect, value in before.items():
            now = _read(aspect)
            if now != value and aspect.by_import is not None:
                with contextlib.suppress(Exception):  # a value that can't be read
                    self._before[aspect] = aspect.by_import(self._before[aspect], value, now)


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


def _with_filters(reference: Warnings, before: Warnings, now: Warnings) -> Warnings:
    """The reference with the filters that an import added, if it did nothing else."""
    added = [rule for rule in now[0] if rule not in before[0]]
    kept = [rule for rule in now[0] if rule in before[0]]
    if (kept, now[1]) != before or any(rule[0] == "error" for rule in added):
        return reference
    return [*added, *reference[0]], reference[1]


Variables = dict[bytes, bytes]


def _with_variables(reference: Variables, before: Variables, now: Variables) -> Variables:
    """The reference with the variables that an import added, if it did nothing else."""
    if not before.items() <= now.items():
        return reference
    return reference | dict(now.items() - before.items())


_STREAM_SETTINGS = ("encoding", "errors", "line_buffering", "write_through")


def _streams() -> list[Any]:
    return [
        (name, each, each.closed, _settings(each), {**vars(each)})
        for name in ("stdin", "stdout", "stderr")
        if (each := getattr(sys, name, None)) is not None
    ]


def _settings(stream: Any) -> dict[str, Any]:
    return {name: getattr(stream, name, None) for name in _STREAM_SETTINGS}


def _restore_streams(before: list[Any]) -> None:
    for name, stream, was_closed, settings, variables in before:
        if stream.closed != was_closed:
            continue
        setattr(sys, name, stream)
        vars(stream).clear()
        vars(stream).update(variables)
        if _settings(stream) != settings:
            stream.reconfigure(**settings)


def _has_many_files() -> bool:
    """Whether half of the descriptors are in use. The lowest free one tells, at no cost."""
    try:
        lowest = os.dup(0)
    except OSError:
        return True
    os.close(lowest)
    return lowest > resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


_one, _tiny, _half = 1.0, 2.0**-60, 1.5 * 2.0**-53


def _rounding() -> tuple[float, ...]:
    """Sums that differ between the ways in which a processor may round."""
    return _one + _tiny, _one + _half, -_one - _tiny


def _restore_collector(before: tuple[Any, ...]) -> None:
    gc.callbacks[:] = before[0]
    (gc.enable if before[1] else gc.disable)()
    gc.set_threshold(*before[2])


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


def _numpy() -> tuple[Any, ...] | None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    return numpy.geterr(), numpy.getbufsize(), numpy.get_printoptions()


def _restore_numpy(before: tuple[Any, ...]) -> None:
    numpy = sys.modules["numpy"]
    numpy.seterr(**before[0])
    numpy.setbufsize(before[1])
    numpy.set_printoptions(**before[2])


# Functions of other modules are looked up each time, since a task may have replaced them.
_ASPECTS = (
    Aspect(
        "the environment",
        lambda: _variables.copy(),
        _restore_environment,
        by_import=_with_variables,
    ),
    _each("its resource limits", _LIMITS, lambda k: resource.getrlimit(k), resource.setrlimit),
    Aspect("the umask", _mask, umask),
    Aspect(
        "the recursion limit",
        sys.getrecursionlimit,
        sys.setrecursionlimit,
        by_import=lambda reference, before, now: max(reference, now) if now > before else reference,
    ),
    _each("the signal handlers", _SIGNALS, _getsignal, signal.signal),
    _each("the SIGINT handler", [signal.SIGINT], _getsignal, signal.signal),
    Aspect(
        "its blocked signals",
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
    Aspect("the warning filters", _warnings, _restore_warnings, by_import=_with_filters),
    Aspect("the standard streams", _streams, _restore_streams),
    Aspect(
        "the decimal context",
        _decimals,
        lambda before: decimal.setcontext(decimal.Context(**before, flags=[])),
    ),
    Aspect(
        "numpy's settings",
        _numpy,
        _restore_numpy,
        by_import=lambda reference, before, now: now if before is None else reference,
    ),
    Aspect("the number of open files", _has_many_files),
    Aspect("the floating-point rounding mode", _rounding),
    Aspect("the time zone", lambda: (time.tzname, time.timezone), lambda _: time.tzset()),
    Aspect(
        "the garbage collector",
        lambda: ([*gc.callbacks], gc.isenabled(), gc.get_threshold()),
        _restore_collector,
    ),
    Aspect("its trace function", lambda: sys.gettrace(), lambda before: sys.settrace(before)),
    Aspect("its profiler", lambda: sys.getprofile(), lambda before: sys.setprofile(before)),
    Aspect("the limit on integer digits", sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    Aspect(
        "the default socket timeout", lambda: getdefaulttimeout(), lambda s: setdefaulttimeout(s)
    ),
    Aspect("its user", lambda: (os.geteuid(), os.getegid())),
)
