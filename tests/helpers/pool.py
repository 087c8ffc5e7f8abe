"""Opens a pool of connections for the length of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from log_service.common.env import Env
from log_service.rpc.connection import RpcSettings
from log_service.rpc.pool import ConnectionPool


@asynccontextmanager
async def open_pool(env: Env, settings: RpcSettings) -> AsyncIterator[ConnectionPool]:
    """Open a pool for the length of the block, and then close every connection.

    Exceptions of the block are raised unchanged.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield ConnectionPool(env, settings, nursery, None)
        except Exception as error:  # noqa: BLE001 - raised again below, outside of the nursery, which would wrap it
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
