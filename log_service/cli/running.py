"""Runs a command as the main task of one trio run.

Ctrl-C raises KeyboardInterrupt in the command where it waits next, and never inside a task of a
client. So the blocks that the command leaves can still ask the cluster. A command must therefore
not block: it waits for terminals, pipes and other programs with trio, and for the rest in a thread.
"""

import signal
from collections.abc import Awaitable, Callable
from functools import partial, update_wrapper
from typing import ParamSpec, TypeVar

import trio

from log_service.common.errors import first_error

P = ParamSpec("P")
T = TypeVar("T")


def run(function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an async function to its end and return its result.

    Raises its exceptions. Of an exception group of a client's tasks, it raises the first one.
    """
    try:
        return trio.run(
            partial(function, *args, **kwargs), restrict_keyboard_interrupt_to_checkpoints=True
        )
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def on_trio(command: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """Return a plain function for click that runs an async command."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(command, *args, **kwargs)

    return update_wrapper(call, command)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function in a thread. Ctrl-C abandons the thread."""
    return await trio.to_thread.run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True)


async def until_stopped(serve: Callable[[], Awaitable[None]]) -> None:
    """Run a service until the first SIGINT or SIGTERM."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            async for _ in signals:
                nursery.cancel_scope.cancel()
                return
