"""Administers transactions: describes them, and finds those that no coordinator will end (KIP-664).

The list of transactional ids comes from every broker. The description of an id comes from its
coordinator, and open transactions come from the leaders of partitions. A transaction hangs if it is
open at the leader of a partition for longer than any transaction may last, and no coordinator has
the partition in a transaction of the producer. Nothing will ever end it, and readers of committed
records wait there forever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from log_service.client.admin.cluster import describe_producers
from log_service.client.admin.fan_out import Collected, gather
from log_service.client.admin.groups import node_of, with_coordinator
from log_service.client.admin.values import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from log_service.client.connections.cluster_metadata import TRANSACTION_KEY_TYPE, ClusterMetadata
from log_service.client.connections.cluster_view import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from log_service.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from log_service.rpc.connection import raise_for

FIRST_LIST_WITH_DURATION = 1
FIRST_LIST_WITH_PATTERN = 2
NOT_OPEN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters of transactional ids. An empty filter, or None, leaves no id out."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    running_longer_than_ms: int | None = None
    pattern: str | None = None

    def request(self, version: int) -> ListTransactionsRequest:
        """Return the request for a broker that speaks ``version``.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, the broker is too old for a filter.
        """
        if self.running_longer_than_ms is not None and version < FIRST_LIST_WITH_DURATION:
            text = (
                "the brokers are too old to list transactions by how long they run (Kafka 3.8,"
                " KIP-994)"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        if self.pattern is not None and version < FIRST_LIST_WITH_PATTERN:
            text = "the brokers are too old to list transactions by a pattern (Kafka 4.1, KIP-1152)"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return ListTransactionsRequest(
            state_filters=list(self.states),
            producer_id_filters=list(self.producer_ids),
            duration_filter=(
                -1 if self.running_longer_than_ms is None else self.running_longer_than_ms
            ),
            transactional_id_pattern=self.pattern,
        )


async def list_transactions(
    cluster: ClusterMetadata, filters: Filters, timeout_ms: int
) -> list[TransactionListing]:
    """List the transactional ids of all coordinators; see ``Admin.list_transactions``."""

    async def ask(node_id: int) -> list[TransactionListing]:
        connection = await cluster.node(node_id)
        request = filters.request(connection.version_of(ApiKey.LIST_TRANSACTIONS))
        response = await connection.request(request, ListTransactionsResponse)
        raise_for(response.error_code, None, f"transactions of broker {node_id}")
        if response.unknown_state_filters:
            text = (
                f"there is no state {', '.join(map(repr, response.unknown_state_filters))} of a"
                " transaction"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return [
            TransactionListing(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
            )
            for each in response.transaction_states
        ]

    async def attempt() -> list[TransactionListing]:
        view = await cluster.refresh()
        parts = await gather(partial(ask, node_id) for node_id in sorted(view.nodes))
        return sorted(
            (each for part in parts for each in part), key=lambda each: each.transactional_id
        )

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


async def describe_transactions(
    cluster: ClusterMetadata, ids: Sequence[str], timeout_ms: int
) -> dict[str, TransactionDescription]:
    """Describe transactional ids; see ``Admin.describe_transactions``."""

    async def ask(transactional_id: str) -> TransactionDescription:
        connection = await cluster.coordinator(transactional_id, "", key_type=TRANSACTION_KEY_TYPE)
        response = await connection.request(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            DescribeTransactionsResponse,
        )
        found = next(
            (
                each
                for each in response.transaction_states
                if each.transactional_id == transactional_id
            ),
            None,
        )
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the response does not name transactional id {transactional_id!r}",
            )
        raise_for(found.error_code, None, f"transactional id {transactional_id!r}")
        return _description(found, node_of(cluster, connection))

    async def attempt(transactional_id: str) -> TransactionDescription | KafkaError:
        asked = partial(
            with_coordinator,
            cluster,
            transactional_id,
            partial(ask, transactional_id),
            key_type=TRANSACTION_KEY_TYPE,
        )
        try:
            return await cluster.retry(asked, timeout_ms)
        except KafkaError as error:
            return error

    results = dict(zip(ids, await gather(partial(attempt, each) for each in ids), strict=True))
    collected = Collected()
    collected.errors = {
        each: found for each, found in results.items() if isinstance(found, KafkaError)
    }
    return collected.finish(
        {
            each: found
            for each, found in results.items()
            if isinstance(found, TransactionDescription)
        }
    )


async def find_hanging(
    cluster: ClusterMetadata,
    partitions: Sequence[TopicPartition] | None,
    open_longer_than_ms: int,
    timeout_ms: int,
) -> list[HangingTransaction]:
    """Find open transactions that nothing will end; see ``Admin.find_hanging_transactions``."""
    left_ms = cluster.countdown(timeout_ms)
    wanted = await _all_partitions(cluster, left_ms()) if partitions is None else partitions
    before_ms = cluster.env.clock.wall_ms() - open_longer_than_ms
    producers = await describe_producers(cluster, wanted, left_ms()) if wanted else {}
    candidates = open_since(producers, before_ms)
    if not candidates:
        return []
    filters = Filters(producer_ids=tuple(sorted({each.producer_id for each in candidates})))
    listed = await list_transactions(cluster, filters, left_ms())
    described = await _described(cluster, [each.transactional_id for each in listed], left_ms)
    return hanging(candidates, described)


def open_since(
    producers: Mapping[TopicPartition, Iterable[ProducerDescription]], before_ms: int
) -> list[HangingTransaction]:
    """Return the open transactions whose last record is from before ``before_ms``.

    ``before_ms`` is in milliseconds since 1970. The result is sorted by partition.
    """
    return [
        HangingTransaction(
            topic_partition=topic_partition,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=each.coordinator_epoch,
            start_offset=each.transaction_start_offset,
            last_timestamp_ms=each.last_timestamp_ms,
        )
        for topic_partition in sorted(producers)
        for each in producers[topic_partition]
        if each.transaction_start_offset != NOT_OPEN and each.last_timestamp_ms < before_ms
    ]


def hanging(
    candidates: Iterable[HangingTransaction], known: Iterable[TransactionDescription]
) -> list[HangingTransaction]:
    """Return the transactions among ``candidates`` that no coordinator will end.

    ``known`` are the transactions that coordinators know. A candidate hangs if its producer is not
    among them, or if the producer's transaction does not contain the candidate's partition.
    """
    by_producer = {each.producer_id: each for each in known}
    found = []
    for each in candidates:
        owner = by_producer.get(each.producer_id)
        if owner is None:
            found.append(each)
        elif each.topic_partition not in owner.partitions:
            found.append(replace(each, transactional_id=owner.transactional_id))
    return found


async def abort_transaction(
    cluster: ClusterMetadata, transaction: HangingTransaction, timeout_ms: int
) -> None:
    """Write an abort marker into one partition; see ``Admin.abort_transaction``."""
    where = transaction.topic_partition
    marker = WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
        # The coordinator epoch is -1 if the partition never had a marker of this producer.
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
    )

    async def attempt() -> None:
        await cluster.refresh((where.topic,))
        cluster.group_by_leader([where])
        connection = await cluster.leader(where)
        response = await connection.request(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
        )
        codes = [
            result.error_code
            for each in response.markers
            for topic in each.topics
            for result in topic.partitions
            if (topic.name, result.partition_index) == where
        ]
        text = f"abort of the transaction of producer {transaction.producer_id} in {where}"
        raise_for(codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR, None, text)

    await cluster.retry(attempt, timeout_ms, is_refreshing=False)


async def _all_partitions(cluster: ClusterMetadata, timeout_ms: int) -> list[TopicPartition]:
    view = await cluster.retry(lambda: cluster.refresh(None), timeout_ms, is_refreshing=False)
    return [
        TopicPartition(topic.name, each.partition)
        for topic in view.topics.values()
        for each in topic.partitions
        if each.leader >= 0
    ]


async def _described(
    cluster: ClusterMetadata, ids: Sequence[str], left_ms: Callable[[], int]
) -> list[TransactionDescription]:
    """Describe transactional ids, and leave out those that no longer exist.

    ``left_ms`` returns the time that is left for this.
    """

    async def one(transactional_id: str) -> list[TransactionDescription]:
        try:
            return list(
                (await describe_transactions(cluster, [transactional_id], left_ms())).values()
            )
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return []
            raise

    return [each for part in await gather(partial(one, each) for each in ids) for each in part]


def _description(found: TransactionState, coordinator: Node) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=found.transactional_id,
        coordinator=coordinator,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        start_time_ms=found.transaction_start_time_ms,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, each)
                for topic in found.topics
                for each in topic.partitions
            )
        ),
    )
