"""A bench as JUnit XML: one testcase a cell, in the schema that CI servers read.

| cell | testcase |
| --- | --- |
| failed | `error` |
| a score that passes or fails has failed | `failure`, with the reasons |
| interrupted, cancelled, or a score is missing | `skipped`: neither passed nor failed |
| otherwise | passed |
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from runyard.doors.workbench.evaluate.gates import BenchGate
from runyard.doors.workbench.evaluate.table import CellTable
from runyard.format import show
from runyard.spaces import whole_file

_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML can't hold."""


def write_junit(path: Path, *args: Any, **options: Any) -> None:
    """Write the XML file."""
    with whole_file(path) as place:
        place.write_bytes(junit(*args, **options))


def junit(
    name: str,
    cells: Iterable[Any],
    table: CellTable,
    *,
    gates: Sequence[BenchGate] = (),
    passing: float | None = None,
    at: float | None = None,
) -> bytes:
    """The XML. A score fails below `passing`; by default, a score of 0 where all are 0 or 1."""
    limits = {
        metric: 1.0 if passing is None else passing
        for metric in table.scores
        if passing is not None or table.is_rate(metric)
    }
    suite = ET.Element("testsuite")
    properties = ET.SubElement(suite, "properties")
    for gate in gates:
        said = "holds" if gate.holds else "fails"
        ET.SubElement(
            properties,
            "property",
            name=_fit(f"gate {gate.gate}"),
            value=_fit(f"{said}: {gate.text}"),
        )
    counts = {"errors": 0, "failures": 0, "skipped": 0}
    seconds = 0.0
    for cell in cells:
        kind, case = _testcase(name, cell, limits)
        suite.append(case)
        seconds += cell.latency
        if kind:
            counts[_COUNTED[kind]] += 1
    when = datetime.now() if at is None else datetime.fromtimestamp(at)
    head = {
        "name": _fit(name),
        "tests": str(len(suite) - 1),
        **{key: str(value) for key, value in counts.items()},
        "time": f"{seconds:.3f}",
    }
    for key, value in {**head, "timestamp": f"{when:%Y-%m-%dT%H:%M:%S}",
                       "hostname": _fit(socket.gethostname())}.items():  # fmt: skip
        suite.set(key, value)
    if not gates:
        suite.remove(properties)
    root = ET.Element("testsuites", {k: v for k, v in head.items() if k != "skipped"})
    root.append(suite)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


_COUNTED = {"error": "errors", "failure": "failures", "skipped": "skipped"}


def _testcase(batch: str, cell: Any, limits: dict[str, float]) -> tuple[str | None, ET.Element]:
    case = ET.Element(
        "testcase",
        classname=_fit(f"{batch}.{cell.variant}"),
        name=_fit(f"{cell.case}[{cell.repetition}]"),
        time=f"{cell.latency:.3f}",
    )
    kind, message, text = _result(cell, limits)
    if kind is not None:
        inner = ET.SubElement(case, kind, message=_fit(message), type=_fit(kind))
        inner.text = _fit(text)
    told = [_score_line(cell, name) for name in cell.scores]
    told.append(f"trajectory: {' → '.join(cell.trajectory)}")
    ET.SubElement(case, "system-out").text = _fit("\n".join(told))
    return kind, case


def _result(cell: Any, limits: dict[str, float]) -> tuple[str | None, str, str]:
    """The kind of result, its message, and more text."""
    if cell.status == "failed":
        trace = getattr(cell.failure, "trace", None) or cell.error
        return "error", cell.error or "failed", str(trace)
    if cell.status != "completed":
        asked = "; ".join(map(str, getattr(cell, "interrupts", None) or ()))
        return "skipped", cell.status, asked
    known = {name: value for name, value in cell.scores.items() if value is not None}
    bad = [name for name, limit in limits.items() if name in known and known[name] < limit]
    if bad:
        lines = [_score_line(cell, name) for name in bad]
        return "failure", lines[0], "\n".join(lines)
    missing = [name for name in cell.scores if name not in known]
    if missing:
        lines = [_score_line(cell, name) for name in missing]
        return "skipped", lines[0], "\n".join(lines)
    return None, "", ""


def _score_line(cell: Any, name: str) -> str:
    value = cell.scores[name]
    told = "missing" if value is None else show(value)
    reason = cell.reasons.get(name)
    return f"{name}: {told}" + (f" ({reason})" if reason else "")


def _fit(text: str) -> str:
    return _UNFIT.sub("�", text)
