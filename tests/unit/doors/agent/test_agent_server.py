"""What of an answer's data goes into one reply of the MCP server."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")

from runyard.doors.agent.server.tools import short


def test_data_that_fits_stays_as_it_is() -> None:
    data = {"state": "running", "next_tasks": [{"task_id": "queue/0"}], "left_out": {}}
    assert short(data) == data


def test_lists_that_are_cut_say_how_many_entries_are_missing() -> None:
    tasks = [{"task_id": f"queue/{n}", "name": "x" * 150} for n in range(20)]
    found = short({"next_tasks": tasks, "left_out": {"next_tasks": 80, "failures": 2}})
    kept = len(found["next_tasks"])
    assert 0 < kept < 20
    assert found["left_out"] == {"next_tasks": 100 - kept, "failures": 2}
    assert found["shortened"]


def test_the_next_page_of_results_starts_after_those_that_are_in_the_reply() -> None:
    page = [{"task_id": f"queue/{n}", "result": "x" * 500} for n in range(40, 60)]
    found = short({"results": page, "offset": 40, "next_offset": 55})
    assert found["next_offset"] == 40 + len(found["results"]) < 55


def test_long_texts_keep_their_beginning_and_their_end() -> None:
    result = {"stdout": f"first{'.' * 5000}last", "stderr": f"Traceback{'.' * 5000}ValueError: bad"}
    found = short({"result": result, "trace": result["stderr"]})
    assert found["result"]["stdout"].startswith("first")
    assert found["result"]["stdout"].endswith("last")
    assert found["trace"].endswith("ValueError: bad")
    assert len(json.dumps(found)) < 2000
