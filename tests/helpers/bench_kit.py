"""What tests of the workbench share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard import Yard
from runyard.doors.workbench import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """A bench with a yard of its own that runs here."""
    with Yard(tmp_path / "yard") as yard:
        yield Workbench("serial", yard=yard)


def answers(cells: Any) -> list[Any]:
    """What cells with the graph `qa` answered."""
    return [cell.output and cell.output.get("answer") for cell in cells]
