"""Holds polled records that a blocking or asyncio consumer has not returned yet.

The positions of the inner consumer are after all held records. So the outer consumer must know
which offsets the application has not consumed. Such offsets are not committed. If held records are
dropped, the consumer seeks back to the first of them.

Invariant: the records of each partition are in the order of their offsets.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import trio

from log_service.client import arguments
from log_service.client.admin.groups import as_offsets
from log_service.client.admin.values import OffsetAndMetadata
from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.types import TopicPartition

Firsts = Mapping[TopicPartition, OffsetAndMetadata]
Positions = Mapping[TopicPartition, OffsetAndMetadata | int]


class HeldRecords(deque[ConsumerRecord]):
    """The next records, as a deque. ``extend`` adds polled records, ``popleft`` returns one."""

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Remove and return the next records, at most ``limit``.

        Raises as ``arguments.record_limit``.
        """
        if arguments.record_limit(limit) >= len(self):
            taken = list(self)
            self.clear()
            return taken
        return [self.popleft() for _ in range(limit)]

    def firsts(self) -> Firsts:
        """Return the offset and leader epoch of the first held record of each partition.

        A commit names the epoch of the record before the offset (KIP-320), which is gone. The epoch
        of the first held record serves as well, because a log with this record has the one before.
        """
        found: dict[TopicPartition, ConsumerRecord] = {}
        for record in tuple(self):  # a copy: another thread may take records meanwhile
            found.setdefault(record.topic_partition, record)
        return {
            each: OffsetAndMetadata(offset=first.offset, leader_epoch=first.leader_epoch)
            for each, first in found.items()
        }

    def give_up(self) -> Firsts:
        """Drop all records, and return the offsets to continue reading at, as ``firsts`` did."""
        found = self.firsts()
        self.clear()
        return found


async def go_back(consumer: Consumer, firsts: Firsts) -> None:
    """Seek to these offsets in partitions that are still assigned. Not cancelled half way."""
    with trio.CancelScope(shield=True):
        for topic_partition in consumer.assignment:
            if topic_partition in firsts:
                await consumer.seek(
                    topic_partition,
                    firsts[topic_partition].offset,
                    firsts[topic_partition].leader_epoch,
                )


async def call_after_going_back(
    consumer: Consumer, firsts: Firsts, function: Callable[[], Any]
) -> Any:
    """Move positions back to ``firsts``, then call a method that changes assignment or positions.

    Returns the result of the method, which may be async.
    """
    await go_back(consumer, firsts)
    result = function()
    return await result if isawaitable(result) else result


def consumed_before(consumer: Consumer, firsts: Firsts) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit while records from these offsets on are held."""
    return {**consumer.consumed(), **firsts}


def to_commit(consumer: Consumer, positions: Positions | None, firsts: Firsts) -> Positions | None:
    """Return the given or default offsets to commit while records are held from ``firsts`` on.

    To the application, its position is the first held record. So this offset is committed with the
    known leader epoch (KIP-320).
    """
    if positions is None:
        return consumed_before(consumer, firsts) if firsts else None
    given = as_offsets(positions)
    known = {
        each: firsts[each].leader_epoch
        for each, offset in given.items()
        if each in firsts and firsts[each].offset == offset.offset and offset.leader_epoch < 0
    }
    return given | {each: replace(given[each], leader_epoch=epoch) for each, epoch in known.items()}
