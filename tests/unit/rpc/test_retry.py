"""Attempts are made again after pauses that double with jitter, until a deadline."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest
import trio
from trio.testing import MockClock

from log_service.common.errors import ErrorCode, KafkaError
from log_service.rpc.retry import Backoff, first_success, retry
from tests.helpers.garbage import counted_garbage

BACKOFF = Backoff(first_ms=100, max_ms=1_000)


def play(
    attempt: Callable[[int], Awaitable[str]], **options: Callable[[KafkaError], bool]
) -> tuple[str, float]:
    """Return (result, seconds) of ``retry`` within ten virtual seconds."""

    async def main() -> tuple[str, float]:
        result = await retry(attempt, timeout_ms=10_000, backoff=BACKOFF, rng=Random(3), **options)
        return result, trio.current_time()

    return trio.run(main, clock=MockClock(autojump_threshold=0))


async def fail(failed_count: int, code: ErrorCode = ErrorCode.NETWORK_EXCEPTION) -> str:
    await trio.lowlevel.checkpoint()
    raise KafkaError(code, f"attempt {failed_count}")


def test_backoff_doubles_within_its_jitter_up_to_its_maximum() -> None:
    rng = Random(3)
    for attempt, plain in enumerate((100, 200, 400, 800)):
        assert 0.8 * plain <= BACKOFF.delay_ms(attempt, rng) <= 1.2 * plain
    assert {BACKOFF.delay_ms(attempt, rng) for attempt in (10, 1_000_000)} == {1_000}


def test_an_attempt_that_succeeds_ends_the_pauses() -> None:
    async def attempt(failed_count: int) -> str:
        return "done" if failed_count == 3 else await fail(failed_count)

    result, seconds = play(attempt)
    assert result == "done"
    assert 0.56 <= seconds <= 0.84


def test_an_error_that_is_not_retriable_is_raised_at_once() -> None:
    async def attempt(failed_count: int) -> str:
        return await fail(failed_count, ErrorCode.INVALID_REQUEST)

    with pytest.raises(KafkaError, match="attempt 0"):
        play(attempt)
    with pytest.raises(KafkaError, match="attempt 0"):
        play(fail, is_retriable=lambda _: False)


def test_the_last_error_is_raised_at_the_deadline() -> None:
    with pytest.raises(KafkaError, match=r"attempt 1\d"):
        play(fail)


def test_an_attempt_that_hangs_from_the_start_is_a_timeout() -> None:
    async def attempt(failed_count: int) -> str:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(KafkaError, match="no response within 10000 ms") as caught:
        play(attempt)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_failed_attempts_leave_no_garbage() -> None:
    async def attempt(failed_count: int) -> str:
        return "done" if failed_count == 3 else await fail(failed_count)

    async def never() -> str:
        return await fail(0)

    async def main() -> None:
        for each in (attempt, fail):
            with suppress(KafkaError):
                await retry(each, timeout_ms=10_000, backoff=BACKOFF, rng=Random(3))
        with suppress(KafkaError):
            await first_success([never, never], stagger_ms=1)

    with counted_garbage() as left:
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert left == {}
