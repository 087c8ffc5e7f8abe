"""Holds polled records that a blocking or asyncio consumer has not returned yet.

The trio consumer inside has positions after all held records. So the blocking or asyncio consumer
must know which records the application has not got. Offsets after them are not committed. If held
records are dropped, the consumer seeks back to the first of them.

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
    """The next records to return, in order. ``extend`` adds records, ``popleft`` returns one."""

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

        A commit should have the epoch of the record before the offset (KIP-320), which is not known
        any more. The epoch of the first held record can replace it, because every log with this
        record has the record before it.
        """
        found: dict[TopicPartition, ConsumerRecord] = {}
        for record in tuple(self):  # a copy: another thread may take records meanwhile
            found.setdefault(record.topic_partition, record)
        return {
            each: OffsetAndMetadata(offset=first.offset, leader_epoch=first.leader_epoch)
            for each, first in found.items()
        }

    def give_up(self) -> Firsts:
        """Drop all records, and return where to continue reading, as ``firsts`` did before."""
        found = self.firsts()
        self.clear()
        return found


async def go_back(consumer: Consumer, firsts: Firsts) -> None:
    """Seek to these offsets in partitions that are still assigned.

    A cancellation does not interrupt this.
    """
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
    """Return the offsets to commit by default while records are held from ``firsts`` on."""
    return {**consumer.consumed(), **firsts}


def to_commit(consumer: Consumer, positions: Positions | None, firsts: Firsts) -> Positions | None:
    """Return the given or default offsets to commit while records are held from ``firsts`` on.

    For the application, the position is the offset of the first held record. If this offset is
    given, it is committed with the leader epoch in ``firsts`` (KIP-320).
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
