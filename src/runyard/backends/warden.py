"""The warden: a small single-threaded process between the engine and its workers.

    engine ══ control socket ══ warden ──fork──▶ worker 0 ─▶ the task's own processes
                                       ──fork──▶ worker 1

It forks workers (never the engine: a threaded parent must not fork), tells the engine when one ends
and how, ends whole process trees on request, and when the engine dies, however suddenly, ends
everything. It adopts what dead workers leave behind, so that nothing survives unseen.
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

from runyard.backends import tree, worker

MESSAGE = struct.Struct("<cxxxiq")  # kind, lane, pid or exit status
FORK, KILL, STARTED, ENDED = b"F", b"K", b"S", b"E"


def main(descriptor: int) -> None:
    """Serve the engine at the other end of this socket until it is gone."""
    control = socket.socket(fileno=descriptor)
    tree.adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wake_out, wake_in = os.pipe()
    for end in (wake_out, wake_in):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    gc.freeze()
    lanes: dict[int, int] = {}
    waiting = select.poll()  # which minds no descriptor's number: the engine may have thousands
    for descriptor in (control.fileno(), wake_out):
        waiting.register(descriptor, select.POLLIN)
    try:
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if wake_out in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake_out, 4096)
                _reap(control, lanes)
            if control.fileno() in ready and not _obey(control, lanes, (wake_in, wake_out)):
                return
    except OSError:
        return
    finally:
        # Only the warden itself comes here: a worker ends inside `_become_worker`.
        tree.kill_below(os.getpid())
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0)[0]:
                pass
        os._exit(0)


def _obey(control: socket.socket, lanes: dict[int, int], pipe: tuple[int, int]) -> bool:
    """Do what the engine says; False when it is gone."""
    data, descriptors, _, _ = socket.recv_fds(control, MESSAGE.size, 1)
    while data and len(data) < MESSAGE.size:
        more = control.recv(MESSAGE.size - len(data))
        if not more:
            return False
        data += more
    if not data:
        return False
    kind, lane, pid = MESSAGE.unpack(data)
    if kind == KILL:
        if pid in lanes:
            tree.kill_tree(pid)
        return True
    child = os.fork()
    if child == 0:
        _become_worker(lane, descriptors[0], control, pipe)
    os.close(descriptors[0])
    lanes[child] = lane
    control.sendall(MESSAGE.pack(STARTED, lane, child))
    return True


def _become_worker(
    lane: int, descriptor: int, control: socket.socket, pipe: tuple[int, int]
) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tree.adopt_orphans()
        os.setsid()
        control.close()
        for end in pipe:
            os.close(end)
        worker.main(lane, socket.socket(fileno=descriptor))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _reap(control: socket.socket, lanes: dict[int, int]) -> None:
    """Report workers that ended; end what they left behind."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            lane = lanes.pop(pid, None)
            if lane is not None:
                tree.kill_below(os.getpid(), spare=frozenset(lanes))
                control.sendall(MESSAGE.pack(ENDED, lane, status << 32 | pid))
