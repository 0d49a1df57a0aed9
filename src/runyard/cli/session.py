"""What every command shares: where its yard is, and where its output goes.

stdout   what was asked for: text for people, or JSON with --json
stderr   everything else: progress, notices, errors
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from runyard import interrupts
from runyard.addresses import DEFAULT_YARD, command, shown
from runyard.errors import EngineError, NotFound, UsageError
from runyard.plaintext import ascii_json, plain
from runyard.spec.hash_seed import VARIABLE, own_seed

if TYPE_CHECKING:
    from runyard.yard import Yard

# Random, so that foreign text can't contain it: escape sequences after it are our own.
_MARK = f"\0{os.urandom(8).hex()}\0"
_LOOKS = re.compile(rf"{_MARK}((?:\x1b\[[0-9;]*m)*)")


class Session:
    """One invocation of the program."""

    def __init__(self, *, is_program: bool = False) -> None:
        self.json = False
        self._is_program = is_program  # and not called within another one
        self.location = DEFAULT_YARD
        self.durable = False
        self._documents: TextIO | None = None

    def use_json(self) -> None:
        """Keep stdout for documents; what tasks and modules print goes to stderr."""
        if self.json:
            return
        self.json = True
        with contextlib.suppress(AttributeError, OSError):
            sys.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            self._documents = open(kept, "w", encoding="utf-8")  # noqa: PTH123, SIM115

    def document(self, data: dict[str, Any], *, at_once: bool = True) -> None:
        """Write one JSON document as a line; nothing without --json."""
        if self._documents is not None:
            with self._writing():
                self._documents.write(ascii_json(data) + "\n")
                if at_once:
                    self._documents.flush()

    def say(self, text: str = "", *, newline: bool = True) -> None:
        """Print text; nothing with --json."""
        if not self.json:
            with self._writing():
                click.echo(painted(text), nl=newline, color=_color())

    def answer(self, text: str, data: dict[str, Any]) -> None:
        """Print a command's answer: text for people, or one document with --json."""
        self.say(text)
        self.document(data)

    def note(self, text: str) -> None:
        """Print a notice on stderr, with and without --json."""
        click.echo(painted(text), err=True, color=_color())

    def confirm_loss(self, loss: str) -> bool:
        """Whether the user agrees to a loss; without a terminal, --yes is needed."""
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError(
                f"{loss}; there is no terminal to ask for confirmation",
                hint="pass --yes to delete without asking",
            )
        if click.confirm(painted(f"{loss} permanently. Continue?"), err=True):
            return True
        self.note("nothing was deleted")
        return False

    def stdout(self) -> TextIO:
        """Where data goes: stdout itself, or by way of `say` if it is a terminal."""
        return _Screen(self) if sys.stdout.isatty() else sys.stdout

    def pass_on(self, data: bytes, *, err: bool = False) -> None:
        """Print bytes unchanged."""
        with self._writing():
            click.echo(data, nl=False, err=err)

    def flush(self) -> None:
        """Raise errors of stdout while they can still be reported."""
        with self._writing():
            for stream in (sys.stdout, self._documents):
                if stream is not None:
                    stream.flush()

    def close(self) -> None:
        """Close the stream of documents."""
        if self._documents is not None:
            self._documents.close()

    def pin_hash_seed(self, seed: str) -> None:
        """Restart this program with a hash seed, unless it has that one already."""
        is_pinned = own_seed() == seed or os.environ.get(VARIABLE) == seed
        if is_pinned or not self._is_program or sys.flags.ignore_environment:
            return
        if self._documents is not None:
            os.dup2(self._documents.fileno(), 1)
        words = [sys.executable, *sys.orig_argv[1:]]
        # Python can't be interrupted in good order while it starts: see `hear_signals`.
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.SIGNALS)
        os.execve(sys.executable, words, {**os.environ, VARIABLE: seed})

    def hear_signals(self) -> None:
        """Let in what `pin_hash_seed` kept out, which may interrupt at once."""
        if self._is_program:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts.SIGNALS)

    def abandon(self) -> None:
        """Discard further output, as nothing reads stdout any more."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        if self._documents is not None:
            os.dup2(nowhere, self._documents.fileno())

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.abandon()
            raise EngineError(f"can't write to stdout: {error.strerror}") from error

    @property
    def place(self) -> str:
        """The yard's location, without passwords."""
        return shown(self.location)

    @contextlib.contextmanager
    def yard(self, *, create: bool = False, or_empty: bool = False) -> Iterator[Yard]:
        """Open the yard. If there is none: create it, open an empty one in memory, or raise."""
        is_missing = False
        if not create and "://" not in self.location and self.location != "memory:":
            with contextlib.suppress(OSError):  # which opening it reports
                is_missing = not Path(self.location, "yard.db").exists()
        if is_missing and not or_empty:
            raise NotFound(
                f"there is no yard at {self.place}", hint="pass its location with --yard PATH"
            )
        from runyard.yard import Yard

        with Yard("memory:" if is_missing else self.location, durable=self.durable) as yard:
            yield yard

    def command(self, *words: str) -> str:
        """A command to run next, for the same yard."""
        is_given = self.location != os.environ.get("RUNYARD_YARD")
        return command(*words, location=self.location if is_given else None)


class _Screen(io.TextIOBase, TextIO):
    def __init__(self, session: Session) -> None:
        self._session = session

    def write(self, text: str) -> int:
        self._session.say(text, newline=False)
        return len(text)


def style(text: str, **looks: Any) -> str:
    """Text with colours, unless NO_COLOR is set; for `say` and `note`."""
    if os.environ.get("NO_COLOR"):
        return text
    return _MARK + click.style("", reset=False, **looks) + text + _MARK + click.style("")


def painted(text: str) -> str:
    """The text for a terminal: its only escape sequences are the colours from `style`."""
    parts = _LOOKS.split(text)
    parts[::2] = map(plain, parts[::2])
    return "".join(parts)


def _color() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None
