"""`knowledge_search`: full-text search over a folder of text, Markdown and code."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runyard.doors.agent.arguments import BadCall, text, whole
from runyard.doors.agent.calls.code import yard_folder
from runyard.doors.agent.settings import Settings, read_settings
from runyard.doors.agent.texts import matches, opened
from runyard.events import Redactor

PASSAGE = 12
"""Lines of one passage."""

MOST_BYTES = 2 << 20
"""Larger files are no reading matter."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, changed INTEGER, size INTEGER);
CREATE VIRTUAL TABLE IF NOT EXISTS passages USING fts5 (path UNINDEXED, line UNINDEXED, text)
"""


def check(settings: Settings, params: dict[str, Any]) -> None:  # noqa: ARG001
    """Refuse a search without words."""
    if not matches(text(params.get("query"), "query")):
        raise BadCall("query has no words", hint="give the words to look for")


def knowledge_search(query: str, limit: int = 5, path: str = ".") -> dict[str, Any]:
    """The passages of a folder that fit a query best, with file and line."""
    folder = _folder(text(path, "path"))
    most = whole(limit, "limit", 1, 50)
    with opened(yard_folder() / "knowledge.db", SCHEMA) as database:
        changed = _refresh(database, folder)
        found = _search(database, folder, text(query, "query"), most)
    return {"passages": Redactor().redact(found), "indexed": changed, "folder": str(folder)}


def _folder(path: str) -> Path:
    """The folder to search, which the owner of the yard has opened to agents."""
    roots = [Path(each).resolve() for each in read_settings(yard_folder()).knowledge]
    chosen = (roots[0] if path == "." else Path(path)).resolve()
    if not any(chosen.is_relative_to(root) for root in roots):
        opened_ones = ", ".join(str(root) for root in roots)
        raise BadCall(f"path is {path[:60]!r}, which is closed", hint=f"open ones: {opened_ones}")
    if not chosen.is_dir():
        raise BadCall(f"path is {path[:60]!r}, which is no folder", hint="give a folder")
    return chosen


def _refresh(database: sqlite3.Connection, folder: Path) -> int:
    """Index what has changed since the last time; how many files that were."""
    like = f"{folder}{os.sep}%"
    known = {
        path: (changed, size)
        for path, changed, size in database.execute("SELECT * FROM files WHERE path LIKE ?", [like])
    }
    count = 0
    for path, changed, size in _files(folder):
        if known.pop(path, None) == (changed, size):
            continue
        database.execute("DELETE FROM passages WHERE path = ?", [path])
        database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", [path, changed, size])
        database.executemany("INSERT INTO passages VALUES (?, ?, ?)", _passages(path))
        count += 1
    for path in known:  # those that are gone
        database.execute("DELETE FROM passages WHERE path = ?", [path])
        database.execute("DELETE FROM files WHERE path = ?", [path])
    return count + len(known)


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    for place, names, files in os.walk(folder):
        names[:] = sorted(n for n in names if not n.startswith((".", "__pycache__")))
        for name in sorted(files):
            path = Path(place, name)
            if name.startswith(".") or path.is_symlink() or not path.is_file():
                continue
            seen = path.stat()
            if seen.st_size <= MOST_BYTES:
                yield str(path), seen.st_mtime_ns, seen.st_size


def _passages(path: str) -> Iterator[tuple[str, int, str]]:
    try:
        data = Path(path).read_bytes()
        lines = [] if b"\0" in data[:8192] else data.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for at in range(0, len(lines), PASSAGE):
        yield path, at + 1, "\n".join(lines[at : at + PASSAGE])


def _search(
    database: sqlite3.Connection, folder: Path, query: str, limit: int
) -> list[dict[str, Any]]:
    sql = """
        SELECT path, line, text, bm25(passages) FROM passages
        WHERE passages MATCH ? AND path LIKE ? ORDER BY bm25(passages), path, line LIMIT ?
    """
    for question in matches(query):
        rows = database.execute(sql, [question, f"{folder}{os.sep}%", limit]).fetchall()
        if rows:
            return [
                {
                    "file": os.path.relpath(path, folder),
                    "line": line,
                    "text": passage,
                    "score": round(-score, 4),
                }
                for path, line, passage, score in rows
            ]
    return []
