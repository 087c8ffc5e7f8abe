"""Opens consumers without a group, which read with the rights of the user behind a request.

They commit no offsets and change no group. Their fetches are small, so that they need little
memory.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from log_service.client import Consumer
from log_service.http.cluster_clients.pool import LoginClients

FETCH_BYTES: Final = 2 << 20
PARTITION_FETCH_BYTES: Final = 512 << 10
QUEUED_BYTES: Final = 4 << 20
"""The bytes that are fetched ahead of polls, in addition to one response of each leader."""


@asynccontextmanager
async def open_consumer(
    clients: LoginClients,
    *,
    is_committed_only: bool,
    with_control: bool = False,
    reset: str = "earliest",
) -> AsyncIterator[Consumer]:
    """Yield a consumer without a group. ``reset`` is its ``auto_offset_reset``.

    ``with_control`` makes it return control records, too.
    """
    settings = {
        **clients.settings(),
        "isolation_level": "read_committed" if is_committed_only else "read_uncommitted",
        "allow_auto_create_topics": False,
        "include_control_records": with_control,
        "fetch_max_bytes": FETCH_BYTES,
        "max_partition_fetch_bytes": PARTITION_FETCH_BYTES,
        "queued_max_bytes": QUEUED_BYTES,
        "use_numpy": False,
        "skip_corrupt_batches": True,
        "auto_offset_reset": reset,
    }
    make = partial(Consumer, clients.servers, env=clients.env, **settings)
    async with await trio.to_thread.run_sync(make) as consumer:  # it reads trust stores
        yield consumer
