"""Records that ``poll`` returned and the application has not seen yet, where a face of the consumer hands them out one by one.

The consumer's positions are behind all of them, so that a face has to know which offsets are not consumed in truth: those are not
committed, and where the records are dropped the consumer goes back to them.

Invariant: of each partition the records are held in the order of their offsets.
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
    """The records that come next. A deque: ``extend`` holds what a poll returned, ``popleft`` hands out one."""

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``limit``, and hold them no more. Raises as ``arguments.record_limit``."""
        if arguments.record_limit(limit) >= len(self):
            taken = list(self)
            self.clear()
            return taken
        return [self.popleft() for _ in range(limit)]

    def firsts(self) -> Firsts:
        """Return, by partition, the offset of the first record that is held, with the leader epoch of that record.

        The record before it, whose epoch a commit names (KIP-320), is gone; a log that has this one has that one, too.
        """
        found: dict[TopicPartition, ConsumerRecord] = {}
        for record in tuple(self):  # a copy: another thread may take records meanwhile
            found.setdefault(record.topic_partition, record)
        return {each: OffsetAndMetadata(offset=first.offset, leader_epoch=first.leader_epoch) for each, first in found.items()}

    def give_up(self) -> Firsts:
        """Hold nothing any more; returns what ``firsts`` did before: where to read on."""
        found = self.firsts()
        self.clear()
        return found


async def go_back(consumer: Consumer, firsts: Firsts) -> None:
    """Read on at these offsets, where the partitions are assigned still. Not cancelled half way."""
    with trio.CancelScope(shield=True):
        for topic_partition in consumer.assignment:
            if topic_partition in firsts:
                await consumer.seek(topic_partition, firsts[topic_partition].offset, firsts[topic_partition].leader_epoch)


async def call_after_going_back(consumer: Consumer, firsts: Firsts, function: Callable[[], Any]) -> Any:
    """Return what a method of the consumer does that changes what is read, whether it waits or not."""
    await go_back(consumer, firsts)
    result = function()
    return await result if isawaitable(result) else result


def consumed_before(consumer: Consumer, firsts: Firsts) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what is to be committed while records from these offsets on are held."""
    return {**consumer.consumed(), **firsts}


def to_commit(consumer: Consumer, positions: Positions | None, firsts: Firsts) -> Positions | None:
    """Return what the consumer is to commit while records from these offsets on are held: what is given, or else what is before them.

    To the application its position is where they begin: that offset is committed with the leader epoch that is known of it, too (KIP-320).
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
