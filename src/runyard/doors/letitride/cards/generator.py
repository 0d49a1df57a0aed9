"""Random cards: each session has its own 128-bit seed, from which its generator starts.

    root seed, session number ──SeedSequence──▶ 128 bits ──xoroshiro128++──▶ one number a hand

A hand always takes one 64-bit number, from which the cards of the first seat and the community
cards are derived. Further seats use a second generator and the dealer's discards a third, so the
first seat sees the same cards regardless of both. 52·51·50·49·48 orders don't divide 2⁶⁴ evenly,
which favours some of them by less than 2 parts in 10¹¹.

Everything here is plain Python; `kernel` does the same, compiled.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runyard.doors.letitride.cards.cards import DECK
from runyard.spec.seeds import key_of

Seeds = NDArray[np.uint64]

ORDERS = 52 * 51 * 50 * 49 * 48
"""The number of ordered deals of five cards."""

SESSION_KEY = key_of("letitride session")
"""Seed key of all sessions: with the same root seed, session n always has the same cards."""

FURTHER_SEATS, DISCARDS = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
"""Salts that separate the streams of further seats and of discards from a session's own."""

_MASK = (1 << 64) - 1


class Generator:
    """xoroshiro128++ of Blackman and Vigna: 128 bits of state, a period of 2¹²⁸ − 1."""

    def __init__(self, first: int, second: int) -> None:
        if not first | second:  # the one state that it can't leave
            first = 1
        self._first, self._second = first, second

    def next(self) -> int:
        """The next 64 bits."""
        first, second = self._first, self._second
        found = (_rotated((first + second) & _MASK, 17) + first) & _MASK
        second ^= first
        self._first = _rotated(first, 49) ^ second ^ ((second << 21) & _MASK)
        self._second = _rotated(second, 28)
        return found


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def mixed(value: int) -> int:
    """The finaliser of SplitMix64, which decorrelates 64 bits."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def apart(seed: tuple[int, int], salt: int) -> Generator:
    """Another generator for a session, separated by a salt."""
    first, second = seed
    return Generator(mixed((first + salt) & _MASK), mixed((second + salt) & _MASK))


class Deal(NamedTuple):
    """The cards of one hand, in the order in which they were dealt."""

    seats: tuple[tuple[int, int, int], ...]
    community: tuple[int, int]


def deals(seed: tuple[int, int], seats: int) -> Iterator[Deal]:
    """The hands of a session, without end."""
    own, others = Generator(*seed), apart(seed, FURTHER_SEATS)
    while True:
        left = list(range(DECK))
        a, b, c, d, e = _taken(left, own.next(), 5)
        further = [_taken(left, others.next(), 3) for _ in range(seats - 1)]
        yield Deal(((a, b, c), *((x, y, z) for x, y, z in further)), (d, e))


def discarded(seed: tuple[int, int], hand: int, deal: Deal, count: int) -> list[int]:
    """The dealer's discards in a hand; no dealt cards depend on them."""
    left = sorted(
        set(range(DECK)) - {card for cards in (*deal.seats, deal.community) for card in cards}
    )
    stream = apart(seed, (DISCARDS * (2 * hand + 1)) & _MASK)
    return [_taken(left, stream.next(), 1)[0] for _ in range(count)]


def _taken(left: list[int], number: int, count: int) -> list[int]:
    """Take `count` of the remaining cards, chosen by a number's digits in base 52, 51, …"""
    found = []
    for _ in range(count):
        number, place = divmod(number, len(left))
        found.append(left.pop(place))
    return found


def session_seeds(root: int, first: int, count: int) -> Seeds:
    """The seeds of sessions `first`, `first + 1`, …: a row of two 64-bit numbers each.

    Equal to `runyard.spec.seeds.sequence(root, SESSION_KEY, session).generate_state(2)`, computed
    for many sessions at once: the words that they share are mixed in only once.
    """
    words = [*_words(root), *struct.unpack("<4I", SESSION_KEY)]
    words[len(_words(root)) : len(_words(root))] = [0] * max(0, 4 - len(_words(root)))
    pool = _Pool()
    for word in words:
        pool.take(np.uint32(word))
    pool.take(np.arange(first, first + count, dtype=np.uint64).astype(np.uint32))
    return pool.state()


def _words(number: int) -> list[int]:
    found = [number & 0xFFFFFFFF]
    while number := number >> 32:
        found.append(number & 0xFFFFFFFF)
    return found


class _Pool:
    """The pool of numpy's SeedSequence, for many values of the last word at once."""

    def __init__(self) -> None:
        self._words: list[NDArray[np.uint32] | np.uint32] = []
        self._constant = 0x43B0D7E5

    def take(self, word: NDArray[np.uint32] | np.uint32) -> None:
        """Mix in one word: the first four fill the pool, further ones change all of it."""
        if len(self._words) < 4:
            self._words.append(self._hashed(word))
            if len(self._words) == 4:
                self._stir()
            return
        self._words = [_mix(held, self._hashed(word)) for held in self._words]

    def state(self) -> Seeds:
        """128 bits for each value."""
        constant, found = 0x8B51F9DD, []
        for held in self._words:
            word = np.atleast_1d(held) ^ np.uint32(constant)
            constant = (constant * 0x58F38DED) & 0xFFFFFFFF
            word = word * np.uint32(constant)
            found.append(word ^ (word >> np.uint32(16)))
        return np.stack(found, axis=1).astype("<u4").view("<u8").astype(np.uint64)

    def _stir(self) -> None:
        for source in range(4):
            for target in range(4):
                if source != target:
                    held = self._hashed(self._words[source])
                    self._words[target] = _mix(self._words[target], held)

    def _hashed(self, word: NDArray[np.uint32] | np.uint32) -> NDArray[np.uint32]:
        found = np.atleast_1d(word) ^ np.uint32(self._constant)
        self._constant = (self._constant * 0x931E8875) & 0xFFFFFFFF
        found = found * np.uint32(self._constant)
        return found ^ (found >> np.uint32(16))


def _mix(held: NDArray[np.uint32] | np.uint32, word: NDArray[np.uint32]) -> NDArray[np.uint32]:
    found: NDArray[np.uint32] = np.uint32(0xCA01F9DD) * held - np.uint32(0x4973F715) * word
    return found ^ (found >> np.uint32(16))
