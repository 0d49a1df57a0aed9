"""joblib's backend `runyard`: the same numbers as loky, and nothing lost with a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import sample_scores
from joblib import Parallel, delayed, parallel_backend, parallel_config
from sample_calls import Special, die_once, look, nested_backend, noted_square, raise_special
from sample_tasks import notes, wait_for

import runyard as ry


def test_results_come_in_order_and_short_calls_travel_together() -> None:
    with parallel_config("runyard", n_jobs=2):
        assert Parallel()(delayed(pow)(x, 2) for x in range(500)) == [x * x for x in range(500)]


def test_parallel_backend_and_the_backend_argument_work_too() -> None:
    with parallel_backend("runyard", n_jobs=2):
        assert Parallel()(delayed(abs)(-x) for x in range(5)) == [0, 1, 2, 3, 4]
    with Parallel(2, backend="runyard") as parallel:
        for _ in range(2):
            assert parallel(delayed(lambda x: x + 1)(x) for x in range(3)) == [1, 2, 3]


def test_results_can_be_had_as_they_come() -> None:
    with parallel_config("runyard", n_jobs=2):
        found = Parallel(return_as="generator")(delayed(abs)(-x) for x in range(20))
        assert list(found) == list(range(20))
        found = Parallel(return_as="generator_unordered")(delayed(abs)(-x) for x in range(20))
        assert sorted(found) == list(range(20))


def test_an_error_is_the_original_and_the_backend_goes_on(tmp_path: Path) -> None:
    never = delayed(wait_for)(str(tmp_path), "never")
    with Parallel(2, backend="runyard") as parallel:
        with pytest.raises(Special):
            parallel([never, delayed(raise_special)()])
        assert parallel(delayed(abs)(-x) for x in range(3)) == [0, 1, 2]


def test_a_killed_worker_is_not_noticed(tmp_path: Path) -> None:
    with parallel_config("runyard", n_jobs=2):
        found = Parallel()(delayed(die_once)(str(tmp_path), x % 3) for x in range(30))
    assert found == [x % 3 for x in range(30)]


def test_inside_a_task_parallel_uses_threads() -> None:
    with parallel_config("runyard", n_jobs=2):
        assert set(Parallel()(delayed(nested_backend)() for _ in range(3))) == {
            ("ThreadingBackend", 4)
        }


def test_libraries_in_workers_are_kept_from_too_many_threads() -> None:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    limits = delayed(lambda: [os.environ.get(name) for name in names])
    share = max(1, joblib.cpu_count() // 2)
    with parallel_config("runyard", n_jobs=2):
        assert Parallel()([limits(), limits()]) == [[str(share)] * 2] * 2
    with parallel_config("runyard", n_jobs=2, inner_max_num_threads=3):
        assert Parallel()([limits(), limits()]) == [["3", "3"]] * 2
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_large_array_is_sent_once_then_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    large, small = np.ones(300_000), np.ones(10)
    with parallel_config("runyard", n_jobs=2):
        found = Parallel(batch_size=1)(
            delayed(look)(array) for array in (large, large, large, small)
        )
        Parallel()(delayed(look)(np.ones(300_000)) for _ in range(4))
    assert found[0] == ("ndarray", True, 300_000.0)
    assert found[1:3] == [("memmap", False, 300_000.0)] * 2
    assert found[3] == ("ndarray", True, 10.0)
    assert list(tmp_path.glob("runyard-arrays-*")) == []
    with parallel_config("runyard", n_jobs=2, max_nbytes=None):
        assert Parallel()([delayed(look)(large)] * 2) == [("ndarray", True, 300_000.0)] * 2


def test_one_job_runs_here_and_now_unless_it_is_to_be_recorded(yard: ry.Yard) -> None:
    with parallel_config("runyard", n_jobs=1):
        assert Parallel()(delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2
    with parallel_config("runyard", n_jobs=1, name="alone", yard=yard):
        found = Parallel()(delayed(os.getpid)() for _ in range(2))
    assert os.getpid() not in found
    assert yard.results("alone").stats.completed == 2
    with pytest.raises(ValueError, match="n_jobs == 0"):
        Parallel(0, backend="runyard")(delayed(abs)(1) for _ in range(2))


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What scikit-learn finds; in a process of its own, since loky leaves a helper behind."""
    done = subprocess.run(
        [sys.executable, sample_scores.__file__], cwd=tmp_path_factory.mktemp("scores"),
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


def test_scikit_learn_gives_the_same_numbers_as_on_loky(scores: dict[str, Any]) -> None:
    assert scores["runyard"] == scores["loky"]
    assert len(set(scores["loky"]["grid"])) == 4
    assert len(scores["loky"]["cross"]) == 8


def test_a_worker_killed_in_mid_search_changes_no_score(scores: dict[str, Any]) -> None:
    assert scores["killed"] == scores["loky"]
    assert scores["deaths"] == 2


def test_a_named_search_is_not_done_twice(scores: dict[str, Any]) -> None:
    assert scores["named"] == scores["again"] == scores["loky"]
    assert scores["recorded"] == {"named": [20, 20], "again": [20, 20]}


def test_a_name_records_each_call_of_its_own(yard: ry.Yard, tmp_path: Path) -> None:
    for count in (30, 40):
        with parallel_config("runyard", n_jobs=2, name="calls", yard=yard):
            calls = (delayed(noted_square)(str(tmp_path), x) for x in range(count))
            assert Parallel()(calls) == [x * x for x in range(count)]
    assert sorted(map(int, notes(tmp_path))) == list(range(40))


def test_many_recorded_calls_do_not_call_each_other(yard: ry.Yard) -> None:
    for _ in range(2):
        with parallel_config("runyard", n_jobs=2, name="many", yard=yard):
            assert sum(Parallel()(delayed(abs)(-x) for x in range(1200))) == 719_400


@pytest.mark.parametrize("order", ["import runyard, joblib", "import joblib, runyard"])
def test_the_backend_is_known_whichever_is_imported_first(order: str, tmp_path: Path) -> None:
    code = f"""
import sys
import runyard
assert "joblib" not in sys.modules and "numpy" not in sys.modules
del sys.modules["runyard"]
{order}
assert not [f for f in sys.meta_path if type(f).__module__ == "runyard.adapters.hook"]
with joblib.parallel_config("runyard", n_jobs=2):
    print(joblib.Parallel()(joblib.delayed(abs)(-x) for x in range(3)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[0, 1, 2]\n", "")


def test_registering_by_hand_does_no_harm() -> None:
    ry.register_joblib()
    with parallel_config("runyard", n_jobs=2):
        assert Parallel()(delayed(abs)(-x) for x in range(3)) == [0, 1, 2]
