"""A program in a real terminal of its own, with somebody at the keyboard."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import termios
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from chaos_run import PROMPTLY, Scene, describe, family, start
from polling import eventually

CTRL_C = b"\x03"


class Terminal:
    """Runs a command with a pseudo-terminal as its controlling one."""

    def __init__(self, scene: Scene, command: list[str]) -> None:
        self.scene = scene
        self.mark = uuid.uuid4().hex
        scene.folder.mkdir(parents=True, exist_ok=True)
        self._keyboard, self._screen = pty.openpty()
        self._seen = bytearray()
        self.before = self.state()
        env = scene.environment(self.mark, TERM="xterm-256color")
        self.process = start(command, scene, env, [self._screen] * 3, terminal=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        """Everything that was shown, control sequences included."""
        return bytes(self._seen).decode(errors="replace")

    @property
    def end(self) -> str:
        """The last of what was shown."""
        return self.text[-800:]

    def state(self) -> tuple[Any, str]:
        """The terminal's settings, as the kernel and as stty tell them."""
        told = subprocess.run(
            ["stty", "-a"], stdin=self._screen, capture_output=True, text=True, check=True
        )
        return termios.tcgetattr(self._screen), told.stdout

    def until_started(self, count: int) -> None:
        """Wait for so many executions."""
        over = self.process.poll
        assert eventually(lambda: self.scene.started() >= count or over() is not None, 60)
        assert over() is None, self.end

    def press(self, key: bytes) -> None:
        os.write(self._keyboard, key)

    def wait(self, seconds: float = 60.0) -> int:
        """The exit code as a shell would tell it."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.end}") from None
        return 128 - code if code < 0 else code

    def assert_intact(self) -> None:
        """The terminal is as it was: settings, cursor, screen."""
        assert self.state() == self.before
        cursor = re.findall(r"\x1b\[\?25([hl])", self.text)
        assert not cursor or cursor[-1] == "h", "the cursor is hidden"
        screen = re.findall(r"\x1b\[\?1049([hl])", self.text)
        assert not screen or screen[-1] == "l", "the other screen is left on"

    def assert_gone(self) -> None:
        assert eventually(lambda: not family(self.mark), PROMPTLY), (
            f"left behind: {[describe(pid) for pid in family(self.mark)]}"
        )

    def close(self) -> None:
        for pid in family(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._screen)
        self._reader.join()
        os.close(self._keyboard)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the last one has left the terminal
            while data := os.read(self._keyboard, 4096):
                self._seen += data


@contextlib.contextmanager
def terminal(scene: Scene, command: list[str]) -> Iterator[Terminal]:
    """A terminal that is closed afterwards, with whatever runs in it."""
    opened = Terminal(scene, command)
    try:
        yield opened
    finally:
        opened.close()
