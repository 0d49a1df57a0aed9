"""The engine's end of the driver process, which stays warm between the runs of one process."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from typing import ClassVar

from runyard.backends.base import usable_cores
from runyard.backends.channel import Channel
from runyard.backends.helper import HelperProcess, WarmCache
from runyard.backends.ray.messages import (
    Alive,
    Failed,
    ToDriver,
    ToEngine,
    decode_to_engine,
    encode,
)
from runyard.errors import BackendError

START_SECONDS = 120.0
SILENT_SECONDS = 60.0
"""How long the driver may be silent before it is given up."""


class DriverClient(HelperProcess):
    """A driver process with its Ray and its actors, and the channel to it."""

    warm: ClassVar[WarmCache[DriverClient]] = WarmCache()
    end_seconds = 30.0

    @classmethod
    def take(cls, address: str | None, workers: int | None) -> DriverClient:
        """A client for the cluster, warm if there is one."""
        cores = max(usable_cores(), workers or 0)

        def fits(client: DriverClient) -> bool:
            has_cores = client.cores >= cores or not client.is_local
            return client.address == address and client.lives and has_cores

        return cls.warm.take(fits) or cls(address, cores)

    def __init__(self, address: str | None, cores: int) -> None:
        """Start a driver that joins a cluster, or starts a Ray with this number of cores."""
        super().__init__("runyard.backends.ray.driver", address, cores)
        self.address = address
        self.cores = cores
        self.is_local = address is None
        self.room = 0  # how many actors fit, with one core each
        self._heard = time.monotonic()
        self._channel = Channel(self.poller, self.socket)
        try:
            self._wait_until_up()
        except BaseException:
            self.close()
            raise

    def send(self, message: ToDriver) -> None:
        """Queue a message for the driver, and send what fits."""
        self._channel.send(encode(message))
        self._check()

    def receive(self, timeout: float) -> list[ToEngine]:
        """Messages that have arrived; waits up to `timeout` for the first."""
        if self.poller.wait(timeout) and self._channel.read():
            self._heard = time.monotonic()
        messages = self._channel.take(decode_to_engine)
        for message in messages:
            if isinstance(message, Failed):
                raise BackendError(message.message, hint=message.hint)
        self._check()
        if time.monotonic() - self._heard > SILENT_SECONDS:
            raise BackendError(
                f"the Ray driver process has not answered for {SILENT_SECONDS:.0f} s",
                hint="check the cluster with `ray status`, then run `runyard resume`",
            )
        return messages

    def _check(self) -> None:
        if not self._channel.is_broken and not self._channel.at_end:
            return
        lines = self.last_lines()
        raise BackendError(
            "the Ray driver process died" + (f"; its last output:\n{lines}" if lines else ""),
            hint="check that the cluster's head runs, then run `runyard resume`",
        )

    def _wait_until_up(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            for message in self.receive(0.5):
                if isinstance(message, Alive):
                    self.room = message.lanes
                    return
        raise BackendError(
            f"Ray did not start within {START_SECONDS:.0f} s", hint="see what `ray status` says"
        )


def address_of(given: str | None) -> str | None:
    """The cluster to join: the given one, else `$RAY_ADDRESS`, else this process's own."""
    found = given or os.environ.get("RAY_ADDRESS") or None
    if found is not None:
        return None if found == "local" else found
    ray = sys.modules.get("ray")
    if ray is not None and hasattr(ray, "is_initialized") and ray.is_initialized():
        return str(ray.get_runtime_context().gcs_address)
    return None


def check_installed() -> None:
    """Raise if Ray is not installed."""
    try:
        found = find_spec("ray")
    except ValueError:
        found = None
    if found is None:
        raise BackendError("Ray is not installed", hint="pip install 'runyard[ray]'")


close_clients = DriverClient.warm.close
"""End the drivers that wait for the next run of this process."""
