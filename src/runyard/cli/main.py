"""The program: finds the command, calls it, and turns every error into words and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Any

import click

from runyard import __version__, interrupts
from runyard.addresses import masked, scrubbed
from runyard.cli.lazy import LazyGroup
from runyard.cli.session import Session, style
from runyard.errors import CodeChangedWarning, RunyardError

SECTIONS = {
    "Run": {
        "run": ("run:run", "Run a batch, or go on with it."),
        "resume": ("resume:resume", "Go on with what is not finished."),
        "retry": ("resume:retry", "Run the failed tasks of a batch again."),
        "worker": ("worker:worker", "Take work from a yard that others fill."),
        "stop": ("control:stop", "Let running engines finish their tasks and stop."),
        "cancel": ("control:cancel", "Cancel a batch or a task, running or not."),
    },
    "Look": {
        "status": ("status:status", "Counts, progress, rate, time left, workers."),
        "results": ("results:results", "What came out; failures by error and line."),
        "compare": ("compare:compare", "Which is better, by how much, and how sure is that."),
        "logs": ("logs:logs", "What a task printed, and what happened to it."),
        "export": ("export:export", "Write the outcomes to a file."),
        "report": ("report:report", "One self-contained HTML file about a batch."),
    },
    "Check": {
        "repro": ("repro:repro", "Run one task again, here, and compare."),
        "verify": ("verify:verify", "Run a sample again elsewhere, and compare."),
        "doctor": ("upkeep:doctor", "Check the store and the logs; repair a torn tail."),
    },
    "Tidy": {
        "clear": ("control:clear", "Forget a batch: its record and its files."),
        "gc": ("upkeep:gc", "Remove old workspaces and what dead engines left; compact the store."),
    },
    "Doors": {
        "letitride": ("letitride:letitride", "Let It Ride: sessions simulated, answers exact."),
        "malice": ("malice:malice", "A vote that one of seven users wants to win at any cost."),
        "queue": ("queue:queue", "A queue for agents; a worker runs it in the background."),
        "mcp": ("mcp:mcp", "Let an agent use the queue: an MCP server (stdio)."),
    },
}
"""Where each command lives, and its line in the help: enough to show that without loading any."""

EXIT_CODES = """\b
Exit codes:
  0 ok               4 gate failed           124 deadline
  1 tasks failed     5 nothing found         130 interrupted
  2 usage            75 budget reached       143 terminated
  3 engine error"""


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    package=__package__,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="runyard", message="%(prog)s %(version)s")
def cli() -> None:
    """Run thousands of isolated, reproducible tasks in parallel, and lose none of them.

    \b
      runyard run walks.py:walk --grid dimension=1,2,3 --replicates 1000
      runyard results walk-1f2e3d4c
    """


def main(args: list[str] | None = None) -> int:
    """Run the command line; its exit code."""
    words = sys.argv[1:] if args is None else args
    is_program = args is None
    session = Session(is_program=is_program)
    if "--json" in words:
        session.use_json()
    interrupts.forget_end()
    heard = [n for n in interrupts.SIGNALS if signal.getsignal(n) != signal.SIG_IGN]
    before = interrupts.handle(interrupts.raise_once, heard)
    try:
        return _call(session, words)
    except BrokenPipeError:
        return _broken_pipe(session)
    finally:
        interrupts.note_end()
        session.close()
        # Python itself is still to end, and a signal could only spoil that.
        interrupts.restore(dict.fromkeys(before, signal.SIG_IGN) if is_program else before)


def _call(session: Session, words: list[str]) -> int:
    # Not click's own `main`, which has an end of its own for some errors.
    try:
        with (
            warnings.catch_warnings(action="ignore", category=CodeChangedWarning),
            cli.make_context("runyard", list(words), obj=session) as context,
        ):  # which a notice tells here
            code = cli.invoke(context)
        session.flush()
        interrupts.note_end()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, click.Abort):
        session.note("\ninterrupted")
        return 128 + signal.SIGINT
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BrokenPipeError:
        raise
    except Exception as error:
        return _explain(session, error)


def _explain(session: Session, error: Exception) -> int:
    """The one place where an error becomes words and an exit code."""
    if os.environ.get("RUNYARD_DEBUG"):
        import traceback

        trace = "".join(traceback.format_exception(error)).rstrip()
        session.note(scrubbed(trace, session.location))
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        session.note(error.format_message())
        return error.exit_code
    told: dict[str, Any] = {"class": type(error).__name__}
    if isinstance(error, RunyardError):
        told |= {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    elif isinstance(error, click.ClickException):
        told |= {"message": error.format_message(), "hint": _usage(error), "exit_code": 2}
    else:
        message = f"unexpected {type(error).__name__}: {error}"
        hint = "this should not happen; RUNYARD_DEBUG=1 shows where it did"
        told |= {"message": message, "hint": hint, "exit_code": 3}
    told |= {key: masked(told[key]) for key in ("message", "hint") if told[key]}
    session.note(f"{style('error:', fg='red', bold=True)} {told['message']}")
    if told["hint"]:
        session.note("\n".join(f"  {line}" for line in told["hint"].splitlines()))
    session.document({"error": told})
    return int(told["exit_code"])


def _usage(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    return f"{context.get_usage()}\ntry: {context.command_path} --help"


def _broken_pipe(session: Session) -> int:
    """Whoever read our output has gone: end without a word."""
    session.abandon()
    return 128 + signal.SIGPIPE
