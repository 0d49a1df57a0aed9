"""The test bench: what a user calls."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard.backends import runs_in_engine
from runyard.backends.base import Backend
from runyard.doors.workbench.bench.result import BenchResult
from runyard.doors.workbench.describe.settings import CellSettings
from runyard.errors import BadSpec
from runyard.events import Event, EventBus, Notice
from runyard.execution import OnEvent
from runyard.reports.progress import ShowProgress
from runyard.spaces import remove_tree
from runyard.spec.names import closest
from runyard.spec.options import SPECS
from runyard.yard import Yard

if TYPE_CHECKING:
    from runyard.doors.workbench.bench.cell import Cell, Checkpoint
    from runyard.doors.workbench.bench.describing import Bench
    from runyard.doors.workbench.bench.forking import ForkStart
    from runyard.doors.workbench.describe.calls import Calls, Mode

_SOFT_LIMIT = (
    "the time limit can't end a synchronous node here: it goes on in its thread; "
    "processes and ray end it"
)


class Workbench:
    """Runs variants of LangGraph graphs on test cases; every cell is recorded and resumable.

    `backend` is where batches run: by default Ray where it is installed, otherwise serial.
    """

    def __init__(
        self,
        backend: str | Backend | None = None,
        *,
        workers: int | None = None,
        yard: Yard | str | Path | None = None,
    ) -> None:
        self.backend = backend
        self.workers = workers
        self.yard = yard if isinstance(yard, Yard) else Yard(yard)
        self._implementations: dict[str, dict[str, Any]] = {}

    @property
    def bus(self) -> EventBus:
        """The events of everything that this bench runs. Handlers may publish."""
        return self.yard.bus

    def variant(self, node: str, name: str, implementation: Any = None) -> Any:
        """Register an implementation of a node, directly or as a decorator.

        It is a function, a Runnable, or the name of one: `module:attribute`.
        """
        if implementation is None:
            return lambda function: self.variant(node, name, function)
        self._implementations.setdefault(node, {})[name] = implementation
        return implementation

    def run(
        self,
        graph: Any,
        initial_state: Any,
        *,
        variant: Any = None,
        answers: Any = (),
        timeout: str | float | None = None,
        store: Any = None,
        seed: int | None = None,
        yard: Yard | str | Path | None = None,
        llm: Mode | None = None,
        tape: str | Path | None = None,
        **more: Any,
    ) -> Cell:
        """Run a graph once, in this process and thread; `llm` and `tape` as in `run_batch`."""
        from runyard.doors.workbench.describe.calls import read_calls
        from runyard.doors.workbench.describe.cases import Case

        settings, options = _split(more)
        case = Case(initial_state, answers=answers)
        variants = None if variant is None else [variant]
        bench = self._describe(graph, variants, [case], settings, store)
        bench = bench.calling(read_calls(llm, tape))
        return self._run_one(bench, seed=seed, yard=yard, timeout=timeout, **options)

    def run_batch(
        self,
        graph: Any,
        variants: Any = None,
        test_cases: Any = None,
        *,
        repetitions: int = 1,
        evaluators: Any = None,
        backend: str | Backend | None = None,
        workers: int | None = None,
        timeout: str | float | None = None,
        yard: Yard | str | Path | None = None,
        seed: int | None = None,
        name: str | None = None,
        store: Any = None,
        files: str | Path | None = None,
        progress: ShowProgress = None,
        on_event: OnEvent | None = None,
        fresh: bool = False,
        share_prefix: Any = False,
        checkpoints: Any = "tape",
        llm: Mode | None = None,
        tape: str | Path | None = None,
        **more: Any,
    ) -> BenchResult:
        """Run every variant on every case, or continue where that stopped.

        `files` is a folder of which each cell gets a copy as its workspace; in processes of its own
        a cell runs inside it. `store` makes the store of each cell. With `llm="record"` the calls
        of language models are recorded on the file `tape`, with "replay" answered from it, and with
        "live" only counted. `more` are settings (`strict`, `breakpoints`, `cache`,
        `recursion_limit`), and options of the engine: retries, priority, memory, keep, …
        """
        from runyard.doors.workbench.describe.calls import read_calls
        from runyard.doors.workbench.evaluate.evaluators import read_evaluators

        readers = read_evaluators(evaluators)
        settings, options = _split(
            more | {"share_prefix": share_prefix, "checkpoints": checkpoints}
        )
        bench = self._describe(graph, variants, test_cases, settings, store)
        bench = bench.calling(read_calls(llm, tape))
        place, chosen = self._place(yard), self._backend(backend)
        listener = self._listener(place, on_event)
        if timeout is not None and _is_local(chosen):
            self._notice(_SOFT_LIMIT)
        if files is not None:
            options |= {"template": str(files), "chdir": not _is_local(chosen)}
        batch = bench.to_batch(repetitions, seed=seed, name=name, local=_is_local(chosen))
        result = place.run(
            batch, backend=chosen, workers=workers or self.workers, progress=progress,
            on_event=listener, fresh=fresh, timeout=timeout,
            fallback=None if backend or self.backend else "serial", **options,
        )  # fmt: skip
        found = self._result(bench, place, result)
        self._finish_tape(found, bench.program.calls)
        if readers:
            found.scorebook.keep_only([each.name for each in readers])
            self._publish(found.evaluate(readers))
        return found

    def labels(
        self, graph: Any, variants: Any = None, test_cases: Any = None, **more: Any
    ) -> tuple[list[str], list[str]]:
        """The names that variants and cases will have; refuses what `run_batch` would refuse."""
        settings, _ = _split(more)
        found = self._describe(graph, variants, test_cases, settings, None)
        return [each.label for each in found.variants], [str(each.id) for each in found.cases]

    def rescore(self, result: BenchResult | str, evaluators: Any) -> BenchResult:
        """Compute scores again, or further ones, without running a graph; judges are asked again.

        `result` is a bench or the name of a recorded one; scores of other evaluators stay.
        """
        from runyard.doors.workbench.bench.recorded import recorded_bench
        from runyard.doors.workbench.evaluate.evaluators import read_evaluators

        readers = read_evaluators(evaluators)
        again = recorded_bench(self.yard, result) if isinstance(result, str) else result.fresh()
        self._publish(again.evaluate(readers, again=True))
        return again

    def cell(self, name: str) -> Cell:
        """A recorded cell by its id, `batch/task`.

        It can be forked if its graph is found by name; otherwise call `run_batch` again, which runs
        nothing twice, and take the cell from its result.
        """
        from runyard.doors.workbench.bench.recorded import recorded_cell

        return recorded_cell(self.yard, name)

    # Time travel

    def fork(
        self,
        result: Cell,
        checkpoint: Checkpoint | str | int,
        *,
        variant: Any = None,
        state: Mapping[str, Any] | None = None,
        answers: Any = (),
        timeout: str | float | None = None,
        **more: Any,
    ) -> Cell:
        """Run a cell again from one of its checkpoints, in a thread of its own.

        Nothing that came before runs again, and the cell stays as it is. `variant` changes the
        nodes that run from here on; `state` sets values of the state at the checkpoint.
        """
        from runyard.doors.workbench.bench.forking import begin_at, nodes_changed

        changed = nodes_changed(result, variant)
        start = begin_at(result, checkpoint, "go on", self.bus, state=state, changed=changed)
        return self._travel(result, start, variant, answers, timeout, more)

    def rollback(self, result: Cell, checkpoint: Checkpoint | str | int) -> Cell:
        """A cell that stands at a checkpoint of another one; `resume` or `fork` go on from it."""
        from runyard.doors.workbench.bench.forking import begin_at

        return self._travel(result, begin_at(result, checkpoint, "stay", self.bus))

    def resume(self, result: Cell, answer: Any = None, *, timeout: Any = None, **more: Any) -> Cell:
        """Answer what an interrupted cell asks for, and run it on in a thread of its own.

        If it asks for several answers at once, pass a list of them.
        """
        from runyard.doors.workbench.bench.forking import where_it_paused

        asked = len(result.interrupts)
        answers = list(answer) if asked > 1 and isinstance(answer, list | tuple) else [answer]
        return self._travel(result, where_it_paused(result), None, answers, timeout, more)

    def _travel(
        self,
        source: Cell,
        start: ForkStart,
        variant: Any = None,
        answers: Any = (),
        timeout: Any = None,
        more: Mapping[str, Any] | None = None,
    ) -> Cell:
        from runyard.doors.workbench.bench.forking import describe_fork
        from runyard.doors.workbench.describe.calls import read_calls

        settings, options = _split(more or {}, source.source.program.settings)
        calls = read_calls(options.pop("llm", None), options.pop("tape", None))
        bench = describe_fork(source, start, variant, answers, settings, self._implementations)
        return self._run_one(bench.calling(calls), timeout=timeout, **options)

    # Inside

    def _describe(
        self, graph: Any, variants: Any, cases: Any, settings: CellSettings, store: Any
    ) -> Bench:
        from runyard.doors.workbench.bench.describing import describe
        from runyard.doors.workbench.graph.carrying import let_graphs_travel

        let_graphs_travel()
        return describe(graph, variants, cases, settings, self._implementations, store)

    def _run_one(
        self, bench: Bench, *, seed: int | None = None, yard: Any = None, **options: Any
    ) -> Cell:
        """Run the only cell of a bench under a name of its own: it is never taken for another."""
        place = self._place(yard)
        name = f"{bench.label[:40]}-{secrets.token_hex(4)}"
        batch = bench.to_batch(1, seed=seed, name=name, local=True)
        given = {"progress": False, **options}
        listener = self._listener(place, given.pop("on_event", None))
        result = place.run(batch, backend="serial", on_event=listener, **given)
        found = self._result(bench, place, result)
        self._finish_tape(found, bench.program.calls)
        return found[0]

    def _finish_tape(self, found: BenchResult, calls: Calls | None) -> None:
        """Sort a tape that was recorded; say which cells it lacks, as they had run before."""
        if calls is None or calls.mode != "record" or calls.tape is None:
            return
        from runyard.llm.tapefile import cells, tidy

        tidy(calls.tape)
        known = set(cells(Path(calls.tape)))
        done = (cell.on_tape for cell in found if cell.status == "completed")
        missing = [name for name in done if name not in known]
        if missing:
            self._notice(
                f"{len(missing)} cells had been run before and are not on the tape {calls.tape}, "
                f"such as {missing[0]}: to record them, run them with fresh=True or --fresh"
            )

    def _place(self, yard: Yard | str | Path | None) -> Yard:
        if yard is None:
            return self.yard
        return yard if isinstance(yard, Yard) else Yard(yard)

    def _backend(self, given: str | Backend | None) -> str | Backend:
        chosen = given or self.backend
        if chosen is not None:
            return chosen
        if find_spec("ray") is not None:
            return "ray"
        self._notice(
            "Ray is not installed: cells run one after another (pip install 'runyard[ray]')"
        )
        return "serial"

    def _publish(self, events: Iterable[Event]) -> None:
        for event in events:
            self.bus.publish(event)

    def _notice(self, text: str) -> None:
        self.bus.publish(Notice(batch="", text=text, level="warning"))

    def _listener(self, place: Yard, on_event: OnEvent | None) -> OnEvent | None:
        """What hears the events of another yard: this bench's bus, and the caller."""
        if place is self.yard:
            return on_event
        if on_event is None:
            return self.bus.publish

        def both(event: Any) -> None:
            self.bus.publish(event)
            on_event(event)

        return both

    def _result(self, bench: Bench, place: Yard, result: Any) -> BenchResult:
        from runyard.doors.workbench.run.prefix import FOLDER as PREFIXES
        from runyard.doors.workbench.tape.file import close_files
        from runyard.doors.workbench.tape.records import close as close_records

        folder = place.batch_folder(result.name)
        close_files(folder)
        close_records(folder)
        if not result.stats.queued:
            remove_tree(folder / PREFIXES)
        return BenchResult(
            result, bench.program, [each.label for each in bench.variants],
            [str(each.id) for each in bench.cases],
        )  # fmt: skip


def _split(
    given: Mapping[str, Any], usual: CellSettings | None = None
) -> tuple[CellSettings, dict[str, Any]]:
    """CellSettings of cells, and options of the engine."""
    names = CellSettings.__struct_fields__
    before = {} if usual is None else usual.to_data()
    for name in given:
        _refuse_misspelt(name, names)
    own = {name: given[name] for name in names if name in given}
    settings = CellSettings(**{**before, **own})
    return settings, {name: value for name, value in given.items() if name not in names}


def _refuse_misspelt(name: str, settings: Iterable[str]) -> None:
    """Refuse what was meant for the bench; the engine refuses its own options."""
    ours = {*settings, *signature(Workbench.run_batch).parameters}
    engine = {*SPECS, *signature(Yard.run).parameters}
    meant = closest(name, ours | engine)
    if meant != name and meant in ours - engine:
        raise BadSpec(f"there is no option {name!r}; did you mean {meant!r}?")


def _is_local(backend: str | Backend) -> bool:
    if isinstance(backend, str):
        return runs_in_engine(backend)
    return not backend.capabilities.survives_crash
