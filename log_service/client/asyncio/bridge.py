"""Runs functions of an event loop in the client's own thread, and callbacks on the loop.

All messages from the client's thread go through one ``Mailbox``, so that many results wake the loop
once.

Invariants:

- A call ends only when its function has ended. If the caller is cancelled, the function is
  cancelled too, and the caller waits for its end.
- A call may have a callback ``on_result``. It gets the result of the function even if the caller
  was cancelled in the meantime.
- A client belongs to the loop that opened it. Calls from other loops and other processes are
  refused.
- If the loop of an open client is closed, the client closes as it does when an exception leaves its
  ``async with`` block.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context, copy_context
from inspect import isawaitable
from typing import Any, Generic, TypeVar

import trio

from log_service.client.asyncio.mailbox import Mailbox
from log_service.client.portal import Departed, Portal, Steps, closed
from log_service.common.errors import ErrorCode, KafkaError

T = TypeVar("T")

CALLBACK_CANCEL_S = 30.0
"""The longest time, in seconds, that the client's thread waits for a cancelled callback to end."""


class Bridge:
    """Connects one event loop with the thread of one client."""

    def __init__(self, portal: Portal[Any]) -> None:
        self._portal = portal
        self._mailbox = Mailbox(self._wake_loop, self._is_loop_closed)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        self._on_end: Callable[[], object] = int
        self._callbacks: set[asyncio.Task[None]] = set()
        self.put = self._mailbox.put
        """Run a function on the loop soon. Only the client's thread calls this."""

    @property
    def is_usable(self) -> bool:
        """Whether calls are possible now, in this process and from the running loop."""
        try:
            self.require_loop()
        except KafkaError:
            return False
        return True

    async def open(self, on_end: Callable[[], object] = int) -> None:
        """Open the client for the running loop.

        ``on_end`` is called on the loop when the client's thread has ended.

        Raises:
            RuntimeError: no event loop of asyncio is running.
            KafkaError: INVALID_REQUEST, the client was opened before.
            Exception: opening the client raised this exception.
        """
        loop = asyncio.get_running_loop()  # first, because without a loop no thread may start
        started = self._portal.start()
        self._loop, self._context, self._on_end = loop, copy_context(), on_end
        self._portal.ended.add_done_callback(lambda _: self.put(self._on_end))
        try:
            await asyncio.shield(asyncio.wrap_future(started))
        except asyncio.CancelledError as cancelled:
            await self.close(cancelled)
            raise

    async def close(self, error: BaseException | None = None) -> None:
        """Close the client, and wait for its thread to end. Idempotent, and possible from any loop.

        ``error`` is the exception that left the ``async with`` block. Exceptions of closing are
        raised. If the caller is cancelled while it waits, closing is cut short.

        Raises:
            KafkaError: INVALID_REQUEST, as ``require_no_callback``.
        """
        self.require_no_callback()
        if not self._portal.is_here or self._loop is None:
            return
        # A service on asyncio ends by cancellation. Records get the same time as after an error.
        self._portal.stop(Departed() if isinstance(error, asyncio.CancelledError) else error)
        ended = asyncio.wrap_future(self._portal.ended)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._portal.hurry()
            while not ended.done():
                await asyncio.wait([ended])
            raise
        self._portal.close()

    def require_no_callback(self) -> None:
        """Refuse a call that comes from a callback for which the client waits.

        Otherwise the callback and the client would wait for each other.

        Raises:
            KafkaError: INVALID_REQUEST.
        """
        if self._callbacks and asyncio.current_task() in self._callbacks:
            text = (
                "a rebalance callback must not close the client, which waits for it to return: have"
                " another task close it"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)

    def require_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, if calls from it are possible.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed, or belongs to another process or
                event loop.
        """
        self._portal.require_open()
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is None or running is not self._loop:
            text = (
                "the client belongs to the event loop that opened it, and is called from outside of"
                " it: open one in each loop"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return running

    async def call(
        self, function: Callable[[], Awaitable[T]], on_result: Callable[[T], object] | None = None
    ) -> T:
        """Run an async function in the client's thread. Return its result or raise its exception.

        ``on_result`` gets the result on the loop as soon as the result is known. If the caller is
        cancelled after the function has finished, ``on_result`` still gets the result.

        Raises:
            KafkaError: INVALID_REQUEST, as ``require_loop``, or the client was closed during the
                call.
            asyncio.CancelledError: the caller was cancelled. The function has ended.
        """
        return await self._begin(function, on_result).result()

    async def call_sync(self, function: Callable[[], T]) -> T:
        """Run a plain function in the client's thread. Raises as ``call``."""

        async def run() -> T:
            await trio.lowlevel.checkpoint()
            return function()

        return await self.call(run)

    async def iterate(self, source: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield the items of an async generator that runs in the client's thread.

        The next item is produced while the caller processes the current one. When the iteration
        ends, the generator is closed in the client's thread.
        """
        steps = Steps(source)
        ahead = self._begin(steps.step)
        try:
            while True:
                try:
                    item = await ahead.result()
                except StopAsyncIteration:
                    return
                ahead = self._begin(steps.step)
                yield item
                del item
        finally:
            if self._portal.is_open:
                await ahead.abandon()
                await self.call(steps.close)

    async def run_on_loop(self, function: Callable[[], Awaitable[None] | None]) -> None:
        """Run a callback of the application on its loop, and wait for its end.

        Only the client's thread calls this. Exceptions of the callback are raised.
        """
        assert self._loop is not None, "only an open client calls back"
        if self._loop.is_closed():
            return
        errand = _Errand(function, self._loop, self._portal.post, self._callbacks)
        self.put(errand.start)
        try:
            await errand.has_ended.wait()
        except trio.Cancelled:
            if not self._loop.is_closed():
                self.put(errand.cancel)
                with trio.CancelScope(
                    shield=True, deadline=trio.current_time() + CALLBACK_CANCEL_S
                ):
                    await errand.has_ended.wait()
            raise
        if errand.error is not None:
            raise errand.error

    def _begin(
        self, function: Callable[[], Awaitable[T]], on_result: Callable[[T], object] | None = None
    ) -> "_Call[T]":
        call = _Call(self.require_loop(), self._mailbox, self._portal, on_result)
        call.scope = self._portal.begin(function, call)
        return call

    def _is_loop_closed(self) -> bool:
        return self._loop is not None and self._loop.is_closed()

    def _wake_loop(self) -> None:
        assert self._loop is not None, "nothing is put before it is open"
        try:
            self._loop.call_soon_threadsafe(self._mailbox.empty, context=self._context)
        except RuntimeError:  # the loop is closed, so no task can use the client any more
            self._portal.stop(Departed())


class _Call(Generic[T]):
    """A function that runs in the client's thread, and a task that waits for the function.

    The client's thread calls ``set_result``, ``set_exception`` and ``cancel``.
    """

    scope: trio.CancelScope

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        mailbox: Mailbox,
        portal: Portal[Any],
        on_result: Callable[[T], object] | None,
    ) -> None:
        self._loop = loop
        self._mailbox = mailbox
        self._portal = portal
        self._on_result = on_result
        self._future: asyncio.Future[None] = loop.create_future()
        self._is_done = False
        self._results: list[T] = []  # empty, or the only result
        self._error: BaseException | None = None

    def set_result(self, result: T, /) -> None:
        self._results.append(result)
        self._mailbox.put(self._end)

    def set_exception(self, error: BaseException, /) -> None:
        self._error = error
        self._mailbox.put(self._end)

    def cancel(self) -> None:
        self._error = closed()
        self._mailbox.put(self._end)

    async def result(self) -> T:
        """Wait for the result, and return it or raise the function's exception.

        If the waiting task is cancelled, the function is cancelled, and ends before this raises.
        """
        try:
            if not self._is_done:
                await self._future
        except asyncio.CancelledError:
            await self._end_early()
            raise
        except BaseException:  # the coroutine is being closed, so it may not await anything
            self._portal.post(self.scope.cancel)
            raise
        if self._error is not None:
            raise self._error
        return self._results[0]

    async def abandon(self) -> None:
        """Cancel the function, and return when it has ended. The result is dropped."""
        if not self._is_done:
            await self._end_early()

    async def _end_early(self) -> None:
        self._portal.post(self.scope.cancel)
        while not self._is_done:
            self._future = self._loop.create_future()
            try:
                await self._future
            except asyncio.CancelledError:
                continue  # the function is cancelled already, and ends soon

    def _end(self) -> None:
        """Pass on the result, and wake the waiting task. This runs on the loop."""
        self._is_done = True
        if self._on_result is not None and self._results:
            self._on_result(self._results[0])
        if not self._future.done():
            self._future.set_result(None)


class _Errand:
    """A callback of the application that runs on its loop, while the client's thread waits."""

    def __init__(
        self,
        function: Callable[[], Awaitable[None] | None],
        loop: asyncio.AbstractEventLoop,
        post: Callable[[Callable[[], object]], bool],
        running: set["asyncio.Task[None]"],
    ) -> None:
        self._function = function
        self._loop = loop
        self._post = post
        self._running = running
        self._task: asyncio.Task[None] | None = None
        self.has_ended = trio.Event()
        self.error: Exception | None = None

    def start(self) -> None:
        """Run the callback. Only the loop calls this."""
        self._task = self._loop.create_task(self._run())
        self._running.add(self._task)
        self._task.add_done_callback(self._note_end)

    def cancel(self) -> None:
        """Cancel the callback. Only the loop calls this."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        result = self._function()
        if isawaitable(result):
            await result

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Exception):
            self.error = KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a callback was ended on its event loop by {type(error).__name__}",
            )
        else:
            self.error = error
        self._post(self.has_ended.set)
