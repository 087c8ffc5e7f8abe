"""Runs trio in a background thread and accepts calls from other threads.

A call from another thread runs in the trio thread while the caller waits. An exception that
interrupts the wait cancels the call. A caller that cannot wait, such as an event loop, passes an
``Outcome`` instead. This module works for any client and any event loop.

Invariants: every accepted call ends with a result or an error, also when trio's run ends. Closing
cancels the calls in progress. Calls that arrive during closing are executed until the client is
closed, because its callbacks may call it. The thread ends with ``close``. It is a daemon, so it
never keeps a process alive. A forked process does not have the thread, so every call there is
refused and closing does nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from os import getpid
from threading import Thread, current_thread
from typing import Generic, Protocol, TypeVar

import trio

from log_service.common.errors import ErrorCode, KafkaError

C = TypeVar("C")
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

END_S = 1.0
"""The longest time, in seconds, that Ctrl-C waits for the end of the call that it cancelled.

The call itself may last longer, for example if a callback of the application runs in it.
"""


class Outcome(Protocol[T_contra]):
    """Receives the result of a call, once, in the trio thread.

    ``concurrent.futures.Future`` has this interface.
    """

    def set_result(self, result: T_contra, /) -> None:
        """Receive the return value of the function."""

    def set_exception(self, error: BaseException, /) -> None:
        """Receive the exception of the function."""

    def cancel(self) -> object:
        """Note that the function was cancelled, or never ran."""


class Departed(Exception):  # noqa: N818 - it says what happened in the caller's thread, where it is raised by its own name
    """An exception ended the caller's ``with`` block.

    It is raised in the ``async with`` block in the client's thread, which then ends likewise.
    """


class DepartedAtOnce(BaseException):
    """Ctrl-C or an exit ended the caller's ``with`` block.

    As ``Departed``, but closing the client must not take long.
    """


class Portal(Generic[C]):
    """Runs one client in a background thread, from ``start`` or ``open`` until it is stopped.

    The thread enters ``opened`` with ``async with``, and leaves it to close the client.
    """

    def __init__(self, opened: AbstractAsyncContextManager[C], name: str) -> None:
        self._opened = opened
        self._started: Future[C] = Future()
        self.ended: Future[None] = Future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop = trio.Event()
        self._is_stopping = False
        self._haste = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._failure: BaseException | None = None
        self._departure: BaseException | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._process_id = getpid()
        self.is_running = False

    @property
    def is_here(self) -> bool:
        """Whether this is the process that opened the client, not a child of it."""
        return self._process_id == getpid()

    @property
    def is_open(self) -> bool:
        """Whether calls are accepted."""
        return self.is_running and self.is_here

    def require_open(self) -> None:
        """Check that calls are accepted.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed, or belongs to the parent process of a
                fork.
        """
        if self._process_id != getpid():
            text = (
                f"the client was opened in process {self._process_id} and this is its child"
                f" {getpid()}: open one after the fork"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if not self.is_running:
            raise closed()

    def require_other_thread(self) -> None:
        """Check that the caller is not the client's own thread.

        A delivery callback that waits there would wait for itself.

        Raises:
            KafkaError: INVALID_REQUEST, it is the client's own thread.
        """
        if current_thread() is self._thread:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "a callback runs in the client's own thread and must not wait for the client",
            )

    # Opening and closing

    def start(self) -> "Future[C]":
        """Start the thread and return without waiting.

        The future gets the opened client, or the exception that opening it raised.

        Raises:
            KafkaError: INVALID_REQUEST, it was opened before.
        """
        if self._thread.ident is not None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "the client was opened before, and opens once: make another one",
            )
        self._process_id = getpid()
        self._thread.start()
        return self._started

    def open(self) -> C:
        """Start the thread and return the opened client.

        Raises as ``start``, and any exception that opening the client raised.
        """
        return self.start().result()

    def stop(self, error: BaseException | None = None) -> None:
        """Start to close the client and return without waiting. Idempotent.

        ``ended`` is set when the thread ends. ``error`` is the exception that left the ``with``
        block. The client's own block then ends with an exception, too.
        """
        if not self.is_here or self._thread.ident is None:
            return
        if error is not None:
            self._departure = Departed() if isinstance(error, Exception) else DepartedAtOnce()
        self._is_stopping = (
            True  # first, because a client that is still opening looks at this afterwards
        )
        self.post(self._stop.set)

    def hurry(self) -> None:
        """Cut closing short: cancel the client, so that it skips the steps that take long."""
        if self.is_here:
            self.post(self._haste.cancel)

    def close(self, error: BaseException | None = None) -> None:
        """Close the client and wait for the thread. Idempotent.

        Raises the exception that closing raised. ``error`` as for ``stop``.
        """
        if not self.is_here:
            return
        if self._thread.ident is not None:
            self.require_other_thread()
            self.stop(error)
            self._thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    # Calls

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function in the trio thread and return its result. Ctrl-C cancels it.

        An exception of the function is raised here.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed or of another process, or the caller
                is its own thread.
        """
        return self._begin(function).result()

    def _begin(self, function: Callable[[], Awaitable[T]]) -> "_Call[T]":
        """Run an async function in the trio thread without waiting for it. Raises as ``call``."""
        self.require_other_thread()
        future: Future[T] = Future()
        return _Call(future, self.begin(function, future), self.post)

    def begin(self, function: Callable[[], Awaitable[T]], outcome: Outcome[T]) -> trio.CancelScope:
        """Run an async function in the trio thread and return the scope that cancels it there.

        ``outcome`` gets the result.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed, or of another process.
        """
        scope = trio.CancelScope()
        self.submit(partial(self._spawn, function, outcome, scope))
        return scope

    def call_sync(self, function: Callable[[], T]) -> T:
        """Run a plain function in the trio thread and return its result. Raises as ``call``."""

        async def run() -> T:
            await trio.lowlevel.checkpoint()
            return function()

        return self.call(run)

    def submit(self, function: Callable[[], None]) -> None:
        """Run a plain function in the trio thread soon. It must not raise.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed.
        """
        self.require_open()
        if not self.post(function):
            raise closed()

    def post(self, function: Callable[[], object]) -> bool:
        """Run a plain function in the trio thread soon, also while the client closes.

        Returns false if trio's run is over, or was started in another process. After a fork the run
        must not be used, because a thread that does not exist any more may hold one of its locks.
        """
        if self._token is None or not self.is_here:
            return False
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an async generator that runs in the trio thread.

        The generator is closed there, also if the iteration ends early. The next item is made while
        the caller processes the current one.
        """
        steps = Steps(source)
        ahead = self._begin(steps.step)
        try:
            while True:
                try:
                    item = ahead.result()
                except StopAsyncIteration:
                    return
                ahead = self._begin(steps.step)
                yield item
                del item
        finally:
            if self.is_open:
                ahead.abandon()
                self.call(steps.close)

    # In the trio thread

    def _spawn(
        self, function: Callable[[], Awaitable[T]], outcome: Outcome[T], scope: trio.CancelScope
    ) -> None:
        if self._nursery is None:
            outcome.cancel()
        else:
            self._nursery.start_soon(self._perform, function, outcome, scope)

    async def _perform(
        self, function: Callable[[], Awaitable[T]], outcome: Outcome[T], scope: trio.CancelScope
    ) -> None:
        is_reported = False
        try:
            with scope:
                result = await function()
                is_reported = True
                outcome.set_result(result)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller in the other thread
            is_reported = True
            outcome.set_exception(error)
        finally:
            if not is_reported:
                outcome.cancel()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - raised where the portal is opened or closed
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)
        finally:
            self.is_running = False
            self.ended.set_result(None)

    async def _main(self) -> None:
        try:
            async with trio.open_nursery() as late_calls:
                try:
                    with self._haste, suppress(Departed, DepartedAtOnce):
                        await self._serve(late_calls)
                finally:
                    self._nursery = None
                    late_calls.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only(group) from None

    async def _serve(self, late_calls: trio.Nursery) -> None:
        """Keep the client open until ``stop``.

        Calls that arrive while it closes run in ``late_calls``.
        """
        async with self._opened as client:
            async with trio.open_nursery() as calls:
                self._nursery = calls
                self._token = trio.lowlevel.current_trio_token()
                self.is_running = True
                self._started.set_result(client)
                try:
                    if not self._is_stopping:
                        await self._stop.wait()
                finally:  # also if a task of the client fails, which cancels this one
                    calls.cancel_scope.cancel()
                    self._nursery = late_calls
            if self._departure is not None:
                raise self._departure


class _Call(Generic[T]):
    """A function that runs in the trio thread, with its result."""

    def __init__(
        self,
        future: "Future[T]",
        scope: trio.CancelScope,
        post: Callable[[Callable[[], object]], bool],
    ) -> None:
        self._future = future
        self._scope = scope
        self._post = post

    def result(self) -> T:
        """Wait for the result and return it, or raise the exception of the function.

        Ctrl-C cancels the function and gives it time to end.
        """
        try:
            return self._future.result()
        except CancelledError:
            raise closed() from None
        except BaseException:
            if not self._future.done() and self._post(self._scope.cancel):
                with suppress(Exception):
                    # Wait for the end, so that the caller's next call does not run beside this one.
                    self._future.exception(END_S)
            raise

    def abandon(self) -> None:
        """Cancel the function and return when it has ended. Its result is dropped."""
        self._post(self._scope.cancel)
        with suppress(Exception):
            self._future.result()


class Steps(Generic[T]):
    """Returns the items of an async generator, one per call of ``step``."""

    def __init__(self, source: AsyncIterator[T]) -> None:
        self._source = source

    async def step(self) -> T:
        """Return the next item of the generator. Raises StopAsyncIteration at its end."""
        return await anext(self._source)

    async def close(self) -> None:
        """Close the generator."""
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()


def _only(error: BaseException) -> BaseException:
    """Return the single exception in nested groups, or the group if there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def closed() -> KafkaError:
    """Return the error of a call to a client that is not open."""
    return KafkaError(ErrorCode.INVALID_REQUEST, "the client is closed: use it inside 'with'")
