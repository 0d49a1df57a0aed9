"""What models cost: dollars per million tokens, from a table that users can edit."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from runyard.errors import UsageError

VARIABLE = "RUNYARD_PRICES"
"""Names the price table in the environment."""

EXAMPLE = Path(__file__).with_name("prices.toml")

_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")

Dollars = Annotated[float, msgspec.Meta(ge=0)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars per million tokens of one model."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None  # input tokens from the provider's cache; None: as other input

    @property
    def is_free(self) -> bool:
        """Whether calls cost nothing."""
        return not (self.input or self.output or self.cached)

    def of(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        """The dollars for a call; `input_tokens` include the cached ones."""
        cached = self.input if self.cached is None else self.cached
        full = input_tokens - cached_tokens
        return (full * self.input + cached_tokens * cached + output_tokens * self.output) / 1e6


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price table: `Prices.load("prices.toml")`, or `Prices({"my-model": Price(1.0, 2.0)})`."""

    models: dict[str, Price]
    source: str = "the price table"

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> Prices:
        """Read a table; by default the one that `RUNYARD_PRICES` names, or an example."""
        place = Path(path or os.environ.get(VARIABLE) or EXAMPLE)
        try:
            return _read(place, place.stat().st_mtime_ns)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"the price table {place} can't be read: {error}",
                hint=f"correct {VARIABLE}, or copy {EXAMPLE}",
            ) from error

    def price(self, model: str) -> Price | None:
        """The price of a model, or None if the table doesn't have it."""
        for name in (model, _DATE.sub("", model)):
            if name in self.models:
                return self.models[name]
            matching = [each for each in self.models if fnmatchcase(name, each)]
            if matching:
                return self.models[max(matching, key=len)]
        return None


@lru_cache(maxsize=8)
def _read(place: Path, _changed: int) -> Prices:
    try:
        table = msgspec.toml.decode(place.read_bytes(), type=Prices)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"the price table {place} is not valid: {error}", hint=f"see {EXAMPLE}"
        ) from error
    return msgspec.structs.replace(table, source=str(place))
