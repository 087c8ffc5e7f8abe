"""When a failed attempt is made again: pauses that double, with jitter, until a deadline (KIP-580).

The jitter keeps many clients that lost the same node from coming back together. Randomness is an argument, so that a simulation repeats.
``Backoff`` only computes; ``retry`` waits.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

import trio

from log_service.common.errors import ErrorCode, KafkaError

T = TypeVar("T")

JITTER = 0.2
MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A pause that doubles from ``first_ms`` to ``max_ms``, each moved by up to 20 % either way."""

    first_ms: int
    max_ms: int

    def delay_ms(self, attempt: int, rng: Random) -> float:
        """Return the pause before the retry that follows failed attempt number ``attempt`` (0 is the first)."""
        plain = self.first_ms * (1 << min(attempt, MAX_DOUBLINGS))
        return min(plain * rng.uniform(1 - JITTER, 1 + JITTER), self.max_ms)


def may_succeed_later(error: KafkaError) -> bool:
    """Whether the protocol calls the error retriable."""
    return error.is_retriable


async def retry(
    attempt: Callable[[int], Awaitable[T]],
    *,
    timeout_ms: float,
    backoff: Backoff,
    rng: Random,
    is_retriable: Callable[[KafkaError], bool] = may_succeed_later,
) -> T:
    """Return what ``attempt`` returns; after a retriable error pause and call it again, until ``timeout_ms`` have passed.

    ``attempt`` is given how many attempts failed before it.

    Raises:
        KafkaError: the first error that is not retriable; the last one when the time is over, REQUEST_TIMED_OUT when no attempt ended.
    """
    last_error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no response within {timeout_ms} ms")
    failed_count = 0
    with trio.move_on_after(timeout_ms / 1_000):
        while True:
            try:
                return await attempt(failed_count)
            except KafkaError as error:
                if not is_retriable(error):
                    raise
                last_error = error
            await trio.sleep(backoff.delay_ms(failed_count, rng) / 1_000)
            failed_count += 1
    raise last_error
