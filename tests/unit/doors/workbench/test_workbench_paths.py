"""Trajectories as a graph."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from runyard.doors.workbench.report.paths import drawing, paths_of, steps_of

FAN = [("plan", 0.0, 1.0), ("work", 1.0, 2.0), ("work", 1.1, 1.0), ("note", 1.2, 0.5),
       ("collect", 3.0, 0.1)]  # fmt: skip
INNER = [("plan", 0.0, 1.0), ("sub", 1.0, 3.0), ("sub:ask", 1.1, 1.0), ("sub:rank", 2.2, 1.0),
         ("collect", 4.0, None)]  # fmt: skip


def test_what_overlaps_runs_side_by_side() -> None:
    assert steps_of(FAN) == [{"plan"}, {"work", "note"}, {"collect"}]
    assert steps_of([]) == []
    assert steps_of([("a", 0.0, 0.0), ("b", 0.0, 0.0)]) == [{"a"}, {"b"}]


def test_edges_lead_from_each_step_to_the_next() -> None:
    found = paths_of([FAN, FAN])
    assert found.edges == {
        ("start", "plan"): 2, ("plan", "work"): 2, ("plan", "note"): 2, ("work", "collect"): 2,
        ("note", "collect"): 2, ("collect", "end"): 2,
    }  # fmt: skip
    assert found.visits["work"] == 4
    assert found.columns == {
        "start": 0, "plan": 1, "work": 2, "note": 2, "collect": 3, "end": 4
    }  # fmt: skip


def test_a_cell_that_stopped_does_not_lead_to_the_end() -> None:
    short = [("plan", 0.0, 1.0)]
    assert paths_of([FAN], [short]).edges["collect", "end"] == 1
    found = paths_of([], [short])
    assert found.edges == {("start", "plan"): 1}
    assert "end" not in found.columns
    assert "plan" in str(drawing(found, "stopped"))


def test_nodes_of_a_subgraph_follow_one_another_inside_it() -> None:
    found = paths_of([INNER])
    assert found.edges["sub", "sub:ask"] == 1
    assert found.edges["sub:ask", "sub:rank"] == 1
    assert ("sub:rank", "collect") not in found.edges
    assert found.columns["sub:rank"] == found.columns["sub"] == 2


def test_a_loop_leads_back() -> None:
    loop = [("think", 0.0, 1.0), ("act", 1.0, 1.0), ("think", 2.0, 1.0), ("act", 3.0, 1.0)]
    found = paths_of([loop])
    assert found.edges["act", "think"] == 1
    assert found.edges["think", "act"] == 2
    svg = drawing(found, "v").split("<svg", 1)[1].rsplit("</svg>", 1)[0]
    assert len(ET.fromstring(f"<svg{svg}</svg>").findall(".//rect")) == 2


def test_names_are_escaped_and_a_shortcut_leads_forwards() -> None:
    short = [("<plan>", 0.0, 1.0), ("collect", 1.0, 1.0)]
    long = [("<plan>", 0.0, 1.0), ("work", 1.0, 1.0), ("collect", 2.0, 1.0)]
    found = paths_of([short, long])
    assert found.columns["collect"] == 3
    assert "&lt;plan&gt;" in drawing(found, "v")
    assert "<plan>" not in drawing(found, "v")
