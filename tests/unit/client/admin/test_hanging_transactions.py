"""Plain functions decide which open transactions hang.

They also say which filters a broker is too old for.
"""

import pytest

from log_service.client.admin.transactions import Filters, hanging, open_since
from log_service.client.admin.values import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
)
from log_service.client.connections.cluster_view import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def producer(
    producer_id: int, *, start_offset: int = -1, last_timestamp_ms: int = 100
) -> ProducerDescription:
    return ProducerDescription(
        producer_id=producer_id,
        producer_epoch=3,
        last_sequence=1,
        last_timestamp_ms=last_timestamp_ms,
        coordinator_epoch=2,
        transaction_start_offset=start_offset,
    )


def open_transaction(producer_id: int, where: TopicPartition) -> HangingTransaction:
    return HangingTransaction(
        topic_partition=where,
        producer_id=producer_id,
        producer_epoch=3,
        coordinator_epoch=2,
        start_offset=5,
        last_timestamp_ms=100,
    )


def known(
    producer_id: int, *partitions: TopicPartition, state: str = "Ongoing"
) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=f"id-{producer_id}",
        coordinator=Node(node_id=1, host="h", port=1),
        state=state,
        producer_id=producer_id,
        producer_epoch=3,
        timeout_ms=60_000,
        start_time_ms=1,
        partitions=partitions,
    )


def test_only_transactions_that_are_open_and_old_count() -> None:
    remembered = {
        SECOND: [
            producer(1, start_offset=5),
            producer(2),
            producer(3, start_offset=7, last_timestamp_ms=500),
        ],
        FIRST: [producer(4, start_offset=0)],
    }
    found = open_since(remembered, before_ms=500)
    assert [(each.topic_partition, each.producer_id, each.start_offset) for each in found] == [
        (FIRST, 4, 0),
        (SECOND, 1, 5),
    ]
    assert (found[0].producer_epoch, found[0].coordinator_epoch, found[0].last_timestamp_ms) == (
        3,
        2,
        100,
    )


@pytest.mark.parametrize(
    ("described", "transactional_id", "is_hanging"),
    [
        ([], None, True),
        ([known(2, FIRST)], None, True),
        ([known(1, FIRST, SECOND)], None, False),
        ([known(1, SECOND)], "id-1", True),
        ([known(1, state="CompleteAbort")], "id-1", True),
    ],
    ids=[
        "no coordinator",
        "another producer",
        "its own transaction",
        "a partition it does not count",
        "a transaction that has ended",
    ],
)
def test_a_transaction_hangs_where_no_coordinator_will_end_it(
    described: list[TransactionDescription], transactional_id: str | None, is_hanging: bool
) -> None:
    found = hanging([open_transaction(1, FIRST)], described)
    assert [each.transactional_id for each in found] == ([transactional_id] if is_hanging else [])


@pytest.mark.parametrize(
    ("filters", "version", "told"),
    [
        (Filters(running_longer_than_ms=0), 0, "by how long they run"),
        (Filters(pattern="a.*"), 1, "by a pattern"),
        (Filters(states=("Ongoing",), producer_ids=(1,)), 0, None),
        (Filters(running_longer_than_ms=5, pattern="a.*"), 2, None),
    ],
)
def test_a_broker_that_is_too_old_for_a_filter_is_told(
    filters: Filters, version: int, told: str | None
) -> None:
    if told is None:
        request = filters.request(version)
        assert (request.duration_filter, request.transactional_id_pattern) == (
            -1 if filters.running_longer_than_ms is None else filters.running_longer_than_ms,
            filters.pattern,
        )
        return
    with pytest.raises(KafkaError, match=told) as refused:
        filters.request(version)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
