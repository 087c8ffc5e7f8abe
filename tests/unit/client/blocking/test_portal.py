"""Calls from other threads: returned, raised, interrupted, and refused once closed."""

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from log_service.client.portal import Portal
from log_service.common.errors import KafkaError


@asynccontextmanager
async def client(heard: list[str], failure: Exception | None = None) -> AsyncIterator[str]:
    heard.append("opened")
    if failure is not None:
        raise failure
    yield "client"
    heard.append("closed")


async def response(value: Any) -> Any:
    await trio.lowlevel.checkpoint()
    if isinstance(value, Exception):
        raise value
    return value


def test_a_call_returns_or_raises_what_the_function_did() -> None:
    heard: list[str] = []
    portal = Portal(client(heard), "test")
    assert portal.open() == "client"
    assert portal.call(lambda: response(3)) == 3
    assert portal.call_sync(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        portal.call(lambda: response(ZeroDivisionError()))
    portal.close()
    portal.close()
    assert heard == ["opened", "closed"]
    with pytest.raises(KafkaError, match="the client is closed"):
        portal.call(lambda: response(3))


def test_opening_raises_what_the_client_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Portal(client([], ZeroDivisionError()), "test").open()


def test_threads_call_at_the_same_time() -> None:
    portal = Portal(client([]), "test")
    portal.open()
    barrier = threading.Barrier(8)
    results: list[int] = []

    def work(number: int) -> None:
        barrier.wait(10)
        results.append(portal.call(lambda: response(number)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    portal.close()
    assert sorted(results) == list(range(8))


def test_closing_ends_every_call_that_still_waits() -> None:
    portal = Portal(client([]), "test")
    portal.open()
    failures: list[BaseException] = []
    waiting = threading.Event()

    async def wait_for_ever() -> None:
        waiting.set()
        await trio.sleep_forever()

    def work() -> None:
        try:
            portal.call(wait_for_ever)
        except KafkaError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert waiting.wait(10)
    portal.close()
    thread.join(10)
    assert "the client is closed" in str(failures[0])


def test_an_interrupted_wait_cancels_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches the thread that waits for the result; the call over there must not go on."""
    portal = Portal(client([]), "test")
    portal.open()
    cancelled = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    def interrupt(self: object, timeout: float | None = None) -> None:
        time.sleep(0.01)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupt)
        with pytest.raises(KeyboardInterrupt):
            portal.call(wait_for_ever)
    assert cancelled.wait(10)
    portal.close()


def test_a_call_that_was_interrupted_has_ended_when_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A poll after Ctrl-C was refused every other time, because the interrupted one had not ended."""
    portal = Portal(client([]), "test")
    portal.open()
    told: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await trio.sleep_forever()
        finally:
            told.append("ended")

    async def begin() -> None:
        told.append("began")
        await trio.lowlevel.checkpoint()

    def interrupt(self: object, timeout: float | None = None) -> None:
        time.sleep(0.01)
        raise KeyboardInterrupt

    for _ in range(20):
        with monkeypatch.context() as patch:
            patch.setattr("concurrent.futures.Future.result", interrupt)
            with pytest.raises(KeyboardInterrupt):
                portal.call(wait_for_ever)
        portal.call(begin)
    portal.close()
    assert told == ["ended", "began"] * 20


def test_an_async_generator_is_iterated_and_closed_early() -> None:
    portal = Portal(client([]), "test")
    portal.open()
    closed = threading.Event()

    async def count() -> AsyncIterator[int]:
        try:
            for number in range(100):
                await trio.lowlevel.checkpoint()
                yield number
        finally:
            closed.set()

    assert list(portal.iterate(count())) == list(range(100))
    closed.clear()
    iterator = portal.iterate(count())
    assert [next(iterator), next(iterator)] == [0, 1]
    iterator.close()  # type: ignore[attr-defined]
    assert closed.wait(10)
    portal.close()


def test_the_next_item_is_made_while_the_caller_looks_at_one() -> None:
    portal = Portal(client([]), "test")
    portal.open()
    begun = [threading.Event() for _ in range(4)]
    failed = threading.Event()

    async def count() -> AsyncIterator[int]:
        for number in range(3):
            begun[number].set()
            await trio.lowlevel.checkpoint()
            yield number
        failed.set()
        raise ZeroDivisionError

    iterator = portal.iterate(count())
    assert next(iterator) == 0
    assert begun[1].wait(10)
    assert not begun[2].is_set(), "one item ahead, not more"
    assert [next(iterator), next(iterator)] == [1, 2]
    assert failed.wait(10)
    with pytest.raises(ZeroDivisionError):
        next(iterator)
    portal.close()


def test_giving_an_iteration_up_ends_what_is_made_ahead() -> None:
    portal = Portal(client([]), "test")
    portal.open()
    left = threading.Event()

    async def one_and_then_none() -> AsyncIterator[int]:
        yield 1
        try:
            await trio.sleep_forever()
        finally:
            left.set()

    for number in portal.iterate(one_and_then_none()):
        assert number == 1
        break
    assert left.wait(10)
    portal.close()


@pytest.mark.parametrize(
    ("error", "seen"),
    [(None, None), (ZeroDivisionError(), Exception), (KeyboardInterrupt(), BaseException)],
)
def test_a_client_hears_how_its_block_was_left(
    error: BaseException | None, seen: type[BaseException] | None
) -> None:
    left: list[type[BaseException] | None] = []

    class Client:
        async def __aenter__(self) -> str:
            return "client"

        async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
            left.append(kind)

    portal = Portal(Client(), "test")
    portal.open()
    portal.close(error)
    (kind,) = left
    assert (kind is None) == (seen is None)
    if kind is not None and seen is not None:
        assert issubclass(kind, Exception) == (seen is Exception)


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_call_that_comes_while_the_client_closes_is_served_or_refused_and_disturbs_nothing(
    is_answered: bool,
) -> None:
    """It used to break the run: closing was cut short, records were lost, and the call never
    returned.
    """
    heard: list[Any] = []
    closing, may_close = threading.Event(), threading.Event()

    @asynccontextmanager
    async def slow_to_close() -> AsyncIterator[str]:
        yield "client"
        closing.set()
        await trio.to_thread.run_sync(may_close.wait, 10)
        heard.append("closed")

    portal = Portal(slow_to_close(), "test")
    portal.open()

    def late() -> None:
        assert closing.wait(10)
        try:
            heard.append(portal.call(partial(response, 3) if is_answered else trio.sleep_forever))
        except KafkaError as error:
            heard.append(str(error))
        finally:
            may_close.set()

    if not is_answered:
        threading.Timer(0.2, may_close.set).start()
    thread = threading.Thread(target=late)
    thread.start()
    portal.close()
    thread.join(10)
    assert heard == (
        [3, "closed"] if is_answered else ["closed", "the client is closed: use it inside 'with'"]
    )


def test_a_call_that_comes_after_a_task_of_the_client_failed_ends_as_well() -> None:
    """It used to break the run, and to wait for ever."""
    may_fail, closing, may_close = threading.Event(), threading.Event(), threading.Event()
    heard: list[Any] = []

    async def fail() -> None:
        await trio.to_thread.run_sync(may_fail.wait, 10)
        raise ZeroDivisionError

    @asynccontextmanager
    async def failing() -> AsyncIterator[str]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            try:
                yield "client"
            finally:
                closing.set()
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(may_close.wait, 10)

    portal = Portal(failing(), "test")
    portal.open()
    may_fail.set()
    assert closing.wait(10)

    def late() -> None:
        try:
            heard.append(portal.call(partial(response, 3)))
        except KafkaError as error:
            heard.append(str(error))
        finally:
            may_close.set()

    thread = threading.Thread(target=late, daemon=True)
    thread.start()
    thread.join(20)
    assert heard == [3]
    with pytest.raises(ZeroDivisionError):
        portal.close()
