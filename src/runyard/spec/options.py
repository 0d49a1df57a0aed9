"""The options of a batch, each declared once.

Everything else follows from a field's annotation: what `Options` and `@task` accept, batch files,
the flags of the command line, the reference, and what `verify` and dry runs leave out. To add an
option, add a field.
"""

from typing import Annotated, Any, Literal, Self, get_args

import msgspec

from runyard.errors import BadSpec
from runyard.spec import option_kinds as kinds
from runyard.spec.status import Priority

Keep = Literal["always", "failed", "never"]
Changed = Literal["keep", "rerun", "refuse"]


class OptionSpec(msgspec.Struct, frozen=True):
    """The declaration of an option."""

    kind: kinds.ValueKind
    help: str
    flags: tuple[str, ...] = ()  # on the command line; none: in batch files and Python only
    resume: bool = False  # whether `runyard resume` can change it, and "none" removes it
    verify: bool = True  # whether `runyard verify` keeps it; otherwise its default applies
    preview: str = ""  # what a dry run says about it, whose estimate does not allow for it
    places: bool = False  # whether only a backend that chooses machines can follow it
    name: str = ""
    default: Any = None

    def read(self, given: Any) -> Any:
        """The option's value from what people write."""
        if given is None and self.default is None:
            return None
        if self.resume and isinstance(given, str) and given == "none":
            return self.default
        try:
            return self.kind.read(given)
        except BadSpec as error:
            raise BadSpec(f"{self.name}: {error.message}", hint=error.hint) from None


def option(kind: kinds.ValueKind, help: str, *flags: str, **more: Any) -> OptionSpec:  # noqa: A002
    """A declaration; its name and default are those of the field."""
    return OptionSpec(kind, help, flags, **more)


SPECS: dict[str, OptionSpec] = {}
"""Every option by name, in the order of its declaration."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a batch is run: limits, retries, files. Not part of a batch's identity.

    Durations are seconds or text such as `30s`; sizes are bytes or text such as `512MB`.
    """

    # fmt: off
    retries: Annotated[int, option(
        kinds.integer(0), "Retry a failed task up to N times.", "--retries")] = 0
    backoff: Annotated[float, option(kinds.WAIT, "Wait this long before the first retry.")] = 0.1
    backoff_factor: Annotated[float, option(
        kinds.number(1), "Multiply the wait by this for each further retry.")] = 2.0
    backoff_max: Annotated[float, option(
        kinds.WAIT, "Never wait longer than this before a retry.")] = 60.0
    retry_on: Annotated[tuple[str, ...], option(
        kinds.ERROR_CLASSES, "Retry only these error classes; empty: all.")] = ()
    never_retry: Annotated[tuple[str, ...], option(
        kinds.ERROR_CLASSES, "Never retry these error classes.")] = ()
    crash_attempts: Annotated[int, option(
        kinds.integer(1), "Fail a task once its worker has died N times.")] = 3
    timeout: Annotated[float | None, option(
        kinds.DURATION, "Limit the time of each attempt: 30s, 5m, 2h.", "--timeout")] = None
    memory: Annotated[int | None, option(
        kinds.MEMORY, "Limit the memory of each attempt: 512MB, 2GiB.", "--memory")] = None
    deadline: Annotated[float | None, option(
        kinds.DURATION, "Stop the run after this time: 30s, 5m, 2h.", "--deadline", verify=False,
        preview="the run stops after {:g} s")] = None
    priority: Annotated[int, option(
        kinds.PRIORITY, "Run batches of higher priority first.",
        "--priority")] = int(Priority.MEDIUM)
    fail_fast: Annotated[bool, option(
        kinds.SWITCH, "Stop at the first failure.", "--fail-fast", verify=False,
        preview="the run stops at the first failure")] = False
    capture: Annotated[bool, option(
        kinds.SWITCH, "Keep what tasks print.", "--capture/--no-capture")] = True
    keep: Annotated[Keep, option(
        kinds.choice(*get_args(Keep)), "Keep workspaces: all, those of failed tasks, or none.",
        "--keep")] = "always"
    template: Annotated[str | None, option(
        kinds.text("DIR"), "Start each workspace as a copy of this folder.")] = None
    chdir: Annotated[bool, option(
        kinds.SWITCH, "Run each task inside its workspace (processes).", "--chdir",
        "--in-workspace")] = False
    audit_tasks: Annotated[bool, option(
        kinds.SWITCH, "Write a separate event log for each task.", verify=False)] = False
    recycle: Annotated[int | None, option(
        kinds.integer(1), "Replace each worker process after N tasks.")] = None
    budget: Annotated[dict[str, float], option(
        kinds.BUDGET, "Limit the whole batch: tasks=N, minutes=N (or seconds, hours), or the sum "
        "of a metric that tasks return; `none` removes the limits. Exit 75 when a budget is used "
        "up.",
        "--budget", resume=True, verify=False)] = {}
    metric: Annotated[str | None, option(
        kinds.text("M"), "Show the running mean of this metric.", "--metric", resume=True,
        verify=False)] = None
    until: Annotated[str | None, option(
        kinds.text("CONDITION"), "Add replicates until this holds, as in "
        "'ci95(mean(profit)) < 0.5'; `none` removes the condition.", "--until", resume=True,
        verify=False, preview="replicates are added until {}")] = None
    changed: Annotated[Changed, option(
        kinds.choice(*get_args(Changed)), "Keep outcomes made by code that has changed since, "
        "rerun their tasks, or refuse to run.", "--changed", resume=True, verify=False)] = "keep"
    cpus: Annotated[float | None, option(
        kinds.number(0), "Reserve N cores for each task (ray).", "--cpus", places=True)] = None
    gpus: Annotated[float | None, option(
        kinds.number(0), "Reserve N GPUs for each task (ray).", "--gpus", places=True)] = None
    resources: Annotated[dict[str, float], option(
        kinds.RESOURCES, "Reserve N units of a machine's resource for each task (ray).",
        "--resource", places=True)] = {}
    runtime_env: Annotated[dict[str, Any], option(
        kinds.DOCUMENT, "Prepare machines with this Ray runtime environment (ray).",
        "--runtime-env", places=True)] = {}
    # fmt: on

    def __post_init__(self) -> None:
        for name, spec in SPECS.items():
            given = getattr(self, name)
            if given is not spec.default:
                msgspec.structs.force_setattr(self, name, spec.read(given))

    @property
    def places(self) -> list[str]:
        """The options given that need a backend which chooses machines."""
        return [name for name in self.given() if SPECS[name].places]

    @property
    def metrics(self) -> list[str]:
        """The metrics that are added up while tasks run: those of budgets, and the one shown."""
        shown = [self.metric] if self.metric is not None else []
        return [*(name for name in self.budget if name not in kinds.UNITS), *shown]

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        found = {name: getattr(self, name) for name in SPECS}
        return {name: value for name, value in found.items() if value != SPECS[name].default}

    def with_(self, **changes: Any) -> Self:
        """A copy with changes, as people write them: `timeout="30s"`, `priority="high"`."""
        for name in changes:
            if name not in SPECS:
                raise kinds.unknown_option(name, SPECS)
        given = {name: value for name, value in changes.items() if value is not None}
        return msgspec.structs.replace(self, **given)

    def for_verify(self) -> Self:
        """A copy for rerunning some tasks, without the options that concern the whole batch."""
        defaults = {name: spec.default for name, spec in SPECS.items() if not spec.verify}
        return msgspec.structs.replace(self, **defaults)


def _declared() -> dict[str, OptionSpec]:
    """Each option with its name and default."""
    defaults = Options()  # unchecked, as SPECS is still empty
    return {
        name: msgspec.structs.replace(
            note.__metadata__[0], name=name, default=getattr(defaults, name)
        )
        for name, note in Options.__annotations__.items()
    }


SPECS.update(_declared())
