"""The export formats: one table, which `runyard export`, the queue's export and their help follow.

Exportable ── documents, rows, lines or pages ──▶ Format.write ──▶ a file, or stdout
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from runyard.errors import UsageError
from runyard.plaintext import ascii_json, plain
from runyard.reports.sheets import write_csv
from runyard.spaces import whole_file


class Exportable(ABC):
    """Something that can be exported in every format."""

    opening, closing = "[", "\n]\n"
    """What stands around the documents in a JSON file."""

    @abstractmethod
    def documents(self) -> Iterator[Mapping[str, Any]]:
        """One JSON document per row."""

    @abstractmethod
    def rows(self) -> Iterator[list[Any]]:
        """The heads, then the cells of each row."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """One line of text per row."""

    @abstractmethod
    def kinds(self) -> Mapping[str, str]:
        """Each column with the name of its Arrow type, for Parquet."""

    @abstractmethod
    def pages(self) -> Iterator[Mapping[str, Any]]:
        """Columns by name, some rows at a time, for Parquet."""

    def heading(self) -> str:
        """Text above the lines."""
        return ""


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write a table."""

    name: str
    suffixes: tuple[str, ...]  # of files in it, in lower case
    write_text: Callable[[Exportable, TextIO], int] | None  # None for a binary format
    write_binary: Callable[[Exportable, Path], int] | None = None
    needs: tuple[str, str] | None = None  # the package, and the extra that installs it

    def write(self, table: Exportable, path: Path) -> int:
        """Write a file completely or not at all; return the number of rows."""
        with whole_file(path) as place:
            if self.write_binary is not None:
                self._check_package()
                return self.write_binary(table, place)
            assert self.write_text is not None
            with place.open("w", newline="", encoding="utf-8") as file:
                return self.write_text(table, file)

    def write_to(self, table: Exportable, file: TextIO) -> int:
        """Write to an open text file; return the number of rows."""
        if self.write_text is None:
            raise UsageError(f"can't write {self.name} to stdout", hint="give a file with -o")
        return self.write_text(table, file)

    def _check_package(self) -> None:
        if self.needs is None:
            return
        try:
            import_module(self.needs[0])
        except ImportError:
            raise missing(f"the format {self.name}", *self.needs) from None


def missing(what: str, package: str, extra: str = "tables") -> UsageError:
    """An error for an optional package that is not installed."""
    return UsageError(f"{what} needs {package}", hint=f"install it: pip install 'runyard[{extra}]'")


def format_named(name: str) -> Format:
    """The format of this name."""
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}", hint=f"use one of: {', '.join(FORMATS)}")
    return FORMATS[name]


def format_of(path: Path) -> Format | None:
    """The format that a file's suffix names; None without a suffix."""
    suffix = path.suffix.lower()
    for each in FORMATS.values():
        if suffix in each.suffixes:
            return each
    if suffix:
        known = ", ".join(suffix for each in FORMATS.values() for suffix in each.suffixes)
        raise UsageError(
            f"{path}: no format has the suffix {suffix}",
            hint=f"use one of {known}, or choose a format with --format",
        )
    return None


def _write_json(table: Exportable, file: TextIO) -> int:
    file.write(table.opening)
    count = 0
    for document in table.documents():
        file.write((",\n" if count else "\n") + ascii_json(document))
        count += 1
    file.write(table.closing)
    return count


def _write_csv(table: Exportable, file: TextIO) -> int:
    return write_csv(file, table.rows()) - 1  # without the heads


def _write_text(table: Exportable, file: TextIO) -> int:
    file.write(table.heading())
    count = 0
    for line in table.lines():
        file.write(plain(line) + "\n")
        count += 1
    return count


def _write_parquet(table: Exportable, path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = table.kinds().items()
    schema = pa.schema([pa.field(name, pa.type_for_alias(kind)) for name, kind in kinds])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for page in table.pages():
            arrays = [pa.array(page[field.name], field.type, from_pandas=True) for field in schema]
            batch = pa.record_batch(arrays, schema=schema)
            writer.write_batch(batch)
            count += batch.num_rows
    return count


FORMATS = {
    each.name: each
    for each in (
        Format("json", (".json",), _write_json),
        Format("csv", (".csv",), _write_csv),
        Format("parquet", (".parquet",), None, _write_parquet, needs=("pyarrow", "tables")),
        Format("txt", (".txt",), _write_text),
    )
}
