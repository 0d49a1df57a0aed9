"""The first process of model-written code: applies limits, then executes the code.

    sandbox ──▶ jail ──▶ init (first in its own process namespace) ──▶ the code
                 │         └ ends with the code, and the kernel ends whatever is left
                 └ dies with the sandbox, and init with it

Run as a script by an isolated interpreter, so it uses the standard library alone. Protections that
this machine doesn't support are left out; the report says which are in force.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import stat
import struct
import sys
from pathlib import Path
from typing import Any

NEWNS, NEWIPC, NEWUSER, NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
RDONLY, REMOUNT, NOSUID, NODEV, BIND, REC, PRIVATE = 1, 32, 2, 4, 4096, 16384, 1 << 18
DEATH_SIGNAL, DUMPABLE, SUBREAPER, NO_NEW_PRIVILEGES = 1, 4, 36, 38
GET_SECCOMP, SET_SECCOMP, FILTER = 21, 22, 2
TEMPORARY = [Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]  # noqa: S108
"""World-writable folders; the code sees a folder of its workspace instead."""

FIRST_UID = 1_900_000_000
"""User ids from here on are unassigned: each piece of code gets its own."""

REFUSED = {
    "x86_64": (0xC000003E, (29, 64, 68, 248, 249, 250, 425)),
    "aarch64": (0xC00000B7, (194, 190, 186, 217, 218, 219, 425)),
}
"""By machine, its number and those of shmget, semget, msgget, add_key, request_key, keyctl and
io_uring_setup: they hold memory and files outside any process, where no limit applies, and reach
the keys of the user who runs the queue.
"""


def main(order: dict[str, Any]) -> int:
    """Run the code under its limits; return its exit code."""
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, DEATH_SIGNAL, signal.SIGKILL)
    is_root = os.getuid() == 0
    uid = FIRST_UID + os.getpid() if is_root and sys.platform == "linux" else None
    in_cgroup = _join(order["cgroups"])
    alone = _unshare(libc, is_root=is_root)
    facts = {
        "own_processes": alone, "own_user": uid is not None, "cgroup": in_cgroup,
        "filter": _can_filter(libc),
    }  # fmt: skip
    os.write(order["report"], json.dumps(facts).encode())
    os.close(order["report"])
    child = os.fork()
    if not child:
        os._exit(_init(libc, order, uid, alone=alone, is_root=is_root))
    return _code_of(os.waitpid(child, 0)[1])


def _init(libc: Any, order: dict[str, Any], uid: int | None, *, alone: bool, is_root: bool) -> int:
    _prctl(libc, DEATH_SIGNAL, signal.SIGKILL)
    _prctl(libc, SUBREAPER, 1)
    if alone:
        _mount(libc, "none", "/", None, REC | PRIVATE)
        _cover(libc, order, is_root=is_root)
        _mount(libc, "proc", "/proc", "proc", NOSUID | NODEV)
    if uid is not None:
        for path in (Path(order["cwd"]), *Path(order["cwd"]).iterdir()):
            os.chown(path, uid, uid, follow_symlinks=False)
    code = os.fork()
    if not code:
        try:
            _become(libc, order, uid, alone=alone)
        except OSError as error:
            os.write(2, f"{order['argv'][0]} can't be run: {error}\n".encode())
        os._exit(127)
    status = _reap(code)
    if not alone:
        _end_rest()
    return _code_of(status)


def _become(libc: Any, order: dict[str, Any], uid: int | None, *, alone: bool) -> None:
    os.setsid()
    os.chdir(order["cwd"])
    os.umask(0o077)
    limits = dict(order["limits"])
    if uid is None and not alone and "NPROC" in limits:
        limits["NPROC"] += _own_processes()
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _prctl(libc, DEATH_SIGNAL, signal.SIGKILL)
    _prctl(libc, NO_NEW_PRIVILEGES, 1)
    if order["closes_namespaces"]:
        _close_namespaces(libc)
    if _can_filter(libc):
        _refuse_calls(libc)
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(3, 4096)
    os.execvpe(order["argv"][0], order["argv"], order["env"])


def _reap(code: int) -> int:
    """Wait for the code, and for orphans that come to the first process; the code's status."""
    while True:
        process, status = os.waitpid(-1, 0)
        if process == code:
            return status


def _end_rest() -> None:
    """Without a namespace to end, kill what the code has left behind one by one."""
    mine = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(OSError):
        while left := mine.read_text().split():
            for each in left:
                os.kill(int(each), signal.SIGKILL)
            os.waitpid(-1, 0)


def _unshare(libc: Any, *, is_root: bool) -> bool:
    """Leave the machine's process, mount and IPC namespaces, if possible."""
    if sys.platform != "linux":
        return False
    user, group = os.getuid(), os.getgid()
    flags = NEWNS | NEWPID | NEWIPC | (0 if is_root else NEWUSER)
    if libc.unshare(flags) != 0:
        return False
    if not is_root:
        _map_users(user, group)
    return True


def _close_namespaces(libc: Any) -> None:
    """Keep the code from becoming root of a namespace, where it could mount memory as files."""
    if sys.platform != "linux":
        return
    _prctl(libc, DUMPABLE, 1)  # otherwise the /proc files of this process belong to root
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEWUSER) == 0:
        with contextlib.suppress(OSError):
            _map_users(user, group)
            Path("/proc/sys/user/max_user_namespaces").write_text("0")


def _can_filter(libc: Any) -> bool:
    known = sys.platform == "linux" and sys.maxsize > 1 << 32 and os.uname().machine in REFUSED
    return known and libc.prctl(GET_SECCOMP, 0, 0, 0, 0) >= 0


def _refuse_calls(libc: Any) -> None:
    """Make some system calls fail with ENOSYS from here on, in child processes too."""
    machine, calls = REFUSED[os.uname().machine]
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    kill, fail, allow = 0x80000000, 0x00050000 | errno.ENOSYS, 0x7FFF0000
    count = len(calls)
    steps = [
        (load, 0, 0, 4), (equal, 1, 0, machine), (end, 0, 0, kill),  # no other architecture
        (load, 0, 0, 0), (at_least, count + 1, 0, 1 << 30),  # nor x32
        *((equal, count - at, 0, call) for at, call in enumerate(calls)),
        (end, 0, 0, allow), (end, 0, 0, fail),
    ]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    if libc.prctl(SET_SECCOMP, FILTER, program, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")


def _map_users(user: int, group: int) -> None:
    """Keep this process's user and group in the new namespace."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _cover(libc: Any, order: dict[str, Any], *, is_root: bool) -> None:
    """Mount a workspace folder over temporary folders, and an empty one over private ones.

    Paths that the code needs are mounted again, so that they can be reached below private folders.
    """
    os.umask(0o022)
    scratch = os.open(Path(order["cwd"], order["scratch"]), os.O_PATH)
    covers: dict[Path, list[tuple[Path, int]]] = {each: [] for each in TEMPORARY if each.is_dir()}
    for path in map(Path, order["reach"]):
        above = (
            up for up in reversed(path.parents) if up in covers or (is_root and _is_closed(up))
        )
        cover = next(above, None)
        if cover is not None:
            covers.setdefault(cover, []).append((path, os.open(path, os.O_PATH)))
    for cover, paths in covers.items():
        if cover in TEMPORARY:
            _mount(libc, f"/proc/self/fd/{scratch}", str(cover), None, BIND)
        else:
            _mount(libc, "tmpfs", str(cover), "tmpfs", NOSUID | NODEV, "size=1m,mode=755")
        for path, descriptor in paths:
            path.mkdir(parents=True, exist_ok=True)
            _mount(libc, f"/proc/self/fd/{descriptor}", str(path), None, BIND | REC)
            os.close(descriptor)
    os.close(scratch)


def _is_closed(folder: Path) -> bool:
    return not folder.stat().st_mode & stat.S_IXOTH


def _join(cgroups: list[str]) -> bool:
    for folder in cgroups:
        Path(folder, "cgroup.procs").write_text("0")
    return bool(cgroups)


def _mount(
    libc: Any, source: str, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    words = [None if each is None else each.encode() for each in (source, target, kind, data)]
    if libc.mount(words[0], words[1], words[2], flags, words[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _prctl(libc: Any, option: int, value: int) -> None:
    if sys.platform == "linux":
        libc.prctl(option, value, 0, 0, 0)


def _own_processes() -> int:
    found = 0
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += each.stat().st_uid == os.getuid()
    return found


def _code_of(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _ordered() -> dict[str, Any]:
    """Read the order from stdin: every user can see the arguments of a process."""
    order: dict[str, Any] = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return order


if __name__ == "__main__":
    sys.exit(main(_ordered()))
