"""Where actors are placed, what is sent to nodes, and what an actor refuses. Without Ray."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.attempt.system_failure import SystemFailure
from runyard.attempt.wire import Report, StateChange, encode_report
from runyard.backends.channel import framed, take_messages
from runyard.backends.ray import messages, shared_files
from runyard.backends.ray.archives import pack_project, pack_tasks, unpack_project, unpack_tasks
from runyard.backends.ray.cluster import (
    ClusterNode,
    Requirements,
    capacity,
    closest_node,
    could_ever_fit,
    make_folder,
    nodes_for_actors,
    shortage,
)
from runyard.backends.ray.messages import Environment, ToEngine, Up, Update
from runyard.backends.ray.worker_actor import OneWorkerBackend
from runyard.errors import BackendError

OFFERS = st.dictionaries(
    st.sampled_from("abcd"),
    st.fixed_dictionaries({"CPU": st.integers(0, 16), "GPU": st.integers(0, 4)}),
)


def each_with(free: dict[str, dict[str, float]]) -> dict[str, ClusterNode]:
    """Unused nodes with these resources."""
    return {name: ClusterNode(offer, offer) for name, offer in free.items()}


@given(OFFERS, st.integers(0, 4), st.integers(0, 2), st.integers(0, 40))
def test_no_node_gets_more_actors_than_it_has_room_for(
    free: dict[str, dict[str, float]], cpus: int, gpus: int, most: int
) -> None:
    need = Requirements(cpus=cpus, gpus=gpus)
    nodes = nodes_for_actors(each_with(free), need, starting={}, most=most)
    assert len(nodes) <= most
    for node in set(nodes):
        assert nodes.count(node) <= capacity(free[node], need)
    if len(nodes) < most:  # then every node is full
        assert all(nodes.count(node) == capacity(offer, need) for node, offer in free.items())


@given(OFFERS, st.integers(0, 4))
def test_actors_that_are_starting_are_not_placed_twice(
    free: dict[str, dict[str, float]], started: int
) -> None:
    starting = dict.fromkeys(free, started)
    nodes = nodes_for_actors(each_with(free), Requirements(), starting=starting, most=100)
    assert all(nodes.count(n) == max(0, o["CPU"] - started) for n, o in free.items())


def test_fractions_of_a_core_fit_as_often_as_they_should() -> None:
    assert capacity({"CPU": 1.0}, Requirements(cpus=0.1)) == 10
    assert capacity({"CPU": 4.0}, Requirements(cpus=0)) == 4
    assert capacity({"CPU": 4.0}, Requirements(resources={"licence": 1.0})) == 0


def test_a_shortage_is_shown_as_text() -> None:
    need = Requirements(cpus=2, memory=4_000_000_000, resources={"licence": 1.0})
    state = {"n": ClusterNode({"CPU": 1.0, "memory": 8e9, "node:10.0.0.1": 1.0}, {})}
    assert not could_ever_fit(state, need)
    assert str(need) == "2 CPU, 4 GB memory, 1 licence"
    assert closest_node(state, need) == "the node that comes closest has 1 CPU, 8 GB memory"


def test_a_user_is_told_what_the_run_waits_for_until_a_worker_is_ready() -> None:
    need = Requirements(cpus=2, memory=4_000_000_000)
    full = {"n": ClusterNode({"CPU": 6.0, "memory": 8e9}, {"memory": 8e9})}

    def notice(ready: int, starting: int, wanted: int, *, is_explicit: bool) -> str | None:
        return shortage(
            full, need, ready=ready, starting=starting, wanted=wanted, is_explicit=is_explicit
        )

    free = "a task needs 2 CPU, 4 GB memory, and 0 of 6 CPU and 8 of 8 GB memory are free"
    assert notice(0, 0, 4, is_explicit=False) == f"waiting for room on the Ray cluster: {free}"
    # They were requested by a stale view and have not started: still a wait.
    assert notice(0, 3, 4, is_explicit=False) == f"waiting for Ray to start 3 workers: {free}"
    assert "room for 2 of 4 workers" in str(notice(1, 1, 4, is_explicit=True))
    assert notice(2, 0, 1024, is_explicit=False) is None


MESSAGES = st.builds(Up, st.integers(0, 9), st.integers(0, 2**63)) | st.builds(
    Update, st.integers(0, 9), st.binary()
)


@given(st.lists(MESSAGES), st.integers(1, 30))
def test_messages_are_found_however_the_stream_is_cut(sent: list[ToEngine], step: int) -> None:
    data, buffer, found = b"".join(framed(messages.encode(each)) for each in sent), bytearray(), []
    for start in range(0, len(data), step):
        buffer += data[start : start + step]
        found += take_messages(buffer, messages.decode_to_engine)
    assert found == sent
    assert not buffer


def test_a_project_is_sent_without_what_is_excluded(tmp_path: Path) -> None:
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


def test_task_folders_come_back_except_that_of_the_running_task(tmp_path: Path) -> None:
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
    assert not (there / "tasks/1/0/out").exists()  # a link out of its folder


@pytest.mark.parametrize(
    ("change", "words"),
    [({"version": "0.0.0"}, "Runyard is"), ({"python": "3.9"}, "Python is"), ({}, "")],
)
def test_another_version_on_a_node_is_reported(change: dict[str, str], words: str) -> None:
    same = {"version": shared_files.runyard_version(), "python": shared_files.python_version()}
    environment = Environment(
        project="/p", inode=None, token_file="", token="", variables={}, fresh=False,
        **(same | change),
    )  # fmt: skip
    found = shared_files.version_mismatch(environment)
    assert words in (found.message if found else "")
    assert (found is None) == (words == "")


def test_a_report_passes_an_actor_as_its_worker_sent_it() -> None:
    change, failure = StateChange(3, "the umask", True), SystemFailure("no room", is_full=True)
    report = Report(1, 2, 3, [4, b"row"], [], [], [], 0.5, True, change, failure)
    read = OneWorkerBackend.decode(memoryview(encode_report(report)))
    update = messages.encode(messages.ActorUpdate(reports=[read]))
    assert messages.decode_actor_update(update).reports == [report]


@pytest.mark.parametrize("length", [8, 60])
def test_rays_sockets_fit_below_its_folder_wherever_temporary_files_are(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t" * (length - 8)) as usual:
        monkeypatch.setattr(tempfile, "tempdir", usual)
        folder = Path(make_folder())
        folder.rmdir()
    assert folder.parent == Path(usual if length == 8 else "/tmp")
    session = "r/session_2026-01-01_00-00-00_123456_1234567"
    assert len(str(folder / session / "sockets/plasma_store")) <= 103
