"""The bridge's process: joins a cluster or starts a Ray, and takes it along when it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from typing import Any

from runyard.backends.ray import frames
from runyard.backends.ray.bridge import Bridge
from runyard.backends.ray.frames import FAILED, Frame, Trouble
from runyard.backends.ray.nodes import answers


def main(descriptor: int, address: str | None, cores: int) -> None:
    """Be the bridge of the engine at the other end of this socket until it is gone."""
    engine = socket.socket(fileno=descriptor)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = None if address is not None else tempfile.mkdtemp(prefix="runyard-ray-")
    code, lost = 1, False
    try:
        try:
            _start(address, cores, folder)
            bridge = Bridge(engine, local=address is None)
        except (Exception, SystemExit) as error:
            what = "Ray can't start" if address is None else f"no Ray cluster answers at {address}"
            lines = str(error).strip().splitlines() or [type(error).__name__]
            trouble = Trouble(f"{what}: {lines[0]}", "see what `ray status` says")
            with contextlib.suppress(OSError):
                engine.sendall(Frame(FAILED, content=frames.encode(trouble)).encode())
        else:
            bridge.serve()
            lost = bridge.is_lost
            code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the engine shows the last lines
        sys.stderr.flush()
    finally:
        if not lost:
            _shut_down()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(code)


def _start(address: str | None, cores: int, folder: str | None) -> None:
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        os.environ.pop("RAY_ADDRESS", None)
        # Ray's word for a cluster of one machine, which listens on loopback only.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # By default Ray's workers give way to every other process of the machine.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # One below ours: Ray opens its own folder to every user of the machine.
        place = f"{folder}/r"
        settings |= {"num_cpus": cores, "include_dashboard": False, "_temp_dir": place}
    else:
        settings["address"] = address
        if address != "auto" and not answers(address.removeprefix("ray://")):
            raise ConnectionError("nobody listens there")
    import ray

    ray.init(**settings)


def _shut_down() -> None:
    """End Ray, and this process even if Ray won't."""
    threading.Timer(15.0, os._exit, [1]).start()
    import ray

    with contextlib.suppress(Exception):
        ray.shutdown()
