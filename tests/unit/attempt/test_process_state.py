"""What tasks of one process share is seen to change, and put back."""

from __future__ import annotations

import decimal
import locale
import os
import resource
import signal
import socket
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.process_state import CHANNEL, ProcessState


def lower_the_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))


def other_locale() -> None:
    now = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C.UTF-8" if now == "C" else "C")


CHANGES: dict[str, tuple[Callable[[], object], str]] = {
    "environment cleared": (os.environ.clear, "the environment"),
    "variable set": (lambda: os.environ.update(ODD="1"), "the environment"),
    "variable changed": (lambda: os.environ.update(PATH="/"), "the environment"),
    "fewer files": (lower_the_open_files, "the limits of its process"),
    "umask": (lambda: os.umask(0o777), "the file mode mask"),
    "recursion": (lambda: sys.setrecursionlimit(500), "the recursion limit"),
    "SIGCHLD ignored": (
        lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), "the handlers of signals"
    ),
    "SIGINT ignored": (
        lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), "the handler of SIGINT"
    ),
    "SIGUSR1 blocked": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]), "the signals it blocks"
    ),
    "alarm": (lambda: signal.alarm(1000), "its timers"),
    "profiling timer": (lambda: signal.setitimer(signal.ITIMER_PROF, 900), "its timers"),
    "locale": (other_locale, "the locale"),
    "warnings": (lambda: warnings.simplefilter("error"), "the filters of warnings"),
    "no stdout": (lambda: setattr(sys, "stdout", None), "the standard streams"),
    "decimal": (lambda: setattr(decimal.getcontext(), "prec", 3), "the context of decimal"),
    "traps": (
        lambda: decimal.getcontext().traps.update({decimal.Inexact: True}), "the context of decimal"
    ),
    "numpy": (lambda: np.seterr(all="raise"), "how numpy handles errors"),
}  # fmt: skip


@pytest.fixture
def state(still_process: None) -> Iterator[ProcessState]:
    mine, theirs = socket.socketpair()
    with mine, theirs, warnings.catch_warnings(), decimal.localcontext(), np.errstate():
        yield ProcessState(theirs.fileno())


def begin(state: ProcessState) -> None:
    """Keep what is now; pytest makes changes of its own until the test itself begins."""
    warnings.simplefilter("ignore")
    state.keep([1, 2])


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_by_name_and_undone(state: ProcessState, name: str) -> None:
    begin(state)
    change, told = CHANGES[name]
    environment = dict(os.environ)
    assert state.changed() == []
    change()
    assert state.changed() == [told]
    assert state.restore()
    assert state.changed() == []
    assert dict(os.environ) == environment


def test_a_warning_that_was_raised_as_an_error_is_one_no_more(state: ProcessState) -> None:
    begin(state)

    def warn() -> None:
        warnings.warn("odd", UserWarning, stacklevel=1)

    warnings.simplefilter("error")
    with pytest.raises(UserWarning, match="odd"):
        warn()
    assert state.restore()
    warn()


@pytest.mark.usefixtures("still_process")
def test_a_file_that_was_closed_or_replaced_can_not_be_put_back(tmp_path: Path) -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs, (tmp_path / "a").open("w") as file, (tmp_path / "b").open("w") as other:
        state = ProcessState(theirs.fileno())
        state.keep([file.fileno()])
        os.dup2(other.fileno(), file.fileno())
        assert state.changed() == ["its open files"]
        assert not state.restore()
        state.keep([file.fileno()])
        assert state.is_connected()
        os.dup2(other.fileno(), theirs.fileno())
        assert not state.is_connected()
        assert state.changed() == [CHANNEL]
        assert not state.restore()


def test_what_modules_add_when_they_are_imported_stays(state: ProcessState) -> None:
    begin(state)
    os.environ["ODD"] = "1"
    warnings.filterwarnings("ignore", "odd")
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    sys.modules["odd_module"] = types.ModuleType("odd_module")
    try:
        assert state.changed() == []
        os.environ["ODD"] = "2"
        assert state.changed() == ["the environment"]
    finally:
        sys.setrecursionlimit(sys.getrecursionlimit() - 1)
        del os.environ["ODD"], sys.modules["odd_module"]


@pytest.mark.parametrize("name", ["environment cleared", "recursion", "warnings", "umask"])
def test_what_takes_from_others_is_a_change_even_with_an_import(
    state: ProcessState, name: str
) -> None:
    begin(state)
    change, told = CHANGES[name]
    change()
    sys.modules["odd_module"] = types.ModuleType("odd_module")
    try:
        assert state.changed() == [told]
    finally:
        del sys.modules["odd_module"]
        state.restore()


def test_what_the_functions_own_modules_change_stays(state: ProcessState) -> None:
    begin(state)
    with state.loading():
        os.environ["ODD"] = "1"
        old = os.umask(0o70)
    try:
        assert state.changed() == []
    finally:
        os.umask(old)
        del os.environ["ODD"]


def test_a_function_that_was_replaced_is_seen(
    state: ProcessState, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(state)
    with monkeypatch.context() as patched:
        patched.setattr(signal, "getitimer", lambda: 1 / 0)
        assert state.changed() == ["its timers"]
        assert not state.restore()


def test_a_limit_that_is_lifted_to_send_a_report_is_no_change(state: ProcessState) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if before[1] != resource.RLIM_INFINITY:
        pytest.skip("there is no room above the limit")
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, before[1]))
    lifted = threading.Event()

    def send() -> None:
        with beyond_the_limit():
            lifted.set()
            time.sleep(0.1)

    sender = threading.Thread(target=send)
    try:
        begin(state)
        sender.start()
        assert lifted.wait(10)
        assert state.changed() == []
    finally:
        sender.join()
        resource.setrlimit(resource.RLIMIT_DATA, before)
