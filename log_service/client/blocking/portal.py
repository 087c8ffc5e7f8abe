"""One trio run in a thread of its own, calls into it from other threads, and what the blocking classes share.

A call from another thread runs in the trio thread while the caller waits; an exception that interrupts the wait cancels the call. Knows no
clients.

Invariants: every call that was accepted ends with a result or an error, also when the run ends. The thread ends with ``close``, and it is a
daemon: it never keeps a process alive. A forked process has no such thread: there every call is refused, and closing does nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial, update_wrapper
from os import getpid
from threading import Thread, current_thread
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import trio

from log_service.common.errors import ErrorCode, KafkaError

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


class Departed(Exception):  # noqa: N818 - it says what happened in the caller's thread, where it is raised by its own name
    """An exception left the caller's ``with`` block."""


class DepartedAtOnce(BaseException):
    """Ctrl-C or an exit left the caller's ``with`` block: nothing may take long now."""


class Portal(Generic[C]):
    """Runs ``async with opened as client`` in a background thread for as long as it is open."""

    def __init__(self, opened: AbstractAsyncContextManager[C], name: str) -> None:
        self._opened = opened
        self._started: Future[C] = Future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop = trio.Event()
        self._failure: BaseException | None = None
        self._departure: BaseException | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._process_id = getpid()
        self.is_running = False

    @property
    def is_open(self) -> bool:
        """Whether calls are taken."""
        return self.is_running and self._process_id == getpid()

    def require_open(self) -> None:
        """Raise unless calls are taken.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed, or belongs to the process that this one was forked from.
        """
        if self._process_id != getpid():
            text = f"the client was opened in process {self._process_id} and this is its child {getpid()}: open one after the fork"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if not self.is_running:
            raise _closed()

    def require_other_thread(self) -> None:
        """Raise if the caller is the client's own thread: a delivery callback that waits would wait for itself.

        Raises:
            KafkaError: INVALID_REQUEST.
        """
        if current_thread() is self._thread:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a callback runs in the client's own thread and must not wait for the client")

    def open(self) -> C:
        """Start the thread and return the opened client; raises what opening it raised."""
        self._process_id = getpid()
        self._thread.start()
        return self._started.result()

    def close(self, error: BaseException | None = None) -> None:
        """Close the client and wait for the thread; raises what closing raised. Idempotent.

        ``error`` is what left the ``with`` block: the client's own block is then left with an exception as well.
        """
        if self._process_id != getpid():
            return
        if self._token is not None:
            self.require_other_thread()
            if error is not None:
                self._departure = Departed() if isinstance(error, Exception) else DepartedAtOnce()
            self._submit(self._stop.set)
            self._thread.join()
            self._token = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function in the trio thread and return its result, or raise what it raised; Ctrl-C cancels it.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed, of another process, or the caller is its own thread.
        """
        return self._begin(function).result()

    def _begin(self, function: Callable[[], Awaitable[T]]) -> "_Call[T]":
        """Run an async function in the trio thread, and return without waiting for it. Raises as ``call``."""
        self.require_other_thread()
        begun: _Call[T] = _Call(self._submit)
        self.submit(partial(self._spawn, function, begun.future, begun.scope))
        return begun

    def call_sync(self, function: Callable[[], T]) -> T:
        """Run a plain function in the trio thread and return its result, or raise what it raised. Raises as ``call``."""

        async def run() -> T:
            await trio.lowlevel.checkpoint()
            return function()

        return self.call(run)

    def submit(self, function: Callable[[], None]) -> None:
        """Run a plain function in the trio thread, soon; it must not raise.

        Raises:
            KafkaError: INVALID_REQUEST, the client is closed.
        """
        self.require_open()
        if not self._submit(function):
            raise _closed()

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Yield what an async generator yields that runs in the trio thread; it is closed there, also when the iteration is given up.

        While the caller looks at one item, the next is made.
        """
        steps = _Steps(source)
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

    def _submit(self, function: Callable[[], None]) -> bool:
        assert self._token is not None
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def _spawn(self, function: Callable[[], Awaitable[T]], future: "Future[T]", scope: trio.CancelScope) -> None:
        self._nursery.start_soon(self._perform, function, future, scope)

    async def _perform(self, function: Callable[[], Awaitable[T]], future: "Future[T]", scope: trio.CancelScope) -> None:
        try:
            with scope:
                future.set_result(await function())
        except Exception as error:  # noqa: BLE001 - it belongs to the caller, in the other thread
            future.set_exception(error)
        finally:
            if not future.done():
                future.cancel()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - it is raised where the portal is opened or closed
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)
        finally:
            self.is_running = False

    async def _main(self) -> None:
        try:
            async with self._opened as client:
                async with trio.open_nursery() as self._nursery:
                    self._token = trio.lowlevel.current_trio_token()
                    self.is_running = True
                    self._started.set_result(client)
                    await self._stop.wait()
                    self._nursery.cancel_scope.cancel()
                if self._departure is not None:
                    raise self._departure
        except (Departed, DepartedAtOnce):
            return
        except BaseExceptionGroup as group:
            raise _only(group) from None


class Blocking(Generic[C]):
    """What the blocking classes share: opening, closing, and one call after the other."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._portal: Portal[C] = Portal(client, type(self).__name__)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self._portal.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._portal.close(error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        """Whether calls are taken."""
        return self._portal.is_open

    def close(self) -> None:
        """Close the client and its thread. Idempotent."""
        self._portal.close()


def blocking(method: Callable[Concatenate[C, P], Awaitable[T]]) -> Callable[Concatenate[Blocking[Any], P], T]:
    """Return the method without ``await``: it runs in the client's thread while the caller waits."""

    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


def blocking_sync(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[Blocking[Any], P], T]:
    """Return a method that does not wait, run in the client's thread all the same: its state is touched nowhere else."""

    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call_sync(partial(method, self._client, *args, **kwargs))

    update_wrapper(call, method)
    return call


class _Call(Generic[T]):
    """A function that runs in the trio thread, and the place where its result arrives."""

    def __init__(self, submit: Callable[[Callable[[], None]], bool]) -> None:
        self.future: Future[T] = Future()
        self.scope = trio.CancelScope()
        self._submit = submit

    def result(self) -> T:
        """Wait for the result and return it, or raise what the function raised; Ctrl-C cancels the function."""
        try:
            return self.future.result()
        except CancelledError:
            raise _closed() from None
        except BaseException:
            if not self.future.done():
                self._submit(self.scope.cancel)
            raise

    def abandon(self) -> None:
        """Cancel the function, and return when it has ended; its result is dropped."""
        self._submit(self.scope.cancel)
        with suppress(Exception):
            self.future.result()


class _Steps(Generic[T]):
    """An async generator, one step per call."""

    def __init__(self, source: AsyncIterator[T]) -> None:
        self._source = source

    async def step(self) -> T:
        """Return the next item; raises StopAsyncIteration at the end."""
        return await anext(self._source)

    async def close(self) -> None:
        """Close the generator."""
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()


def _only(error: BaseException) -> BaseException:
    """Return the one exception that nested groups hold, or the group where there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _closed() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "the client is closed: use it inside 'with'")
