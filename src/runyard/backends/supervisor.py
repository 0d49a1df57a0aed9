"""The supervisor: a small single-threaded process between the engine and its workers.

    engine ══ control socket ══ supervisor ──fork──▶ worker 0 ─▶ the task's own processes
       ║                            │      ──fork──▶ worker 1
       ╚═════════════════════════ guard (the supervisor's parent)

The supervisor forks the workers (the engine can't: a threaded parent must not fork), tells the
engine when and how one exits, and kills process trees on request. When the engine or the guard
dies, it kills everything. The guard only waits, so little can go wrong with it: when the engine or
the supervisor dies, it kills everything, too.

Both adopt orphans, so that no process escapes. The kernel continues a stopped one when its parent
dies, and kills a worker when the supervisor dies (Linux).
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import NoReturn

from runyard.attempt.descriptors import out_of_the_way
from runyard.backends import tree, worker

MESSAGE = struct.Struct("<cxxxiQ")  # kind, lane; the channel's key, a pid, or status << 32 | pid
FORK, KILL, STARTED, ENDED = b"F", b"K", b"S", b"E"
FORKED_WITH = 3
"""Descriptors sent with a request to fork: the channel, and the engine's stdout and stderr."""


def main(descriptor: int) -> None:
    """Serve the engine at the other end of this socket until it is gone."""
    control = socket.socket(fileno=descriptor)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()
    above, below = socket.socketpair()
    if os.fork() == 0:
        above.close()
        _watch_over(lambda: _serve(control, below))
    below.close()
    _watch_over(lambda: _wait(control, above))


def _watch_over(act: Callable[[], None]) -> NoReturn:
    """Call a function, then kill all processes below this one, and exit."""
    try:
        tree.adopt_orphans()
        # The engine's thread that started us may end before the engine, so this must be harmless.
        tree.signal_at_parents_end(signal.SIGCONT)
        with contextlib.suppress(OSError):
            act()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        # Only the supervisor and its guard get here: a worker exits inside `_become_worker`.
        tree.kill_below(os.getpid())
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                pass
        os._exit(0)


def _wait(control: socket.socket, supervisor: socket.socket) -> None:
    """Wait until the engine or the supervisor is gone, without reading what they send."""
    waiting = select.poll()
    waiting.register(control.fileno(), 0)  # hang-up is always reported
    waiting.register(supervisor.fileno(), select.POLLIN)
    waiting.poll()


def _serve(control: socket.socket, guard: socket.socket) -> None:
    """Handle requests of the engine until it or the guard is gone."""
    wake_out, wake_in = os.pipe()
    for end in (wake_out, wake_in):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    lanes: dict[int, int] = {}
    answers = _Answers(control)
    own = [control.fileno(), guard.fileno(), wake_out, wake_in]
    waiting = select.poll()  # unlike select, it has no limit on descriptor numbers
    for descriptor in own[:3]:
        waiting.register(descriptor, select.POLLIN)
    while True:
        ready = dict(waiting.poll())
        if guard.fileno() in ready:
            return
        if wake_out in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_out, 4096)
            _reap(answers, lanes)
        if control.fileno() in ready:
            answers.flush()
            if ready[control.fileno()] & ~select.POLLOUT and not _handle(answers, lanes, own):
                return
        waiting.modify(control, select.POLLIN | (select.POLLOUT if answers.waiting else 0))


class _Answers:
    """Sends answers to the engine without waiting for it to read them.

    The engine may be sending requests meanwhile, and must not have to wait for us in turn.
    """

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.waiting = bytearray()  # for room in the socket

    def send(self, kind: bytes, lane: int, value: int) -> None:
        self.waiting += MESSAGE.pack(kind, lane, value)
        self.flush()

    def flush(self) -> None:
        """Send what fits."""
        with contextlib.suppress(BlockingIOError):
            while self.waiting:
                sent = self.control.send(self.waiting, socket.MSG_DONTWAIT)
                del self.waiting[:sent]


def _handle(answers: _Answers, lanes: dict[int, int], own: list[int]) -> bool:
    """Handle one request of the engine; False if it is gone."""
    data, descriptors, _, _ = socket.recv_fds(
        answers.control, MESSAGE.size, FORKED_WITH, socket.MSG_WAITALL
    )
    if len(data) < MESSAGE.size:
        return False
    kind, lane, key = MESSAGE.unpack(data)
    if kind == KILL:
        # The engine requests another worker of a lane only after the last one has ended.
        for child in [child for child, its in lanes.items() if its == lane]:
            tree.kill_tree(child)
        return True
    supervisor, child = os.getpid(), os.fork()
    if child == 0:
        _become_worker(lane, key, descriptors, supervisor, own)
    for descriptor in descriptors:
        os.close(descriptor)
    lanes[child] = lane
    answers.send(STARTED, lane, child)
    return True


def _become_worker(
    lane: int, key: int, descriptors: list[int], supervisor: int, own: list[int]
) -> NoReturn:
    code = 1
    try:
        tree.signal_at_parents_end(signal.SIGKILL)
        if os.getppid() != supervisor:  # it died before this
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tree.adopt_orphans()
        os.setsid()
        channel, *streams = descriptors
        for target, stream in enumerate(streams, start=1):
            os.dup2(stream, target)
        for descriptor in (*own, *streams):
            os.close(descriptor)
        channel = out_of_the_way(channel)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        code = worker.main(lane, socket.socket(fileno=channel), key)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _reap(answers: _Answers, lanes: dict[int, int]) -> None:
    """Report workers that exited, and kill what they left behind."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            lane = lanes.pop(pid, None)
            if lane is not None:
                tree.kill_below(os.getpid(), spare=frozenset(lanes))
                answers.send(ENDED, lane, status << 32 | pid)
