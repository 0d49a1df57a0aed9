"""What tasks of one process share is seen to change, and put back."""

from __future__ import annotations

import decimal
import gc
import importlib
import locale
import os
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runyard.attempt.memory import beyond_the_limit
from runyard.attempt.process_state import CHANNEL, ProcessState

bootstrap: Any = importlib._bootstrap  # type: ignore[attr-defined]


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
    "fewer files": (lower_the_open_files, "its resource limits"),
    "umask": (lambda: os.umask(0o777), "the umask"),
    "recursion": (lambda: sys.setrecursionlimit(500), "the recursion limit"),
    "SIGCHLD ignored": (
        lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), "the signal handlers"
    ),
    "SIGINT ignored": (
        lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), "the SIGINT handler"
    ),
    "SIGUSR1 blocked": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]), "its blocked signals"
    ),
    "alarm": (lambda: signal.alarm(1000), "its timers"),
    "profiling timer": (lambda: signal.setitimer(signal.ITIMER_PROF, 900), "its timers"),
    "locale": (other_locale, "the locale"),
    "warnings": (lambda: warnings.simplefilter("error"), "the warning filters"),
    "no stdout": (lambda: setattr(sys, "stdout", None), "the standard streams"),
    "decimal": (lambda: setattr(decimal.getcontext(), "prec", 3), "the decimal context"),
    "traps": (
        lambda: decimal.getcontext().traps.update({decimal.Inexact: True}), "the decimal context"
    ),
    "numpy": (lambda: np.seterr(all="raise"), "numpy's settings"),
    "numpy's printing": (lambda: np.set_printoptions(precision=2), "numpy's settings"),
    "ASCII only": (
        lambda: sys.stdout.reconfigure(encoding="ascii"),  # type: ignore[union-attr]
        "the standard streams",
    ),
    "callback": (lambda: gc.callbacks.append(print), "the garbage collector"),
    "no collector": (gc.disable, "the garbage collector"),
    "digits": (lambda: sys.set_int_max_str_digits(1000), "the limit on integer digits"),
    "timeout": (lambda: socket.setdefaulttimeout(0.1), "the default socket timeout"),
    "tracing": (lambda: sys.settrace(lambda *_: None), "its trace function"),
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


@pytest.fixture
def imports(
    state: ProcessState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], None]:
    """Import a module with this text, as a task would."""
    monkeypatch.setattr(bootstrap, "_find_and_load", bootstrap._find_and_load)
    monkeypatch.syspath_prepend(tmp_path)
    state.follow_imports()

    def load(text: str) -> None:
        (tmp_path / "odd_module.py").write_text(f"import os, sys, warnings\n{text}\n")
        importlib.invalidate_caches()
        try:
            importlib.import_module("odd_module")
        finally:
            sys.modules.pop("odd_module", None)

    return load


def test_what_modules_add_when_they_are_imported_stays(
    state: ProcessState, imports: Callable[[str], None]
) -> None:
    begin(state)
    limit = sys.getrecursionlimit()
    imports(
        "os.environ['ODD'] = '1'\nwarnings.filterwarnings('ignore', 'odd')\n"
        f"sys.setrecursionlimit({limit + 1})"
    )
    try:
        assert state.changed() == []
        os.environ["ODD"] = "2"
        assert state.changed() == ["the environment"]
        assert state.restore()
        assert os.environ["ODD"] == "1"
    finally:
        sys.setrecursionlimit(limit)
        del os.environ["ODD"]


def test_what_a_task_changes_beside_an_import_is_its_own(
    state: ProcessState, imports: Callable[[str], None]
) -> None:
    begin(state)
    os.environ["BEFORE"] = "1"
    imports("os.environ['ODD'] = '1'")
    os.environ["AFTER"] = "1"
    warnings.simplefilter("always")
    try:
        assert state.changed() == ["the environment", "the warning filters"]
        assert state.restore()
        assert {"BEFORE", "ODD", "AFTER"} & os.environ.keys() == {"ODD"}
    finally:
        del os.environ["ODD"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("os.environ.pop('PATH')", "the environment"),
        ("sys.setrecursionlimit(500)", "the recursion limit"),
        ("warnings.simplefilter('error')", "the warning filters"),
        ("os.umask(0o777)", "the umask"),
    ],
)
def test_what_takes_from_others_is_a_change_even_in_an_import(
    state: ProcessState, imports: Callable[[str], None], text: str, told: str
) -> None:
    begin(state)
    imports(text)
    assert state.changed() == [told]
    assert state.restore()


def test_an_error_of_an_import_shows_nothing_of_who_watched_it(
    imports: Callable[[str], None],
) -> None:
    with pytest.raises(ValueError, match="odd") as raised:
        imports("raise ValueError('odd')")
    assert not any(Path(entry.path).name == "process_state.py" for entry in raised.traceback)


def test_what_the_functions_own_modules_change_stays(state: ProcessState) -> None:
    begin(state)
    with state.accepting():
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
