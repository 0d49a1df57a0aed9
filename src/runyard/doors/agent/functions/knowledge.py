"""`knowledge_search`: full-text search over a folder of text, Markdown and code."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from runyard.doors.agent.functions.code import yard_folder
from runyard.doors.agent.functions.full_text import matches, opened
from runyard.doors.agent.inputs.arguments import BadCall, text, whole
from runyard.doors.agent.inputs.settings import Settings, read_settings
from runyard.events import Redactor
from runyard.spaces import DEPTH, Found, read_file, walk

PASSAGE = 12
"""Lines of one passage."""

MOST_BYTES = 2 << 20
"""Larger files are not indexed."""

MOST_TEXT = 4000
"""The most characters of a passage that are returned."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, changed INTEGER, size INTEGER);
CREATE VIRTUAL TABLE IF NOT EXISTS passages USING fts5 (path UNINDEXED, line UNINDEXED, text)
"""


def check(settings: Settings, params: dict[str, Any]) -> None:  # noqa: ARG001
    """Refuse a search without words."""
    if not matches(text(params.get("query"), "query")):
        raise BadCall("query has no words", hint="give the words to look for")


def knowledge_search(query: str, limit: int = 5, path: str = ".") -> dict[str, Any]:
    """The passages of a folder that match a query best, with file and line."""
    folder = _folder(text(path, "path"))
    most = whole(limit, "limit", 1, 50)
    with opened(yard_folder() / "knowledge.db", SCHEMA) as database:
        changed = _refresh(database, folder)
        found = _search(database, folder, text(query, "query"), most)
    return {"passages": Redactor().redact(found), "indexed": changed, "folder": str(folder)}


def _folder(path: str) -> Path:
    """The folder to search, if the owner of the yard allows it."""
    roots = [Path(each).resolve() for each in read_settings(yard_folder()).knowledge]
    try:
        chosen = (roots[0] if path == "." else Path(path)).resolve()
        is_folder = chosen.is_dir()
    except (OSError, ValueError) as error:  # it contains NUL, or is too long
        raise BadCall(
            f"path is {path[:60]!r}, which can't be used: {error}", hint="give a folder"
        ) from None
    is_open = any(chosen.is_relative_to(root) for root in roots)
    if not is_open or chosen.is_relative_to(yard_folder().resolve()):
        allowed = ", ".join(str(root) for root in roots)
        raise BadCall(f"path is {path[:60]!r}, which is not allowed", hint=f"allowed: {allowed}")
    if not is_folder:
        raise BadCall(f"path is {path[:60]!r}, which is not a folder", hint="give a folder")
    return chosen


def _refresh(database: sqlite3.Connection, folder: Path) -> int:
    """Index the files that changed since the last search; return their number."""
    like = f"{folder}{os.sep}%"
    known = {
        path: (changed, size)
        for path, changed, size in database.execute("SELECT * FROM files WHERE path LIKE ?", [like])
    }
    count = 0
    for found in walk(folder, _is_open):
        path = str(folder / found.path)
        if not _is_readable(found):
            continue
        status = found.status
        if known.pop(path, None) == (status.st_mtime_ns, status.st_size):
            continue
        database.execute("DELETE FROM passages WHERE path = ?", [path])
        database.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?)",
            [path, status.st_mtime_ns, status.st_size],
        )
        database.executemany("INSERT INTO passages VALUES (?, ?, ?)", _passages(found, path))
        count += 1
    for path in known:  # those that no longer exist
        database.execute("DELETE FROM passages WHERE path = ?", [path])
        database.execute("DELETE FROM files WHERE path = ?", [path])
    return count + len(known)


def _is_open(found: Found) -> bool:
    """Whether to search a folder; the yard's own is left out.

    Code that is running writes there, and could place links to files that it must not read.
    """
    if found.name.startswith((".", "__pycache__")) or found.path.count("/") + 2 > DEPTH:
        return False
    with suppress(OSError):
        if os.path.samestat(found.status, yard_folder().stat()):
            return False
    return os.access(found.name, os.R_OK | os.X_OK, dir_fd=found.folder)


def _is_readable(found: Found) -> bool:
    is_text = found.path.isascii() or found.path.isprintable()  # no lone surrogates
    is_file = stat.S_ISREG(found.status.st_mode) and not found.name.startswith(".")
    return is_file and is_text and found.status.st_size <= MOST_BYTES


def _passages(found: Found, path: str) -> Iterator[tuple[str, int, str]]:
    try:
        data = read_file(found.name, MOST_BYTES, folder=found.folder)
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
                    "text": passage[:MOST_TEXT],
                    "score": round(-score, 4),
                }
                for path, line, passage, score in rows
            ]
    return []
