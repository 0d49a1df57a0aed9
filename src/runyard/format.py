"""Numbers, counts, durations, rates and byte sizes as people read them.

A figure has no more digits than its interval supports.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 task`, `2,000 tasks`; `many` for a plural that is not just an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """A time span such as `3.2 ms` or `1 h 05 min`."""
    rounded = float(f"{seconds:.3g}")  # before the unit is chosen
    for limit, unit, name in ((1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (60.0, 1.0, "s")):
        if rounded < limit:
            value = seconds / unit
            digits = math.floor(math.log10(rounded / unit)) + 1 if rounded > 0 else 2
            return f"{value:.{max(0, 2 - digits)}f} {name}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24:,} d {hours % 24} h"


def rate(per_second: float) -> str:
    """A rate such as `1,200/s` or `4.5/min`."""
    if per_second >= 10 or per_second == 0:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.1f}/s" if per_second >= 0.1 else f"{per_second * 60:.1f}/min"


def size(number: float) -> str:
    """Bytes such as `12 B` or `3.4 GB`."""
    if number < 1000:
        return f"{number:.0f} B"
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 999.95:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:,.1f} TB"


def show(number: float, digits: int = 4) -> str:
    """A number with a few significant digits: `0.1123`, `98,304`, `1.2e-09`."""
    if not math.isfinite(number):
        return str(number)
    if number == 0 or (float(number).is_integer() and abs(number) < 1e9):
        return f"{number:,.0f}" if number else "0"
    if not 1e-4 <= abs(number) < 1e9:
        return re.sub(r"\.0+e", "e", f"{number:.{digits - 1}e}")
    return rounded(number, max(0, digits - 1 - _magnitude(number)))


def plus_minus(value: float, half: float) -> str:
    """A value and the half-width of its interval, both rounded to two digits of the latter."""
    if not math.isfinite(value) or not math.isfinite(half) or half <= 0:
        return f"{show(value)} ± {show(half)}"
    magnitude = _magnitude(max(abs(value), half))
    if not -4 <= magnitude < 9:
        scale = 10.0**magnitude
        return f"({plus_minus(value / scale, half / scale)})e{magnitude:+03d}"
    places = decimals(half)
    return f"{rounded(value, places)} ± {rounded(half, places)}"


def _magnitude(number: float) -> int:
    return math.floor(math.log10(abs(number)))


def decimals(half: float) -> int:
    """The decimals that leave two digits of a half-width, at most those of a double."""
    return min(15, 1 - _magnitude(float(f"{half:.1e}"))) if half > 0 else 4


def rounded(number: float, places: int) -> str:
    """A number rounded to this many decimals (-1: to tens); zero has no sign."""
    shown = f"{round(number, places):,.{max(0, places)}f}"
    return shown.removeprefix("-") if not shown.strip("-0.,") else shown


def cut(text: str, limit: int) -> str:
    """The text, shortened to a limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names with commas between them: the first ones, if there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def moment(at: float) -> str:
    """A wall time, such as `2026-01-31 23:59:59`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
