"""An adversary of engines that share a yard: signals to every process, growth, cancels, retries."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

from chaos_run import HERE, SOURCE, describe, family
from polling import eventually

from runyard import Yard
from runyard.errors import RunyardError

NAME = "nemesis"
CODES = {0, 1, 130, 143, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT}
"""How an engine may end here: done, some tasks failed, interrupted, killed."""


class Engine:
    """One command line that takes part, started again whenever it ends."""

    def __init__(self, field: Field, *words: str) -> None:
        self._field = field
        self._words = words
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = [word.format(replicates=self._field.replicates) for word in self._words]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runyard", *words, "--workers", "2", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            text=True,
            cwd=self._field.folder,
            env=self._field.environment,
            start_new_session=True,
        )

    def has_ended(self) -> bool:
        """Whether it ended, which it may do in some ways only."""
        if self.process is None or (code := self.process.poll()) is None:
            return False
        assert code in CODES, f"{self._words[0]} ended with {code}: {self.told()}"
        return True

    def told(self) -> str:
        self.output.seek(0)
        return self.output.read()[-4000:]


class Field:
    """A batch that grows, the engines that run it, and what is done to them."""

    def __init__(self, folder: Path, url: str, tasks: int, seed: int) -> None:
        self.folder = folder
        self.url = url
        self.tasks = tasks
        self.replicates = 1
        self.did: Counter[str] = Counter()
        self._mark = uuid.uuid4().hex
        self._dice = random.Random(seed)
        self._stopped: dict[int, float] = {}  # processes that are stopped, and until when
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{HERE}{os.pathsep}{SOURCE}",
            "RUNYARD_YARD": url,
            "RUNYARD_FILES": str(folder / "files"),
            "RUNYARD_LEASE": "3",
            "CHAOS_FAMILY": self._mark,
            "CHAOS_SIDE": str(folder / "executions"),
        }

    @property
    def batch(self) -> list[str]:
        """The words that describe the batch."""
        grid = f"x=0..{self.tasks - 1}"
        return ["run", "nemesis_tasks:hostile", "--grid", grid, "--seed", "3", "--name", NAME]

    def torment(self, seconds: float, replicates: int) -> None:
        """Disturb engines for this long, while the batch grows to these replicates."""
        run = Engine(self, *self.batch, "--replicates", "{replicates}")
        engines = [run, Engine(self, "resume", NAME), Engine(self, "worker", "--forever")]
        try:
            self._disturb(engines, seconds, replicates)
        finally:
            for engine in engines:
                engine.output.close()

    def _disturb(self, engines: list[Engine], seconds: float, replicates: int) -> None:
        run = engines[0]
        run.start()
        assert eventually(self._is_on_record, 60), run.told()
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < seconds:
            self.replicates = 1 + int(passed / seconds * replicates)
            for engine in engines:
                if engine.process is None or engine.has_ended():
                    engine.start()
            self._act()
            self._wake(time.monotonic())
            time.sleep(self._dice.uniform(0.0, 0.3))
        self.replicates = replicates
        self._end(engines)

    def _is_on_record(self) -> bool:
        with Yard(self.url) as yard:
            return any(result.name == NAME for result in yard.status())

    def _act(self) -> None:
        actions = {"kill": 6, "stop": 6, "term": 1, "interrupt": 2, "cancel": 4, "retry": 2}
        (action,) = self._dice.choices([*actions], [*actions.values()])
        try:
            getattr(self, f"_{action}")()
            self.did[action] += 1
        except (ProcessLookupError, RunyardError):
            self.did[f"{action} in vain"] += 1

    def _kill(self) -> None:
        os.kill(self._victim(), signal.SIGKILL)

    def _stop(self) -> None:
        pid = self._victim()
        os.kill(pid, signal.SIGSTOP)
        self._stopped[pid] = time.monotonic() + self._dice.choice([0.05, 0.5, 2.0, 8.0])

    def _term(self) -> None:
        os.kill(self._victim(), signal.SIGTERM)

    def _interrupt(self) -> None:
        os.kill(self._victim(), signal.SIGINT)

    def _cancel(self) -> None:
        with Yard(self.url) as yard:
            yard.cancel(NAME, self._dice.randrange(self.tasks * self.replicates))

    def _retry(self) -> None:
        with Yard(self.url) as yard:
            yard.retry(NAME, self._dice.choice(["failed", "cancelled"]))

    def _victim(self) -> int:
        running = sorted(family(self._mark))
        if not running:
            raise ProcessLookupError
        return self._dice.choice(running)

    def _wake(self, now: float) -> None:
        for pid in [pid for pid, until in self._stopped.items() if until <= now]:
            del self._stopped[pid]
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue

    def _end(self, engines: list[Engine]) -> None:
        self._wake(float("inf"))
        for engine in engines:
            if engine.process is not None and engine.process.poll() is None:
                engine.process.send_signal(signal.SIGINT)
        for engine in engines:
            if engine.process is not None:
                try:
                    engine.process.wait(30)
                except subprocess.TimeoutExpired:
                    raise AssertionError(f"an engine does not end: {engine.told()}") from None
                assert engine.has_ended()
                told = engine.told()
                assert "Traceback" not in told, told
                assert "damaged" not in told, told
        self.assert_nothing_runs()

    def assert_nothing_runs(self) -> None:
        gone = eventually(lambda: not family(self._mark), 10)
        assert gone, f"left behind: {[describe(pid) for pid in family(self._mark)]}"

    def finish(self) -> None:
        """Run what was cancelled, lost or failed again, until everything has its own outcome."""
        self.command(*self.batch, "--replicates", str(self.replicates))
        for status in ("cancelled", "failed"):
            self.command("retry", NAME, "--status", status)

    def command(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "runyard", *words, "--json"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=600,
            check=False,
        )
        assert done.returncode in (0, 1, 5), done.stderr + done.stdout

    def close(self) -> None:
        for pid in family(self._mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
