"""Repeats failed attempts until a deadline (KIP-580), or tries further nodes beside a slow one.

The pauses between attempts double, with jitter. The jitter keeps many clients that lost the same
node from returning at the same time. Randomness is an argument, so that a simulation can be
repeated. ``Backoff`` only computes; ``retry`` and ``first_success`` wait.
"""

from collections.abc import Awaitable, Callable, Sequence
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
    """A pause that doubles from ``first_ms`` to ``max_ms``.

    Each pause is made up to 20 % shorter or longer at random.
    """

    first_ms: int
    max_ms: int

    def delay_ms(self, attempt: int, rng: Random) -> float:
        """Return the pause before the retry that follows failed attempt number ``attempt`` (0 is
        the first).
        """
        plain = self.first_ms * (1 << min(attempt, MAX_DOUBLINGS))
        return min(plain * rng.uniform(1 - JITTER, 1 + JITTER), self.max_ms)


def may_succeed_later(error: KafkaError) -> bool:
    """Whether Kafka's protocol classes the error as retriable."""
    return error.is_retriable


async def retry(
    attempt: Callable[[int], Awaitable[T]],
    *,
    timeout_ms: float,
    backoff: Backoff,
    rng: Random,
    is_retriable: Callable[[KafkaError], bool] = may_succeed_later,
) -> T:
    """Call ``attempt`` until it succeeds, with pauses, and return its result.

    An attempt is repeated only after a retriable error, and until ``timeout_ms`` have passed.
    ``attempt`` is given how many attempts failed before it.

    Raises:
        KafkaError: the first error that is not retriable; the last one when the time is over,
            REQUEST_TIMED_OUT when no attempt ended.
    """
    last_error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no response within {timeout_ms} ms")
    failed_count = 0
    try:
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
    finally:
        del last_error  # its traceback holds this frame


async def first_success(attempts: Sequence[Callable[[], Awaitable[T]]], *, stagger_ms: float) -> T:
    """Return the result of the first attempt to succeed, and cancel the others.

    ``attempts`` must not be empty. Each begins when the one before it has failed, or after
    ``stagger_ms`` without a result. A node that does not respond therefore does not hold up the
    attempts at other nodes.

    Raises:
        KafkaError: all failed; the error of the one that failed last.
    """
    if len(attempts) == 1:
        return await attempts[0]()
    results: list[T] = []
    errors: list[KafkaError] = []

    async def run(attempt: Callable[[], Awaitable[T]], ended: trio.Event) -> None:
        try:
            results.append(await attempt())
            nursery.cancel_scope.cancel()
        except KafkaError as error:
            errors.append(error)
        finally:
            ended.set()

    try:
        async with trio.open_nursery() as nursery:
            for attempt in attempts:
                ended = trio.Event()
                nursery.start_soon(run, attempt, ended)
                with trio.move_on_after(stagger_ms / 1_000):
                    await ended.wait()
        if not results:
            raise errors[-1]
        return results[0]
    finally:
        errors.clear()  # their tracebacks hold the frames that hold this list
