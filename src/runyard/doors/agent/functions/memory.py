"""`memory`: the agent's notes, kept in the yard and searched by their words."""

from __future__ import annotations

import secrets
from typing import Any

from runyard import clock
from runyard.doors.agent.functions.code import yard_folder
from runyard.doors.agent.functions.full_text import matches, opened
from runyard.doors.agent.inputs.arguments import BadCall, choice, is_nothing, text, whole
from runyard.doors.agent.inputs.settings import Settings

OPERATIONS = ("save", "search", "load", "delete")
_NEEDS = {"save": "content", "search": "query", "load": "key", "delete": "key"}
SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, content TEXT, created REAL);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (key UNINDEXED, content)
"""


def check(settings: Settings, params: dict[str, Any]) -> None:  # noqa: ARG001
    """Refuse an unknown operation, or one that lacks an argument it needs."""
    operation = choice(params.get("operation"), "operation", OPERATIONS)
    needed = _NEEDS[operation]
    if is_nothing(params.get(needed)):
        raise BadCall(f"memory {operation} needs {needed}", hint=f"give {needed} as text")


def memory(
    operation: str,
    key: str | None = None,
    content: str | None = None,
    query: str | None = None,
    limit: int = 10,
) -> dict[str, Any]:
    """Save a note (under a key), search notes, load one or delete one."""
    kind = choice(operation, "operation", OPERATIONS)
    with opened(yard_folder() / "memory.db", SCHEMA) as database:
        if kind == "search":
            most = whole(limit, "limit", 1, 100)
            return {"notes": _search(database, text(query, "query"), most)}
        name = secrets.token_hex(6) if is_nothing(key) and kind == "save" else text(key, "key")
        if kind == "load":
            row = database.execute("SELECT * FROM notes WHERE key = ?", [name]).fetchone()
            return {"key": name, "found": row is not None, "note": _note(row) if row else None}
        gone = database.execute("DELETE FROM notes WHERE key = ?", [name]).rowcount
        database.execute("DELETE FROM words WHERE key = ?", [name])
        if kind == "delete":
            return {"key": name, "deleted": bool(gone)}
        note = text(content, "content")
        database.execute("INSERT INTO notes VALUES (?, ?, ?)", [name, note, clock.now()])
        database.execute("INSERT INTO words VALUES (?, ?)", [name, note])
        return {"key": name, "saved": True}


def _search(database: Any, query: str, limit: int) -> list[dict[str, Any]]:
    sql = """
        SELECT notes.* FROM words JOIN notes ON notes.key = words.key
        WHERE words MATCH ? ORDER BY bm25(words), notes.key LIMIT ?
    """
    for question in matches(query):
        rows = database.execute(sql, [question, limit]).fetchall()
        if rows:
            return [_note(row) for row in rows]
    return []


def _note(row: tuple[str, str, float]) -> dict[str, Any]:
    return dict(zip(("key", "content", "created"), row, strict=True))
