"""Reaches for the parts inside a blocking or asyncio client, which its users do not see.

Tests of what threads do to each other need them. This file alone knows their names.
"""

import asyncio
import time
from typing import Any

from log_service.client.asyncio.calls import OnAsyncio
from log_service.client.blocking.calls import Blocking
from log_service.client.portal import Portal

Face = OnAsyncio[Any] | Blocking[Any]


def portal_of(face: Face) -> Portal[Any]:
    """Return the portal to the client's own thread."""
    return face._portal


def client_of(face: Face) -> Any:
    """Return the client that runs in its own thread."""
    return face._client


def accumulator_of(producer: Any) -> Any:
    """Return the accumulator of a producer's waiting records."""
    return producer._intake.accumulator


def held_by(consumer: Any) -> Any:
    """Return the records that an asyncio consumer has taken and not returned yet."""
    return consumer._held


async def cancel_as_result_comes(face: OnAsyncio[Any], task: "asyncio.Task[Any]") -> None:
    """Cancel a task whose result is there, and of which the task does not know yet.

    The loop stands still until the client's thread has put the result into the mailbox.
    """
    await asyncio.sleep(0)
    deadline = time.monotonic() + 20
    while not face._bridge._mailbox and time.monotonic() < deadline:
        time.sleep(0.001)  # noqa: ASYNC251 - the loop has to stand still
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("the task was not cancelled")
