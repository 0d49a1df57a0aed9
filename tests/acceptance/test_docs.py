"""The documents say what is true: their commands run, their links lead somewhere, nothing is left
out of the reference, and the promises stand in the README word for word."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import runyard
from runyard.cli.main import SECTIONS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, *sorted(ROOT.glob("[A-Z]*.md")), *sorted(DOCS.glob("*.md"))]
COMMANDS = [name for group in SECTIONS.values() for name in group]
PATIENCE = 60

PROMISES = """\
1. A task may run more than once; its outcome is recorded exactly once; a recorded outcome survives
   the death of any process.
2. The same batch, seed and code give the same outcomes on every backend and with any number of
   workers.
3. On `processes` and `ray`, a task that crashes, hangs, runs out of memory or poisons its worker
   costs that task alone.
4. Ctrl-C keeps everything finished, leaves no orphan, exits 130, and `resume` goes on from there.
5. No server is needed. Nothing listens beyond loopback unless asked, and never without a token.
"""


# Reference


@pytest.fixture(scope="module")
def reference() -> str:
    return (DOCS / "reference.md").read_text(encoding="utf-8")


def test_the_reference_is_what_the_code_says_now(reference: str) -> None:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.generate() == reference, "run `make docs`"


@pytest.mark.parametrize("name", runyard.__all__)
def test_every_public_name_is_in_the_reference(reference: str, name: str) -> None:
    assert f"### `runyard.{name}`" in reference


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_reference(reference: str, name: str) -> None:
    assert f"#### `runyard {name}`" in reference


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_told_by_people_too(name: str) -> None:
    told = [README, DOCS / "quickstart.md", DOCS / "how-to.md"]
    said = re.compile(rf"(runyard |`){name}\b")
    assert any(said.search(page.read_text(encoding="utf-8")) for page in told)


# Links and words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = _without_code(page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = page if not place else (page.parent / place).resolve()
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in _anchors(target), f"there is no heading for {link}"


def test_the_promises_stand_in_the_readme_word_for_word() -> None:
    assert PROMISES in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_place_of_somebodys_machine(page: Path) -> None:
    found = re.findall(r"(?:/tmp|/home|/root|/work|/Users)/\S*", page.read_text(encoding="utf-8"))
    assert not found


# Commands


class Step(NamedTuple):
    """Something that a page tells its reader to do."""

    kind: str  # file, python or console
    name: str
    text: str


BLOCK = re.compile(r"(?:^`([\w.-]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _chapters() -> dict[str, list[Step]]:
    """What can be done in one folder: each recipe of the how-to, and the quickstart as a whole."""
    parts = (DOCS / "how-to.md").read_text(encoding="utf-8").split("\n## ")[1:]
    found = {part.partition("\n")[0]: _steps(part) for part in parts}
    found["Quickstart"] = _steps((DOCS / "quickstart.md").read_text(encoding="utf-8"))
    found["README"] = _steps(README.read_text(encoding="utf-8"))
    return {title: steps for title, steps in found.items() if steps}


def _steps(text: str) -> list[Step]:
    steps = []
    for name, language, content in BLOCK.findall(text):
        if name:
            steps.append(Step("file", name, content))
        elif language in ("python", "console"):
            steps.append(Step(language, "", content))
    return steps


CHAPTERS = _chapters()


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    """Every chapter, done as its reader would do it; a few at a time."""
    programs = tmp_path_factory.mktemp("bin")
    for name, words in {"runyard": "-m runyard", "python": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        program.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != "RUNYARD_YARD"}
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    with ThreadPoolExecutor(3) as pool:
        yield {
            title: pool.submit(_follow, steps, tmp_path_factory.mktemp("folder"), environment)
            for title, steps in sorted(CHAPTERS.items(), key=lambda entry: -len(entry[1]))
        }


@pytest.mark.parametrize("title", CHAPTERS)
def test_what_a_page_tells_its_reader_to_do_works(
    followed: dict[str, Future[None]], title: str
) -> None:
    followed[title].result()


def test_the_readme_shows_the_digest_that_its_example_has(tmp_path: Path) -> None:
    code, shown = re.findall(r"```\w*\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[:2]
    (tmp_path / "toss.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "toss.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        env={k: v for k, v in os.environ.items() if k != "RUNYARD_YARD"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert _digests(shown)
    assert _digests(done.stdout) == _digests(shown)


def _follow(steps: list[Step], folder: Path, environment: dict[str, str]) -> None:
    for step in steps:
        if step.kind == "file":
            (folder / step.name).write_text(step.text)
        elif step.kind == "python":
            (folder / "script.py").write_text(step.text)
            code, output = _call("python script.py", folder, environment)
            assert code == 0, f"{step.text}\n{output}"
        else:
            _type(step.text, folder, environment)


def _type(text: str, folder: Path, environment: dict[str, str]) -> None:
    """Commands one after another; what is shown of exit codes and digests must be so."""
    code = 0
    commands = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for command, after in zip(commands, [*commands[1:], ""], strict=True):
        line, _, shown = command.partition("\n")
        if line == "echo $?":
            assert str(code) == shown.strip()
            continue
        code, output = _call(line, folder, environment)
        assert code == 0 or after.startswith("echo $?"), f"$ {line}\n{output}"
        for digest in _digests(shown):
            assert digest in output, f"$ {line}\n{output}"


def _call(line: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
    )  # fmt: skip
    return done.returncode, done.stdout


def _digests(text: str) -> list[str]:
    return re.findall(r"digest\"?:? +\"?([0-9a-f]{16})", text)


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """The names that GitHub gives a page's headings."""
    headings = re.findall(
        r"^#+ (.*)$", _without_code(page.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
