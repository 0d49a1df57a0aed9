"""What the report tests share: a project folder with functions, and a reader of pages."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import chdir
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

from command_server import shared_server

import runyard as ry
from runyard.reports.html import write_report

HOSTILE = "</script></title><img src=x onerror=alert(1)>\"'&"

FUNCTIONS = '''
"""Functions that the report tests run."""
import os
import time
from pathlib import Path

HOSTILE = "</script></title><img src=x onerror=alert(1)>\\"'&"


def till(ctx, tills, rush):
    """A bit of everything: figures, a rate, alerts, retries, failures."""
    wait = float(ctx.rng.gamma(2.0, rush / tills, 20).mean())
    if ctx.task == 5 and ctx.attempt == 0:
        raise OSError("not yet")
    if ctx.task % 20 == 7:
        raise ValueError(f"{ctx.task} {HOSTILE}")
    if ctx.task == 3:
        ctx.emit("alert", message=f"queue {HOSTILE}")
    return {"wait": wait, "late": wait > 1.0, f"cost {HOSTILE}": 2.5 * tills + wait}


def plain(x):
    return x * 0.5


def same(x):
    return {"constant": 1.0, "text": "no number"}


def deadly(x):
    if x == 1 and not Path("died").exists():
        Path("died").touch()
        os._exit(9)
    return x


def patient(x):
    """Ends when there is a file named go."""
    Path("marks").mkdir(exist_ok=True)
    Path("marks", str(x)).touch()
    until = time.monotonic() + 60
    while x >= 2 and not Path("go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    return x
'''


class Answer(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Project:
    """A folder with functions in which `runyard` is called as a real process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "jobs.py").write_text(FUNCTIONS)
        source = str(Path(ry.__file__).parents[1])
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RUNYARD")}
        path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH")) if p)
        self.env = kept | {"PYTHONPATH": path, "PYTHONWARNINGS": "error"}

    def __call__(self, *words: str, **env: str) -> Answer:
        """Run a command to its end."""
        return Answer(*shared_server().run(words, folder=self.folder, env=self.env | env))

    def type(self, line: str) -> Answer:
        """A line as a person copies it from a page."""
        program, *words = shlex.split(line)
        assert program == "runyard"
        return self(*words)

    @staticmethod
    def command(*words: str) -> list[str]:
        """The words as a process gets them."""
        return [sys.executable, "-m", "runyard", *words]

    def run(self, target: str, name: str, yard: str = ".runyard", **lists: Any) -> ry.Result:
        """Run a batch in this process, on one backend or another."""
        backend, workers = lists.pop("backend", "serial"), lists.pop("workers", 1)
        batch = ry.grid(f"jobs.py:{target}", seed=7, name=name, **lists)
        with chdir(self.folder), ry.Yard(self.folder / yard) as place:
            return place.run(batch, backend=backend, workers=workers, progress=False)

    def report(self, name: str, yard: str = ".runyard", **options: Any) -> str:
        """The text of a batch's report, written by this process."""
        with ry.Yard(self.folder / yard) as place:
            folder = place.batch_folder(name)
            path = write_report(place.results(name), folder, yard=yard, **options)
        return path.read_text(encoding="utf-8")

    def batch(self, name: str) -> Path:
        """A batch's folder."""
        return self.folder / ".runyard" / "batches" / name


class Page(HTMLParser):
    """A page taken apart: its elements, headings, commands and text."""

    VOID = frozenset({"meta", "link", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self.commands: list[str] = []
        self.text = ""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append((tag, dict(attrs)))
            if tag in ("h1", "h2"):
                self.headings.append("")
            if tag == "code" and dict(attrs).get("class") == "command":
                self.commands.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        inside = [tag for tag, _ in self._open]
        if "script" in inside or "style" in inside:
            return
        self.text += data
        if inside and inside[-1] in ("h1", "h2"):
            self.headings[-1] += data
        if inside and inside[-1] == "code" and self._open[-1][1].get("class") == "command":
            self.commands[-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Every element of this name."""
        return [attributes for name, attributes in self.tags if name == tag]
