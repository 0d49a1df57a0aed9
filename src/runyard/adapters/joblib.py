"""joblib's backend `runyard`: calls survive dead workers and, with a name, a dead script.

    with joblib.parallel_config("runyard", n_jobs=4, name="search"):
        GridSearchCV(…).fit(X, y)

Each call of `Parallel` opens an executor; its workers stay warm for the next one. Inside a task,
`Parallel` uses threads, and inside those it runs sequentially, as with joblib's own processes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase, SequentialBackend
from joblib.parallel import FallbackToBackend

from runyard.adapters.executor import Executor
from runyard.adapters.memmap import Memmaps
from runyard.attempt.context import inside
from runyard.backends.base import usable_cores
from runyard.yard import Yard


class RunyardBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Runs joblib's batches of calls as tasks.

    Takes `name`, `yard`, `retries`, `timeout`, `memory` and `seed` as `Executor` does. With a name,
    calls are recorded one by one, and recorded calls are not repeated.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        *,
        name: str | None = None,
        yard: Yard | str | Path | None = None,
        retries: int = 0,
        timeout: str | float | None = None,
        memory: str | int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._name = name
        self._options: dict[str, Any] = {
            "yard": yard, "retries": retries, "timeout": timeout, "memory": memory, "seed": seed
        }  # fmt: skip
        self._executor: Executor | None = None
        self._memmaps: Memmaps | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many tasks joblib may run at once."""
        workers = self._workers(n_jobs)
        if self._name is None or inside():
            return workers
        return max(2, workers)  # with one, joblib would run them itself, and record none

    def _workers(self, n_jobs: int | None) -> int:
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or inside():  # a task is one of many already
            return 1
        return n_jobs if n_jobs > 0 else max(usable_cores() + 1 + n_jobs, 1)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        *,
        max_nbytes: int | str | None = None,
        mmap_mode: str | None = "r",
        **_: Any,
    ) -> int:
        """Open an executor for a call of `Parallel`; returns the number of its workers."""
        workers, effective = self._workers(n_jobs), self.effective_n_jobs(n_jobs)
        if effective == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._memmaps = Memmaps(max_nbytes, mmap_mode)
        self._executor = Executor(
            workers, name=self._name, reduce=self._memmaps.reduce,
            environment=self._prepare_worker_env(workers), **self._options,
        )  # fmt: skip
        return effective

    def submit(
        self, func: Any, callback: Callable[[Future[Any]], None] | None = None
    ) -> Future[Any]:
        """Submit a batch of calls."""
        assert self._executor is not None
        future = self._executor.submit_calls(func, func.items)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """What a batch of calls returned; raises what one of them raised."""
        return out.result()

    def compute_batch_size(self) -> int:
        """joblib's choice; with a name always 1, so that each call is recognised later."""
        return 1 if self._name is not None else int(super().compute_batch_size())

    def terminate(self) -> None:
        """Close the executor; its workers stay warm."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()
        if self._memmaps is not None:
            self._memmaps.close()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """End all running calls."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.kill_workers()
        if ensure_ready:
            self.configure(
                self.parallel.n_jobs, self.parallel, **getattr(self.parallel, "_backend_kwargs", {})
            )
