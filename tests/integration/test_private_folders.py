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
