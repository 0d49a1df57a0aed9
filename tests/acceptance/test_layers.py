"""import-linter finds violations of the layers: each one planted in a copy is reported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLANTED = {
    "spec/names.py": "import runyard.store.base",
    "stats/summary.py": "import runyard.reports.result",
    "attempt/runner.py": "import runyard.store.base",
    "llm/cell.py": "import runyard.events",
    "backends/threads.py": "import runyard.backends.serial",
    "backends/base.py": "import runyard.events",
    "schedule/policy.py": "import runyard.yard",
    "reports/result.py": "import runyard.schedule.policy",
    "doors/malice/__init__.py": "import runyard.doors.agent",
    "doors/letitride/game/money.py": "import runyard.cli.table",
    "cli/table.py": "import runyard.doors.agent",
    "clock.py": "import runyard.spec.names",
    "strays.py": "import os",  # a module outside the layers
}
"""A file of the package, and an import that it must not have."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says of a copy with all of them."""
    copy = tmp_path_factory.mktemp("planted")
    shutil.copytree(
        ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, line in PLANTED.items():
        path = copy / "src" / "runyard" / name
        text = path.read_text() if path.exists() else ""
        path.write_text(f"{text}\n{line}\n")
    code = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports; "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}sys.exit(lint_imports())"],
        cwd=copy, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [name for name in PLANTED if name != "strays.py"])
def test_a_planted_violation_is_found(report: str, name: str) -> None:
    module = "runyard." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    target = PLANTED[name].removeprefix("import ")
    assert f"{module} -> {target}" in report


def test_a_module_outside_the_layers_is_found(report: str) -> None:
    assert "runyard.strays" in report
