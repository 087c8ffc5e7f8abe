"""Transactions and hanging transactions as their pages show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from log_service.client.admin.values import (
    HangingTransaction,
    ProducerDescription,
    TransactionListing,
)
from log_service.common.types import TopicPartition

PAGE_SIZE = 100
STATES = (
    "",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Empty",
    "PrepareEpochFence",
    "Dead",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionList:
    """One page of the transactional ids."""

    rows: tuple[TransactionListing, ...]
    page: int
    page_count: int
    found_count: int


def transaction_list(
    found: Sequence[TransactionListing], *, search: str, page: int
) -> TransactionList:
    """Return one page of the transactional ids that contain ``search``."""
    needle = search.casefold()
    wanted = [each for each in found if needle in each.transactional_id.casefold()]
    page_count = max(1, -(-len(wanted) // PAGE_SIZE))
    page = min(max(1, page), page_count)
    return TransactionList(
        rows=tuple(wanted[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]),
        page=page,
        page_count=page_count,
        found_count=len(wanted),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingRow:
    """One hanging transaction: an open transaction that no coordinator will end."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int
    transactional_id: str


def hanging_rows(found: Sequence[HangingTransaction]) -> tuple[HangingRow, ...]:
    """Return the hanging transactions, sorted by partition."""
    rows = [
        HangingRow(
            topic=each.topic_partition.topic,
            partition=each.topic_partition.partition,
            start_offset=each.start_offset,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            last_timestamp_ms=each.last_timestamp_ms,
            transactional_id=each.transactional_id or "",
        )
        for each in found
    ]
    return tuple(sorted(rows, key=lambda row: (row.topic, row.partition, row.start_offset)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRow:
    """One partition of a transaction, with its producer's state there. Unknown numbers are None.

    ``start_offset`` is the first offset of the open transaction.
    """

    topic: str
    partition: int
    start_offset: int | None
    last_sequence: int | None
    last_timestamp_ms: int | None


def writer_rows(
    partitions: Sequence[TopicPartition],
    producers: Mapping[TopicPartition, Sequence[ProducerDescription]],
    producer_id: int,
) -> tuple[WriterRow, ...]:
    """Return the partitions of a transaction in order."""
    rows = []
    for where in sorted(partitions):
        found = [each for each in producers.get(where, ()) if each.producer_id == producer_id]
        own = found[0] if found else None
        rows.append(
            WriterRow(
                topic=where.topic,
                partition=where.partition,
                start_offset=None if own is None else _known(own.transaction_start_offset),
                last_sequence=None if own is None else _known(own.last_sequence),
                last_timestamp_ms=None if own is None else own.last_timestamp_ms,
            )
        )
    return tuple(rows)


def _known(number: int) -> int | None:
    return number if number >= 0 else None
