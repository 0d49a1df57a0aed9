"""Translate SQL as it is written here into that of each database.

Statements are written in PostgreSQL's SQL, with `:name` for a value:

    SELECT task FROM queue WHERE batch = :batch AND task = ANY(:tasks) FOR UPDATE
"""

from __future__ import annotations

import re
from functools import cache


@cache
def for_sqlite(text: str) -> str:
    """The statement for SQLite, which takes arrays as JSON and locks the whole database."""
    text = re.sub(r"= ANY\(:(\w+)\)", r"IN (SELECT value FROM json_each(:\1))", text)
    return re.sub(r"FOR UPDATE( OF \w+)?( SKIP LOCKED)?", "", text)


@cache
def for_postgres(text: str) -> str:
    """The statement with placeholders for psycopg; arrays are sent in binary."""
    text = re.sub(r"ANY\(:(\w+)\)", r"ANY(%(\1)b::int8[])", text)
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", text)
