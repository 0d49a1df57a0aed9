"""What every command shares: where its yard is, and where its words go.

stdout   what was asked for: text for people, or JSON with --json
stderr   everything else: progress, notices, errors
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from runyard import interrupts
from runyard.addresses import check, shown
from runyard.errors import EngineError, NotFound
from runyard.plaintext import ascii_json, plain
from runyard.spec.hash_seed import VARIABLE, own_seed

if TYPE_CHECKING:
    from runyard.yard import Yard

DEFAULT_YARD = ".runyard"
Function = TypeVar("Function", bound=Callable[..., Any])

# No text of others can know it, so that escape sequences behind it are our own.
_MARK = f"\0{os.urandom(8).hex()}\0"
_LOOKS = re.compile(rf"{_MARK}((?:\x1b\[[0-9;]*m)*)")


class Session:
    """One call of the program."""

    def __init__(self, *, is_program: bool = False) -> None:
        self.json = False
        self._is_program = is_program  # and not called within another one
        self.location = DEFAULT_YARD
        self.durable = False
        self._documents: TextIO | None = None

    def use_json(self) -> None:
        """Keep stdout for documents; whatever a task or a module prints goes to stderr."""
        if self.json:
            return
        self.json = True
        with contextlib.suppress(AttributeError, OSError):
            sys.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            self._documents = open(kept, "w", encoding="utf-8")  # noqa: PTH123, SIM115

    def document(self, data: dict[str, Any], *, at_once: bool = True) -> None:
        """One JSON document on a line of its own; nothing without --json."""
        if self._documents is not None:
            with self._writing():
                self._documents.write(ascii_json(data) + "\n")
                if at_once:
                    self._documents.flush()

    def say(self, text: str = "", *, newline: bool = True) -> None:
        """Text for people; nothing with --json."""
        if not self.json:
            with self._writing():
                click.echo(painted(text), nl=newline, color=_color())

    def note(self, text: str) -> None:
        """Something a person should know, whatever goes to stdout."""
        click.echo(painted(text), err=True, color=_color())

    def stdout(self) -> TextIO:
        """Where data goes: stdout as it is, and a terminal by way of `say`."""
        return _Screen(self) if sys.stdout.isatty() else sys.stdout

    def pass_on(self, data: bytes, *, err: bool = False) -> None:
        """Bytes that were asked for as they are."""
        with self._writing():
            click.echo(data, nl=False, err=err)

    def flush(self) -> None:
        """Bring errors of stdout to light while they can still be told."""
        with self._writing():
            for stream in (sys.stdout, self._documents):
                if stream is not None:
                    stream.flush()

    def close(self) -> None:
        """The last word has been said."""
        if self._documents is not None:
            self._documents.close()

    def pin_hash_seed(self, seed: str) -> None:
        """Start this program again with this hash seed, where tasks that it runs need that."""
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
        """Nobody reads stdout any more: what is left for it goes nowhere."""
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
            raise EngineError(f"stdout can't be written: {error.strerror}") from error

    @property
    def place(self) -> str:
        """Where the yard is, as it may be shown."""
        return shown(self.location)

    def has_yard(self) -> bool:
        """Whether there is a yard at all."""
        # Where nobody may look, opening it says so.
        store = Path(self.location, "yard.db")
        return _is_address(self.location) or not is_missing(store)

    @contextlib.contextmanager
    def yard(self, *, create: bool = False) -> Iterator[Yard]:
        """The yard, open; only a command that runs something makes one."""
        if not create and not self.has_yard():
            raise NotFound(
                f"there is no yard at {self.place}",
                hint="say where it is with --yard PATH",
            )
        from runyard.yard import Yard

        with Yard(self.location, durable=self.durable) as yard:
            yield yard

    def command(self, *words: str) -> str:
        """A command to type next, for the same yard."""
        import shlex

        given = self.location not in (DEFAULT_YARD, os.environ.get("RUNYARD_YARD"))
        where = ["--yard", self.place] if given else []
        return shlex.join(["runyard", *words, *where])


class _Screen(io.TextIOBase, TextIO):
    def __init__(self, session: Session) -> None:
        self._session = session

    def write(self, text: str) -> int:
        self._session.say(text, newline=False)
        return len(text)


def shared(function: Function) -> Function:
    """Give a command --json and --yard, and its session as the first argument."""

    @click.option(
        "--yard",
        "location",
        metavar="PATH|URL",
        envvar="RUNYARD_YARD",
        default=DEFAULT_YARD,
        show_default=True,
        show_envvar=True,
        expose_value=False,
        callback=_set_location,
        help="Where the record is kept.",
    )
    @click.option(
        "--json",
        "use_json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_json,
        help="JSON on stdout, everything else on stderr.",
    )
    @click.pass_context
    @functools.wraps(function)
    def call(context: click.Context, /, *args: Any, **params: Any) -> Any:
        return function(context.ensure_object(Session), *args, **params)

    return call  # type: ignore[return-value]


def examples(*lines: str) -> str:
    """The end of a command's help: lines to copy."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def style(text: str, **looks: Any) -> str:
    """Text with colours, where they are wanted; for `say` and `note`."""
    if os.environ.get("NO_COLOR"):
        return text
    return _MARK + click.style("", reset=False, **looks) + text + _MARK + click.style("")


def painted(text: str) -> str:
    """The text as a terminal gets it: of escape sequences only the colours that `style` gave it."""
    parts = _LOOKS.split(text)
    parts[::2] = map(plain, parts[::2])
    return "".join(parts)


def _color() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None


def is_missing(path: Path) -> bool:
    """Whether there is nothing at a path, as far as one may look."""
    try:
        return not path.exists()
    except OSError:
        return False


def _is_address(location: str) -> bool:
    return "://" in location or location == "memory:"


def _set_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001
    if value:
        context.ensure_object(Session).use_json()


def _set_location(context: click.Context, parameter: click.Parameter, value: str) -> None:  # noqa: ARG001
    check(value)
    context.ensure_object(Session).location = value
