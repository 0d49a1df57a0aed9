"""Small pieces of HTML that sections consist of; all escape their text.

Text is data until it is wrapped in `Html`, so that no name or value can become markup by accident.
"""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runyard.format import cut, decimals, rounded, show
from runyard.plaintext import UNSEEN


class Html(str):
    """Text that is markup already, and goes into a page as it is."""

    __slots__ = ()


def safe(value: object) -> Html:
    """A value as markup: escaped, unless it is `Html`; characters no page may hold become `�`."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(UNSEEN.sub("�", str(value)), quote=True))


def join(parts: Iterable[object], between: object = "") -> Html:
    """Pieces one after the other."""
    return Html(safe(between).join(safe(part) for part in parts))


def element(tag: str, *inner: object, **attributes: object) -> Html:
    """An element; `class_` and the like lose their last underscore, others become dashes."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{safe(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Html(f"<{tag}{named}>{join(inner)}</{tag}>")


def paragraph(*inner: object, class_: str | None = None) -> Html:
    """A paragraph."""
    return element("p", *inner, class_=class_)


def aside(*inner: object) -> Html:
    """A remark in small print."""
    return paragraph(*inner, class_="aside")


def command(text: str) -> Html:
    """A command to copy."""
    return element("code", text, class_="command")


def facts(pairs: Mapping[str, object] | Iterable[tuple[str, object]]) -> Html:
    """Names and values; those without a value are left out."""
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return _pairs("facts", ((name, value, "") for name, value in items if value not in (None, "")))


def tiles(pairs: Iterable[tuple[str, object, str]]) -> Html:
    """Key figures: name, figure, and CSS class (`""`, or `bad`)."""
    return _pairs("tiles", pairs)


def _pairs(class_: str, pairs: Iterable[tuple[str, object, str]]) -> Html:
    shown = (
        element("div", element("dt", name), element("dd", value), class_=kind or None)
        for name, value, kind in pairs
    )
    return element("dl", *shown, class_=class_)


def table(
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
    caption: str = "",
    sortable: bool = False,
) -> Html:
    """Rows under their heads; the columns in `numbers` are aligned right."""

    def line(cells: Sequence[object], scope: str) -> Html:
        """A row; with the scope `col` all its cells are heads, with `row` the first one is."""
        made = []
        for at, cell in enumerate(cells):
            tag, of = ("th", scope) if scope == "col" or at == 0 else ("td", None)
            made.append(element(tag, cell, class_="number" if at in numbers else None, scope=of))
        return element("tr", *made)

    made = element(
        "table",
        element("caption", caption) if caption else "",
        element("thead", line(heads, "col")),
        element("tbody", *(line(row, "row") for row in rows)),
        class_="sortable" if sortable else None,
    )
    label = caption or " ".join(map(str, heads))
    return element("div", made, class_="scroll", tabindex=0, role="region", aria_label=label)


def details(summary: object, *inner: object) -> Html:
    """Content that opens on request, and is open in print."""
    return element("details", element("summary", summary), *inner)


def moment(at: float | None) -> str:
    """A wall time, with its zone."""
    if at is None:
        return ""
    when = datetime.datetime.fromtimestamp(at).astimezone()
    return f"{when:%Y-%m-%d %H:%M:%S} {when.tzname()}"


def number(value: float | None, places: int | None = None) -> str:
    """A figure as `show` has it, or with this many decimals; its minus signs are real ones."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    is_extreme = value != 0 and not 1e-6 <= abs(value) < 1e12
    text = show(value) if places is None or is_extreme else rounded(value, places)
    return text.replace("-", "−")


def places_of(spread: float) -> int | None:
    """The decimals that show two digits of a spread; None if there is none."""
    return max(0, decimals(spread)) if 0 < spread < math.inf else None


def shown(value: Any, limit: int = 80) -> str:
    """A parameter's value on one line."""
    from runyard.reports.export import text_of

    return cut(text_of(value), limit)
