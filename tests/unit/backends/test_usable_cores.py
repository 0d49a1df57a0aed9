from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.backends import NAMES, backend_class, open_backend
from runyard.backends import base as backends_base
from runyard.backends.base import _cgroup_cores, usable_cores
from runyard.errors import UsageError


@pytest.mark.parametrize(
    ("content", "cores"),
    [
        ("max 100000", None), ("100000 100000", 1), ("150000 100000", 2), ("50000 100000", 1),
        ("400000 100000", 4), ("nonsense", None), ("", None), ("x y", None),
    ],
)  # fmt: skip
def test_the_quota_of_a_cgroup_is_read(tmp_path: Path, content: str, cores: int | None) -> None:
    (tmp_path / "cpu.max").write_text(content)
    assert _cgroup_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", None), ("250000", 3), ("x", None)])
def test_the_quota_of_an_old_cgroup_is_read(tmp_path: Path, quota: str, cores: int | None) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text(quota + "\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert _cgroup_cores(tmp_path) == cores


def test_without_a_cgroup_there_is_no_quota(tmp_path: Path) -> None:
    assert _cgroup_cores(tmp_path) is None


def test_affinity_and_quota_both_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for quota, cores in ((None, 8), (3, 3), (64, 8)):
        monkeypatch.setattr(backends_base, "_cgroup_cores", lambda quota=quota: quota)
        assert usable_cores() == cores
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert usable_cores() == 1


def test_where_affinity_is_unknown_the_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(backends_base, "_cgroup_cores", lambda: None)
    assert usable_cores() == 6


@pytest.mark.parametrize("name", NAMES)
def test_each_backend_declares_what_it_can_do_and_chooses_its_workers(name: str) -> None:
    kind = backend_class(name)
    assert kind.name == name
    assert all(type(answer) is bool for answer in kind.capabilities)
    assert kind.default_workers() >= 1


def test_only_processes_contain_a_crash() -> None:
    able = {name for name in NAMES if backend_class(name).capabilities.survives_crash}
    assert able == {"processes", "ray"}


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_a_number_of_workers_that_makes_no_sense_is_refused(workers: int) -> None:
    with pytest.raises(UsageError, match="workers"):
        open_backend("serial", workers)


def test_too_many_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="too many workers"):
        open_backend("serial", 10**19)


def test_an_unknown_backend_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(UsageError, match="unknown backend 'cloud'") as caught:
        open_backend("cloud")
    assert all(name in str(caught.value) for name in NAMES)
    with pytest.raises(UsageError, match="'proceses'; did you mean 'processes'"):
        open_backend("proceses")
