"""Guesses of passwords are slowed down, for each address and user.

``Guesses`` decides how long an attempt waits before its password is looked at. The first wrong ones of
a pair wait for nothing, and each further one doubles the time until the next. Attempts wait in turns,
so that many connections guess no faster than one. Invariants: the caller passes the clock; memory is
bounded, and the pair that was quiet for longest is forgotten first.
"""

from collections import OrderedDict
from dataclasses import dataclass

FREE_GUESSES = 5
FIRST_STEP_MS = 200
MAX_STEP_MS = 5_000
MAX_WAIT_MS = 10_000
"""An attempt whose turn comes later is refused unseen: others of its pair are waiting already."""
FORGET_MS = 600_000
MAX_PAIRS = 10_000
MAX_NAME_CHARACTERS = 256


@dataclass(slots=True)
class _Pair:
    failures: int
    next_turn_ms: int
    last_failure_ms: int


class Guesses:
    """The wrong passwords of each address and user."""

    def __init__(self, max_pairs: int = MAX_PAIRS) -> None:
        self._max_pairs = max_pairs
        self._pairs = OrderedDict[tuple[str, str], _Pair]()

    def __len__(self) -> int:
        return len(self._pairs)

    def turn_ms(self, address: str, user: str, now_ms: int) -> int | None:
        """Take a turn, and return how long to wait for it in milliseconds; None: too many wait already."""
        pair = self._pairs.get(_key(address, user))
        if pair is None or pair.failures < FREE_GUESSES or now_ms - pair.last_failure_ms > FORGET_MS:
            return 0
        turn_ms = max(now_ms, pair.next_turn_ms)
        if turn_ms - now_ms > MAX_WAIT_MS:
            return None
        pair.next_turn_ms = turn_ms + step_ms(pair.failures)
        return turn_ms - now_ms

    def note_failure(self, address: str, user: str, now_ms: int) -> None:
        """Count a wrong password."""
        key = _key(address, user)
        pair = self._pairs.pop(key, None)
        if pair is None or now_ms - pair.last_failure_ms > FORGET_MS:
            pair = _Pair(failures=0, next_turn_ms=now_ms, last_failure_ms=now_ms)
        pair.failures += 1
        pair.last_failure_ms = now_ms
        pair.next_turn_ms = max(pair.next_turn_ms, now_ms + step_ms(pair.failures))
        self._pairs[key] = pair
        while len(self._pairs) > self._max_pairs:
            self._pairs.popitem(last=False)

    def note_success(self, address: str, user: str) -> None:
        """Forget the wrong passwords of a pair that knows the right one."""
        self._pairs.pop(_key(address, user), None)


def step_ms(failures: int) -> int:
    """Return the time between two turns of a pair with so many wrong passwords."""
    doublings = min(failures - FREE_GUESSES, 30)
    return 0 if doublings < 0 else min(FIRST_STEP_MS << doublings, MAX_STEP_MS)


def _key(address: str, user: str) -> tuple[str, str]:
    return address, user[:MAX_NAME_CHARACTERS]
