"""The documents say what is true: their commands run, their links lead somewhere, nothing is left
out of the reference, and the promises stand in the README word for word."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
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
PATIENCE = 100

PROMISES = """\
1. A task may run more than once; its outcome is recorded exactly once; a recorded outcome survives
   the death of any process.
2. The same batch, seed and code give the same outcomes on every backend and with any number of
   workers.
3. On `processes` and `ray`, a task that crashes, hangs, runs out of memory or corrupts its worker
   costs that task alone.
4. Ctrl-C keeps all finished work, leaves no orphans, exits with 130, and `resume` continues.
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
RECIPES = {
    title: [step.text for step in steps]
    for title, steps in CHAPTERS.items()
    if all(step.kind == "python" for step in steps)
}
SESSIONS = {title: steps for title, steps in CHAPTERS.items() if title not in RECIPES}
QUICK = {"Quickstart", "Verify"}
"""Pages and recipes that are followed each time; the others take a while together."""

COOK = """
import json, sys, traceback

failed = {}
for title, scripts in json.load(open("recipes.json")).items():
    try:
        for script in scripts:
            exec(compile(script, title, "exec"), {"__name__": "__main__"})
    except BaseException:
        failed[title] = traceback.format_exc()
json.dump(failed, open("failed.json", "w"))
"""
"""Runs scripts one after another in one process, as cells of a notebook are."""


@pytest.fixture(scope="module")
def failed_recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("kitchen")
    (folder / "recipes.json").write_text(json.dumps(RECIPES))
    (folder / "cook.py").write_text(COOK)
    code, output = _call("python cook.py", folder, _environment(folder))
    assert code == 0, output
    found: dict[str, str] = json.loads((folder / "failed.json").read_text())
    return found


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_in_python_works(failed_recipes: dict[str, str], title: str) -> None:
    assert title not in failed_recipes, failed_recipes.get(title)


@pytest.mark.parametrize(
    "title", [pytest.param(t, marks=() if t in QUICK else pytest.mark.slow) for t in SESSIONS]
)
def test_commands_of_a_page_work_as_shown(title: str, tmp_path: Path) -> None:
    environment = _environment(tmp_path)
    for step in SESSIONS[title]:
        if step.kind == "file":
            (tmp_path / step.name).write_text(step.text)
        elif step.kind == "python":
            (tmp_path / "script.py").write_text(step.text)
            code, output = _call("python script.py", tmp_path, environment)
            assert code == 0, f"{step.text}\n{output}"
        else:
            _type(step.text, tmp_path, environment)


def test_the_readme_shows_the_digest_that_its_example_has(tmp_path: Path) -> None:
    code, shown = re.findall(r"```\w*\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[:2]
    (tmp_path / "toss.py").write_text(code)
    status, output = _call("python toss.py", tmp_path, _environment(tmp_path))
    assert status == 0, output
    assert _digests(shown)
    assert _digests(output) == _digests(shown)


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


def _environment(folder: Path) -> dict[str, str]:
    """One in which `python` and `runyard` are the ones under test, and no yard is set."""
    programs = folder / "bin"
    programs.mkdir()
    for name, words in {"runyard": "-m runyard", "python": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        program.chmod(0o755)
    found = {k: v for k, v in os.environ.items() if k != "RUNYARD_YARD"}
    return found | {"PATH": f"{programs}{os.pathsep}{found['PATH']}"}


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
