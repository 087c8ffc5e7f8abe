"""``tidelog consume --queue`` prints records of a share group and accepts each one (KIP-932).

Other consumers may take records of the same queue. This module decides when reading ends. All
records of a poll are printed and flushed before the next poll accepts them. Records that were
acquired and not printed are available to others as soon as the command ends. So are records of a
poll that could not be printed.
"""

import time
from collections.abc import Sequence
from typing import BinaryIO

from log_service.cli.connection import client_settings, open_admin
from log_service.cli.names import matching_topics
from log_service.cli.output import write_records
from log_service.cli.registry_connection import RenderAll
from log_service.cli.running import in_thread
from log_service.client.share.consumer import ShareConsumer

POLL_MS = 500
POLL_RECORDS = 500


async def print_queue(
    bootstrap_servers: str,
    names: Sequence[str],
    group_id: str,
    *,
    output: BinaryIO,
    render: RenderAll,
    interrupts: Sequence[int],
    max_records: int | None,
    timeout_s: float | None,
) -> int:
    """Print records until a limit is reached or Ctrl-C is noted, and return their number.

    At most ``max_records`` are acquired (KIP-1206), so that no other record is counted as
    delivered.
    """
    async with open_admin(bootstrap_servers) as admin:
        topics = await matching_topics(admin, names)
    count = 0
    async with ShareConsumer(
        bootstrap_servers,
        group_id=group_id,
        share_acquire_mode="batch_optimized" if max_records is None else "record_limit",
        **await client_settings(bootstrap_servers),
    ) as consumer:
        await consumer.subscribe(topics)
        last_record_s = time.monotonic()
        patience_ms = POLL_MS if timeout_s is None else min(POLL_MS, int(timeout_s * 1_000) + 1)
        while not interrupts and (max_records is None or count < max_records):
            room = POLL_RECORDS if max_records is None else min(max_records - count, POLL_RECORDS)
            records = await consumer.poll(room, timeout_ms=patience_ms)
            if records:
                await in_thread(write_records, output, await render(records))
                count += len(records)
                last_record_s = time.monotonic()
            elif timeout_s is not None and time.monotonic() - last_record_s >= timeout_s:
                break
    return count
