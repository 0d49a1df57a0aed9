"""Cards for the compiled kernel: the same as `generator`, in machine integers.

Cards are unsigned, so they are used as indices directly: signed ones could count from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from runyard.doors.letitride.cards.generator import ORDERS

OPTIONS: dict[str, Any] = {"error_model": "numpy", "boundscheck": False, "nogil": True}
_U = np.uint64


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function, and cache the result on disk if possible."""
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # neither the package's folder nor the user's is writable
        return numba.njit(**OPTIONS)(function)


inlined = numba.njit(inline="always", **OPTIONS)


@inlined
def advance(first, second):  # type: ignore[no-untyped-def]
    """The next number of a generator, and its state after that."""
    total = first + second
    found = ((total << _U(17)) | (total >> _U(47))) + first
    second ^= first
    first = ((first << _U(49)) | (first >> _U(15))) ^ second ^ (second << _U(21))
    second = (second << _U(28)) | (second >> _U(36))
    return found, first, second


@inlined
def mix(value):  # type: ignore[no-untyped-def]
    """The finaliser of SplitMix64."""
    value = (value ^ (value >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> _U(27))) * _U(0x94D049BB133111EB)
    return value ^ (value >> _U(31))


@inlined
def four_upwards(p, q, r, d):  # type: ignore[no-untyped-def]
    """Insert a fourth card into three ascending ones."""
    s, t = min(p, d), max(p, d)
    t, u = min(t, q), max(t, q)
    u, v = min(u, r), max(u, r)
    return s, t, u, v


@inlined
def five_cards(number):  # type: ignore[no-untyped-def]
    """Five distinct cards: three ascending, the fourth, the fifth, and the first four ascending."""
    rest = np.uint32(number % _U(ORDERS))
    a = np.uint32(rest % np.uint32(52))
    rest //= np.uint32(52)
    b = np.uint32(rest % np.uint32(51))
    rest //= np.uint32(51)
    c = np.uint32(rest % np.uint32(50))
    rest //= np.uint32(50)
    d = np.uint32(rest % np.uint32(49))
    e = np.uint32(rest // np.uint32(49))
    b += np.uint32(b >= a)
    low, high = min(a, b), max(a, b)
    c += np.uint32(c >= low)
    c += np.uint32(c >= high)
    p, q = min(low, c), max(low, c)
    q, r = min(q, high), max(q, high)
    d += np.uint32(d >= p)
    d += np.uint32(d >= q)
    d += np.uint32(d >= r)
    s, t, u, v = four_upwards(p, q, r, d)
    e += np.uint32(e >= s)
    e += np.uint32(e >= t)
    e += np.uint32(e >= u)
    e += np.uint32(e >= v)
    return p, q, r, d, e, s, t, u, v


@inlined
def further_seat(number, used, held, own):  # type: ignore[no-untyped-def]
    """Deal a further seat three cards into `own`; `used` are the dealt cards; both ascending."""
    for place in range(3):
        left = _U(52 - held)
        card = np.uint32(number % left)
        number //= left
        at = 0
        while at < held and used[at] <= card:
            card += np.uint32(1)
            at += 1
        for above in range(held, at, -1):
            used[above] = used[above - 1]
        used[at] = card
        held += 1
        put = place
        while put > 0 and own[put - 1] > card:
            own[put] = own[put - 1]
            put -= 1
        own[put] = card
    return held


@inlined
def insert(used, held, card):  # type: ignore[no-untyped-def]
    """Insert a card into sorted ones."""
    at = held
    while at > 0 and used[at - 1] > card:
        used[at] = used[at - 1]
        at -= 1
    used[at] = card
    return held + 1


@inlined
def packed_cards(p, q, r, d, e):  # type: ignore[no-untyped-def]
    """Five cards packed into one number, six bits each."""
    low = (np.int64(p) << 24) | (np.int64(q) << 18) | (np.int64(r) << 12)
    return low | (np.int64(d) << 6) | np.int64(e)


@inlined
def others_dealt(t0, t1, seat, seats, p, q, r, d, e, used, own):  # type: ignore[no-untyped-def]
    """Deal up to this seat, whose cards are left in `own`; return the stream after all seats."""
    used[0], used[1], used[2] = p, q, r
    held = insert(used, insert(used, 3, d), e)
    for _ in range(seat):
        number, t0, t1 = advance(t0, t1)
        held = further_seat(number, used, held, own)
    for _ in range(seats - 1 - seat):
        number, t0, t1 = advance(t0, t1)
    return t0, t1
