"""The stream that stands in for sys.stdout while lanes of this process run."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from runyard.attempt.output import StreamOutput, routed
from runyard.spec.outcome import Printed


def test_outside_a_lane_text_goes_where_it_always_went(capsys: pytest.CaptureFixture[str]) -> None:
    with routed():
        print("to everybody")
        print("to nobody", file=sys.stderr)
    assert capsys.readouterr() == ("to everybody\n", "to nobody\n")


def test_streams_are_put_back_when_the_last_run_ends() -> None:
    before = sys.stdout, sys.stderr
    with routed():
        with routed():
            assert sys.stdout is not before[0]
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before


def test_a_stand_in_answers_as_the_stream_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(raw, encoding="utf-8", errors="replace"))
    with routed():
        assert sys.stdout.isatty()
        assert sys.stdout.encoding == "utf-8"
        assert sys.stdout.errors == "replace"
        assert sys.stdout.writable()
        assert sys.stdout.buffer is raw


def test_lanes_in_threads_are_told_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("batch")
    barrier = threading.Barrier(4)
    kept: dict[int, Printed | None] = {}

    def lane(number: int) -> None:
        output = StreamOutput()
        for task in range(number, 20, 4):
            output.begin()
            barrier.wait()
            print(f"task {task}")
            print(f"error {task}", file=sys.stderr)
            kept[task] = output.end(folder, task, 0)

    with routed():
        threads = [threading.Thread(target=lane, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert kept == {
        n: Printed(n, 0, f"task {n}\n".encode(), f"error {n}\n".encode()) for n in range(20)
    }
    assert list(folder.iterdir()) == []
