"""What is made outside of a yard is for its owner alone, whatever the umask is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_kit import without_ray

MODULE = """
import json, os

def modes():
    "Of what is in the folder for temporary files."
    found = os.scandir(os.environ["TMPDIR"])
    modes = {each.name: oct(each.stat(follow_symlinks=False).st_mode) for each in found}
    with open("modes", "w") as file:
        json.dump(modes, file)
"""
RUN = """
import os, sys
os.umask(0)
import runyard as ry
from mine import modes
with ry.Yard("memory:") as yard:
    yard.run(ry.grid(modes, replicates=1), backend=sys.argv[1], workers=1, ray_address="local")
"""
AGAIN = """
import os, sys
os.umask(0)
from runyard.cli.main import main
run = ["run", "mine:modes", "--replicates", "1", "--name", "b", "--no-progress"]
main([*run, "--backend", "serial"])
main([sys.argv[1], "b/0" if sys.argv[1] == "repro" else "b"])
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder whose name is short enough for the sockets that Ray makes below it."""
    folder = Path(tempfile.mkdtemp(prefix="", dir="/tmp"))
    (folder / "t").mkdir()
    (folder / "mine.py").write_text(MODULE)
    yield folder
    shutil.rmtree(folder)


def seen_by_the_task(project: Path, program: str, word: str) -> dict[str, str]:
    """The modes of what is in the folder for temporary files while a task runs."""
    variables = without_ray() | {"TMPDIR": str(project / "t"), "PYTHONPATH": str(project)}
    subprocess.run(
        [sys.executable, "-c", program, word], cwd=project, env=variables, timeout=100, check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert not list((project / "t").iterdir())
    found = json.loads((project / "modes").read_text())
    return {name.rpartition("-")[0]: mode for name, mode in found.items()}


@pytest.mark.parametrize(
    ("program", "word", "made"),
    [
        (RUN, "processes", {"runyard"}),
        (RUN, "ray", {"runyard", "runyard-ray", "runyard-actor"}),
        (AGAIN, "verify", {"runyard-verify"}),
        (AGAIN, "repro", {"runyard-repro"}),
    ],
    ids=["processes", "a local Ray", "verify", "repro"],
)
def test_a_temporary_folder_is_for_its_owner_alone(
    project: Path, program: str, word: str, made: set[str]
) -> None:
    modes = seen_by_the_task(project, program, word)
    assert made <= modes.keys()
    assert set(modes.values()) == {"0o40700"}


IN_A_YARD = """
import os, sys
os.umask(int(sys.argv[1], 8))
import runyard as ry
from mine import chatty
yard = ry.Yard("a/yard")
yard.run(ry.grid(chatty, x=[1, 2], name="b"), backend=sys.argv[2], workers=2, audit_tasks=True)
yard.results("b").report()
print(*(p for p in yard.folder.rglob("*.db-*")))
for path in (yard.folder.parent, yard.folder, *yard.folder.rglob("*")):
    print(oct(path.stat().st_mode)[-3:], path.name)
"""


@pytest.mark.parametrize(("mask", "backend"), [("000", "processes"), ("002", "serial")])
def test_only_its_owner_can_write_to_a_yard_whatever_the_umask_is(
    project: Path, mask: str, backend: str
) -> None:
    (project / "mine.py").write_text("def chatty(ctx, x):\n    print('x' * 3_000_000)\n")
    said = subprocess.run(
        [sys.executable, "-c", IN_A_YARD, mask, backend], cwd=project, timeout=100, check=True,
        env=without_ray() | {"PYTHONPATH": str(project)}, stdout=subprocess.PIPE, text=True,
    ).stdout.splitlines()  # fmt: skip
    databases, *modes = said
    assert "yard.db-wal" in databases, "they are there while it is open"
    assert {"yard", "yard.db", "yard.db-wal", "stdout", "report.html", "events.jsonl"} <= {
        line[4:] for line in modes
    }
    assert [line for line in modes if int(line[:3], 8) & 0o022] == []
    assert "755 yard" in modes, "others can still read it"
