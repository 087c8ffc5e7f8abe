"""A call from an event loop returns, raises, is cancelled, or is refused once the client is closed.

Callbacks come back to the loop.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

import pytest
import trio

from log_service.client import KafkaError
from log_service.client.asyncio.bridge import Bridge
from log_service.client.asyncio.calls import OnAsyncio
from log_service.client.portal import Departed, Portal

PATIENCE_S = 20.0


class Client:
    """Hears how its block was left; closing takes until ``may_close``."""

    def __init__(self) -> None:
        self.left: list[type[BaseException] | None] = []
        self.is_closing = threading.Event()
        self.may_close = threading.Event()
        self.may_close.set()
        self.at_close: Callable[[], Awaitable[None]] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.left.append(kind)
        self.is_closing.set()
        await trio.to_thread.run_sync(self.may_close.wait, PATIENCE_S, abandon_on_cancel=True)
        if self.at_close is not None:
            await self.at_close()


class Face(OnAsyncio[Client]):
    """A client's face on asyncio that shows the bridge and the portal within."""

    @property
    def bridge(self) -> Bridge:
        return self._bridge

    @property
    def portal(self) -> Portal[Client]:
        return self._portal


async def wait_for(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE_S)


async def response(value: Any) -> Any:
    await trio.lowlevel.checkpoint()
    if isinstance(value, Exception):
        raise value
    return value


def test_a_call_returns_or_raises_what_the_function_did() -> None:
    async def main() -> None:
        async with Face(Client()) as face:
            call = face.bridge.call
            assert await call(lambda: response(3)) == 3
            assert (
                await face.bridge.call_sync(threading.current_thread)
                is not threading.current_thread()
            )
            with pytest.raises(ZeroDivisionError):
                await call(lambda: response(ZeroDivisionError()))
            assert await asyncio.gather(
                *(call(lambda n=n: response(n)) for n in range(50))  # type: ignore[misc]
            ) == list(range(50))
        with pytest.raises(KafkaError, match="the client is closed"):
            await call(lambda: response(3))
        await face.close()
        with pytest.raises(KafkaError, match="opens once"):
            await face.__aenter__()

    asyncio.run(main())


def test_a_cancelled_call_has_ended_over_there_before_its_task_goes_on() -> None:
    heard: list[str] = []

    async def main() -> None:
        begun = threading.Event()

        async def reluctant() -> None:
            try:
                begun.set()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.05)
                heard.append("ended")

        async with Face(Client()) as face:
            task = asyncio.create_task(face.bridge.call(reluctant))
            await wait_for(begun)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()  # more than one does not hasten it
            with pytest.raises(asyncio.CancelledError):
                await task
            assert heard == ["ended"]

    asyncio.run(main())


def test_a_result_that_came_as_the_task_was_cancelled_is_handed_over() -> None:
    """The two cross: the function has returned, the task does not know yet."""
    results: list[int] = []

    async def main() -> None:
        returned = threading.Event()

        async def quick() -> int:
            await trio.lowlevel.checkpoint()
            returned.set()
            return 3

        async with Face(Client()) as face:
            task = asyncio.create_task(face.bridge.call(quick, results.append))
            await asyncio.sleep(0)
            # The loop stands still: the result lies in the mailbox.
            assert returned.wait(PATIENCE_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert results == [3]

    asyncio.run(main())


def test_closing_ends_every_call_and_hears_calls_of_callbacks() -> None:
    async def main() -> None:
        client = Client()
        async with Face(client) as face:
            heard: list[Any] = []

            async def callback() -> None:
                heard.append(await face.bridge.call(lambda: response("while closing")))

            client.at_close = lambda: face.bridge.run_on_loop(callback)
            waiting = asyncio.create_task(face.bridge.call(trio.sleep_forever))
            await asyncio.sleep(0.01)
        with pytest.raises(KafkaError, match="the client is closed"):
            await waiting
        assert heard == ["while closing"]
        assert client.left == [None]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (ZeroDivisionError(), Exception),
        (asyncio.CancelledError(), Exception),
        (SystemExit(), BaseException),
    ],
)
def test_a_client_hears_how_its_block_was_left(
    error: BaseException, seen: type[BaseException]
) -> None:
    async def main() -> None:
        client = Client()
        with pytest.raises(type(error)):
            async with Face(client):
                raise error
        (kind,) = client.left
        assert kind is not None
        assert issubclass(kind, Exception) == (seen is Exception)

    asyncio.run(main())


def test_closing_that_is_cancelled_is_cut_short_and_still_ends() -> None:
    async def main() -> None:
        client = Client()
        client.may_close.clear()
        face = Face(client)
        await face.__aenter__()
        closing = asyncio.create_task(face.close())
        await wait_for(client.is_closing)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not face.portal._thread.is_alive() or face.portal.ended.done()

    asyncio.run(main())


def test_opening_that_is_cancelled_leaves_no_thread() -> None:
    class Slow(Client):
        async def __aenter__(self) -> Self:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.05)
            return self

    async def main() -> None:
        face = Face(Slow())
        task = asyncio.create_task(face.__aenter__())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert face.portal.ended.done()
        assert not face.is_open

    asyncio.run(main())


def test_without_an_event_loop_of_asyncio_nothing_is_opened() -> None:
    face = Face(Client())
    with pytest.raises(RuntimeError, match="no running event loop"):
        trio.run(face.__aenter__)
    assert face.portal._thread.ident is None


def test_opening_raises_what_the_client_raised() -> None:
    class Broken(Client):
        async def __aenter__(self) -> Self:
            raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with Face(Broken()):
                pass

    asyncio.run(main())


def test_a_client_belongs_to_the_loop_that_opened_it() -> None:
    client = Client()
    face = Face(client)
    asyncio.run(face.__aenter__())
    with pytest.raises(KafkaError, match="open one in each loop"):
        asyncio.run(face.bridge.call(lambda: response(3)))
    asyncio.run(face.close())
    assert client.left == [None]


@pytest.mark.parametrize("is_wake_pending", [False, True])
def test_a_loop_that_is_closed_under_a_client_ends_it(is_wake_pending: bool) -> None:
    """A client whose loop is gone ends as by an exception, and commits nothing.

    No task hears of calls that complete then.  A wake-up that the loop never came to hear used to
    be the last one, and the client lived on for as long as the process.
    """
    client = Client()
    face = Face(client)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(face.__aenter__())
    may_return = threading.Event()

    async def late() -> None:
        await trio.to_thread.run_sync(may_return.wait, PATIENCE_S)

    face.portal.begin(late, _nothing(face))
    if is_wake_pending:
        face.bridge.put(int)
    loop.close()
    may_return.set()
    face.portal.ended.result(PATIENCE_S)
    assert client.left == [Departed]


def _nothing(face: Face) -> Any:
    class Outcome:
        def set_result(self, result: object) -> None:
            face.bridge.put(lambda: None)

        set_exception = set_result

        def cancel(self) -> None:
            """Nobody waits."""

    return Outcome()


def test_a_client_that_nobody_closed_is_told_of_and_ended() -> None:
    client = Client()

    async def main() -> None:
        face = Face(client)
        await face.__aenter__()
        ended = face.portal.ended
        faces = [face]
        del face
        with pytest.warns(ResourceWarning, match="was never closed"):
            faces.clear()
        ended.result(PATIENCE_S)

    asyncio.run(main())
    assert client.left == [Departed]


def test_a_callback_runs_on_the_loop_with_the_context_of_the_one_who_opened() -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    heard: list[Any] = []

    async def slow() -> None:
        await asyncio.sleep(0)
        heard.append((request.get(), threading.current_thread()))

    def broken() -> None:
        raise ZeroDivisionError

    async def ended() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        request.set("opened")
        async with Face(Client()) as face:
            run = face.bridge.run_on_loop
            await face.bridge.call(lambda: run(slow))
            with pytest.raises(ZeroDivisionError):
                await face.bridge.call(lambda: run(broken))
            with pytest.raises(KafkaError, match="ended on its event loop by CancelledError"):
                await face.bridge.call(lambda: run(ended))

    asyncio.run(main())
    assert heard == [("opened", threading.current_thread())]


def test_a_callback_that_closes_the_client_is_told_not_to() -> None:
    """Each used to wait for the other: half a minute in a poll, and for ever while the client
    closed.
    """
    heard: list[str] = []

    async def main() -> None:
        client = Client()
        face = Face(client)

        async def close_it() -> None:
            with pytest.raises(KafkaError, match="must not close the client, which waits for it"):
                await face.close()
            heard.append("refused")

        client.at_close = lambda: face.bridge.run_on_loop(close_it)
        async with face, asyncio.timeout(PATIENCE_S):
            await face.bridge.call(lambda: face.bridge.run_on_loop(close_it))
        assert heard == ["refused", "refused"]

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_cancelling_a_call_cancels_the_callback_that_it_waits_for() -> None:
    heard: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def slow() -> None:
            begun.set()
            try:
                await asyncio.sleep(1_000)
            finally:
                heard.append("cancelled")

        async with Face(Client()) as face:
            task = asyncio.create_task(face.bridge.call(lambda: face.bridge.run_on_loop(slow)))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert heard == ["cancelled"]

    asyncio.run(main())


def test_an_async_generator_is_iterated_and_closed_early() -> None:
    closed = threading.Event()

    async def count() -> AsyncIterator[int]:
        try:
            for number in range(100):
                await trio.lowlevel.checkpoint()
                yield number
        finally:
            closed.set()

    async def main() -> None:
        async with Face(Client()) as face:
            assert [number async for number in face.bridge.iterate(count())] == list(range(100))
            closed.clear()
            async for number in face.bridge.iterate(count()):
                if number == 3:
                    break
            await wait_for(closed)

    asyncio.run(main())


def test_a_call_that_a_child_process_throws_away_is_the_parents_alone(tmp_path: Path) -> None:
    """A child process drops its copies of the parent's coroutines.

    It must not wait for locks whose threads it does not have.
    """

    async def main() -> None:
        async with Face(Client()) as face:
            call = face.bridge.call(trio.sleep_forever)
            call.send(None)
            token = face.portal._token
            assert token is not None
            lock, is_held, is_done = token._reentry_queue.lock, threading.Event(), threading.Event()

            def hold() -> None:
                with lock:
                    is_held.set()
                    is_done.wait()

            holder = threading.Thread(target=hold)
            holder.start()
            is_held.wait()
            child = os.fork()
            if child == 0:  # nothing of pytest may run in here
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(20)
                call.close()
                (tmp_path / "heard").write_text("it went on")
                os._exit(0)
            is_done.set()
            holder.join()
            os.waitpid(child, 0)  # noqa: ASYNC222 - the child must not wait for anything
            call.close()
            assert (tmp_path / "heard").exists()

    asyncio.run(main())


def test_a_child_process_is_refused_and_never_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with Face(Client()) as face:
            child = os.fork()
            if child == 0:  # nothing of pytest may run in here
                text = "nothing"
                try:
                    coroutine = face.bridge.call(lambda: response(3))
                    try:
                        coroutine.send(None)
                    except KafkaError as error:
                        text = str(error)
                    await face.close()
                except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
                    text = repr(error)
                (tmp_path / "heard").write_text(text)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0  # noqa: ASYNC222 - the child must not wait for anything
            assert (tmp_path / "heard").read_text().endswith("open one after the fork")
            assert await face.bridge.call(lambda: response(3)) == 3

    asyncio.run(main())
