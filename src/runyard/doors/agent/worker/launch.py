"""Start the worker that serves a queue in the background.

start ──▶ launcher ──▶ worker (own session, log in the queue's folder)
  ▲           │            │ signs on in the store
  └── ready ◀─┴── ready ◀──┘
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from runyard.doors.agent.queue.ledger import Ledger
from runyard.errors import EngineError
from runyard.modes import make_folder

READY_SECONDS = 60.0
PROCESSES_MOST = 32
"""Up to this concurrency tasks get a process each; above, they share one (backend async)."""


def backend_for(lanes: int) -> str:
    """The default backend."""
    return "processes" if lanes <= PROCESSES_MOST else "async"


def launch(ledger: Ledger, lanes: int, backend: str) -> dict[str, Any]:
    """Start a worker, wait until it has signed on, and return its process and its log."""
    yard = ledger.yard
    location = yard.location if "://" in yard.location else str(yard.folder)
    log = yard.batch_folder(ledger.name) / "worker.log"
    make_folder(log.parent)
    order = {"queue": ledger.name, "lanes": lanes, "backend": backend, "log": str(log)}
    environment = {**os.environ, "RUNYARD_YARD": location, "RUNYARD_FILES": str(yard.folder)}
    path = os.pathsep.join(place or os.getcwd() for place in sys.path)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "runyard.doors.agent.worker.serve", json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment, "PYTHONPATH": path},
            timeout=READY_SECONDS,
            check=False,
        )
        told = json.loads(done.stdout.decode(errors="replace").strip().rpartition("\n")[2])
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise EngineError(
            f"the worker of {ledger.name} did not start", hint=f"see {log}"
        ) from error
    if "error" in told:
        raise EngineError(f"the worker did not start: {told['error']}", hint=f"see {log}")
    return {**told, "log": str(log)}
