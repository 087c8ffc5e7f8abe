"""Slows down guesses of passwords, for each address and user.

``Guesses`` decides how long an attempt waits before its password is compared. The first wrong
passwords of an address and user cause no wait, and each further one doubles the time until the next
attempt. An unfinished attempt counts like a wrong one, so that parallel attempts guess no faster
than one after the other. Another address of the same user does not wait, so that a stranger cannot
lock a user out.

Invariants:

- The caller passes in the time.
- Every attempt that has begun ends once.
- Memory is bounded. The pair of address and user without attempts for the longest time is forgotten
  first.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from log_service.common.addresses import network_of

FREE_GUESSES: Final = 5
FIRST_STEP_MS: Final = 200
MAX_STEP_MS: Final = 5_000
MAX_WAIT_MS: Final = 10_000
"""The longest wait.

An attempt that would have to wait longer is refused, because others of its pair wait already.
"""
FORGET_MS: Final = 600_000
MAX_PAIRS: Final = 10_000
MAX_NAME_CHARACTERS: Final = 256


@dataclass(slots=True)
class _Pair:
    next_turn_ms: int
    failures: int = 0
    in_flight: int = 0
    last_failure_ms: int = 0


class Guesses:
    """The attempts of each pair of address and user. An IPv6 network counts as one address."""

    def __init__(self, max_pairs: int = MAX_PAIRS) -> None:
        self._max_pairs = max_pairs
        self._pairs = OrderedDict[tuple[str, str], _Pair]()

    def __repr__(self) -> str:
        return f"<Guesses pairs={len(self._pairs)}>"

    def __len__(self) -> int:
        return len(self._pairs)

    def begin(self, address: str, user: str, now_ms: int) -> int | None:
        """Begin an attempt, and return its wait in milliseconds, or None to refuse it.

        For each attempt that was not refused, the caller must call one of the other methods.
        """
        pair = self._pair(_key(address, user), now_ms)
        before = pair.failures + pair.in_flight
        turn_ms = now_ms if before < FREE_GUESSES else max(now_ms, pair.next_turn_ms)
        if turn_ms - now_ms > MAX_WAIT_MS:
            return None
        pair.in_flight += 1
        pair.next_turn_ms = max(pair.next_turn_ms, turn_ms + step_ms(before + 1))
        return turn_ms - now_ms

    def note_failure(self, address: str, user: str, now_ms: int) -> None:
        """End an attempt with a wrong password."""
        pair = self._pair(_key(address, user), now_ms)
        pair.in_flight = max(pair.in_flight - 1, 0)
        pair.failures += 1
        pair.last_failure_ms = now_ms
        pair.next_turn_ms = max(pair.next_turn_ms, now_ms + step_ms(pair.failures))

    def note_success(self, address: str, user: str) -> None:
        """End an attempt with the right password, and forget the pair's wrong passwords."""
        self._end(_key(address, user), is_right=True)

    def note_unseen(self, address: str, user: str) -> None:
        """End an attempt whose password was not compared."""
        self._end(_key(address, user), is_right=False)

    def _pair(self, key: tuple[str, str], now_ms: int) -> _Pair:
        pair = self._pairs.pop(key, None)
        if pair is None:
            pair = _Pair(next_turn_ms=now_ms)
        elif pair.failures and now_ms - pair.last_failure_ms > FORGET_MS:
            pair = _Pair(next_turn_ms=now_ms, in_flight=pair.in_flight)
        self._pairs[key] = pair
        while len(self._pairs) > self._max_pairs:
            self._pairs.popitem(last=False)
        return pair

    def _end(self, key: tuple[str, str], *, is_right: bool) -> None:
        pair = self._pairs.get(key)
        if pair is None:
            return
        pair.in_flight = max(pair.in_flight - 1, 0)
        if is_right:
            pair.failures = 0
        if not pair.failures and not pair.in_flight:
            del self._pairs[key]


def step_ms(failures: int) -> int:
    """Return the time in ms between two attempts of a pair after ``failures`` wrong passwords."""
    doublings = min(failures - FREE_GUESSES, 30)
    return 0 if doublings < 0 else min(FIRST_STEP_MS << doublings, MAX_STEP_MS)


def _key(address: str, user: str) -> tuple[str, str]:
    return network_of(address), user[:MAX_NAME_CHARACTERS]
