"""How many stations go where, what travels, and what a station refuses. Without Ray."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.attempt.trouble import Trouble
from runyard.attempt.wire import Change, Report, encode_report
from runyard.backends.ray import frames, sight
from runyard.backends.ray.cluster import (
    Need,
    View,
    could_ever_hold,
    holds,
    largest,
    seats_to_add,
    shortage,
)
from runyard.backends.ray.frames import Frame, Surroundings, take_frames
from runyard.backends.ray.station import OneLane
from runyard.backends.ray.travel import pack_project, pack_tasks, unpack_project, unpack_tasks
from runyard.errors import BackendError

OFFERS = st.dictionaries(
    st.sampled_from("abcd"),
    st.fixed_dictionaries({"CPU": st.integers(0, 16), "GPU": st.integers(0, 4)}),
)


@given(OFFERS, st.integers(0, 4), st.integers(0, 2), st.integers(0, 40))
def test_no_node_gets_more_stations_than_it_holds(
    free: dict[str, dict[str, float]], cpus: int, gpus: int, most: int
) -> None:
    need = Need(cpus=cpus, gpus=gpus)
    nodes = seats_to_add(View(free, free), need, starting={}, most=most)
    assert len(nodes) <= most
    for node in set(nodes):
        assert nodes.count(node) <= holds(free[node], need)
    if len(nodes) < most:  # then every node is full
        assert all(nodes.count(node) == holds(offer, need) for node, offer in free.items())


@given(OFFERS, st.integers(0, 4))
def test_what_starts_is_not_seated_twice(free: dict[str, dict[str, float]], started: int) -> None:
    starting = dict.fromkeys(free, started)
    nodes = seats_to_add(View(free, free), Need(), starting=starting, most=100)
    assert all(nodes.count(n) == max(0, o["CPU"] - started) for n, o in free.items())


def test_fractions_of_a_core_fit_as_often_as_they_should() -> None:
    assert holds({"CPU": 1.0}, Need(cpus=0.1)) == 10
    assert holds({"CPU": 4.0}, Need(cpus=0)) == 4
    assert holds({"CPU": 4.0}, Need(resources={"licence": 1.0})) == 0


def test_what_is_short_is_said_in_words() -> None:
    need = Need(cpus=2, memory=4_000_000_000, resources={"licence": 1.0})
    view = View({"n": {"CPU": 1.0, "memory": 8e9, "node:10.0.0.1": 1.0}})
    assert not could_ever_hold(view, need)
    assert str(need) == "2 CPU, 4 GB memory, 1 licence"
    assert largest(view, need) == "the node that comes closest has 1 CPU, 8 GB memory"


def test_a_user_hears_what_is_waited_for_until_a_worker_is_ready() -> None:
    need = Need(cpus=2, memory=4_000_000_000)
    full = View({"n": {"CPU": 6.0, "memory": 8e9}}, {"n": {"memory": 8e9}})

    def said(ready: int, starting: int, wanted: int, *, asked: bool) -> str | None:
        return shortage(full, need, ready=ready, starting=starting, wanted=wanted, asked=asked)

    free = "a task needs 2 CPU, 4 GB memory, and 0 of 6 CPU and 8 of 8 GB memory are free"
    assert said(0, 0, 4, asked=False) == f"waiting for room on the Ray cluster: {free}"
    # Asked for on the strength of a stale view, and not started: still a wait.
    assert said(0, 3, 4, asked=False) == f"waiting for Ray to start 3 workers: {free}"
    assert "room for 2 of 4 workers" in str(said(1, 1, 4, asked=True))
    assert said(2, 0, 1024, asked=False) is None


FRAMES = st.builds(
    Frame, st.sampled_from([b"C", b"N"]), st.integers(0, 9), st.integers(0, 2**63), st.binary()
)


@given(st.lists(FRAMES), st.integers(1, 30))
def test_frames_survive_any_cut(sent: list[Frame], step: int) -> None:
    data, buffer, found = b"".join(frame.encode() for frame in sent), bytearray(), []
    for start in range(0, len(data), step):
        buffer += data[start : start + step]
        found += take_frames(buffer)
    assert found == sent
    assert not buffer


def test_a_project_travels_without_what_is_left_out(tmp_path: Path) -> None:
    project, there = tmp_path / "project", tmp_path / "there"
    for name in ("a.py", "pkg/b.py", ".git/x", ".venv/x", ".runyard/x", "data/big", "pkg/data/x"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name)
    unpack_project(pack_project(project, ["data/*"]), there)
    files = {p.relative_to(there).as_posix() for p in there.rglob("*") if p.is_file()}
    assert files == {"a.py", "pkg/b.py", "pkg/data/x"}
    with pytest.raises(BackendError, match="too much to send") as caught:
        pack_project(project, [], limit=10)
    assert "excludes" in str(caught.value)


def test_folders_of_tasks_come_back_but_for_the_one_that_runs(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for task in (1, 2):
        folder = here / "tasks" / str(task) / "0"
        folder.mkdir(parents=True)
        (folder / "stdout").write_text(f"{task}")
    (here / "tasks/1/0/out").symlink_to("/etc/passwd")
    archive, too_large = pack_tasks(here, lambda: (2, 0))
    assert (here / "tasks/2/0/stdout").exists()
    assert not (here / "tasks/1").exists()
    assert too_large == []
    unpack_tasks(archive, there)
    assert (there / "tasks/1/0/stdout").read_text() == "1"
    assert not (there / "tasks/1/0/out").exists()  # a link that leads out of its folder


@pytest.mark.parametrize(
    ("change", "words"),
    [({"version": "0.0.0"}, "Runyard is"), ({"python": "3.9"}, "Python is"), ({}, "")],
)
def test_another_version_on_a_node_is_named(change: dict[str, str], words: str) -> None:
    same = {"version": sight.runyard_version(), "python": sight.python_version()}
    around = Surroundings(
        project="/p", mark=None, token_file="", token="", environment=None, fresh=False,
        **(same | change),
    )  # fmt: skip
    found = sight.mismatch(around)
    assert words in (found.error if found else "")
    assert (found is None) == (words == "")


def test_a_report_passes_a_station_as_its_worker_sent_it() -> None:
    change, trouble = Change(3, "the umask", True), Trouble("no room", is_full=True)
    report = Report(1, 2, 3, [4, b"row"], [], [], [], 0.5, True, change, trouble)
    read = OneLane.decode(memoryview(encode_report(report)))
    said = frames.Tidings(1, [frames.Reported(read)], frames.Running(0, 1, 2, 0.5), 0, None)
    item = frames.decode_tidings(frames.encode(said)).items[0]
    assert item == frames.Reported(report)
