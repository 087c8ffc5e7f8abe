"""Serve the transaction APIs of a node: find the shard of each transactional id, join responses.

This file decides which partition of ``__transaction_state`` an id belongs to, which errors a
request gets before it reaches a shard, and which errors old versions know. The shard decides what
an id may do. No method waits. Each method calls ``on_reply`` once, now or later.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from log_service.common.env import Clock, RunInPool
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.common.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from log_service.config.views import TransactionConfig
from log_service.coordinator.gathering import Gathering
from log_service.coordinator.refusals import api_error
from log_service.coordinator.request_context import RequestClient, RequestContext
from log_service.coordinator.sharded_service import ShardedService
from log_service.coordinator.shards import CoordinatorLog, Shards
from log_service.coordinator.transaction import listing, records
from log_service.coordinator.transaction.markers import DueMarkers, Owner, SentMarkers
from log_service.coordinator.transaction.records import TransactionRecord
from log_service.coordinator.transaction.rules import Producer
from log_service.coordinator.transaction.transaction import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from log_service.coordinator.transaction.transaction_coordinator import (
    PAUSE_MS,
    EndedTransaction,
    PartitionsOfTransaction,
    TransactionCoordinatorShard,
    WrittenMarkers,
    completion_timer,
)
from log_service.coordinator.transaction.waiting_requests import WaitingRequests
from log_service.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from log_service.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from log_service.protocol.messages.describe_transactions import (
    TransactionState as DescribedTransaction,
)
from log_service.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from log_service.state_machine.decision import Decision
from log_service.state_machine.runtime import OnReply, Refuse

T = TypeVar("T")

FIRST_ADD_VERSION_WITH_MANY = 4
FIRST_FENCED_VERSION = 2
FIRST_FENCED_INIT_VERSION = 4
"""From these versions on, a fenced request gets PRODUCER_FENCED (KIP-588).

Earlier versions get INVALID_PRODUCER_EPOCH.
"""
STORE_TIMEOUT_MS = 60_000
"""The longest time that a response waits for the replication of its records.

It equals the default transaction timeout.
"""
BROKER_PATIENCE_MS = 5
"""The longest time that another broker's request waits for the end of the previous transaction.

It is short, because such a request covers many producers and the others wait too.
"""

Decide = Callable[[TransactionCoordinatorShard, Decision[TransactionRecord], Hashable], None]
Codes = dict[TopicPartition, ErrorCode]
_ANY_CLIENT = RequestClient(api_version=0, client_id="", client_host="")
"""The client in requests whose decision does not depend on the client."""


class TransactionService(ShardedService[TransactionCoordinatorShard, TransactionRecord]):
    """The transactional ids that this node coordinates.

    ``next_producer_id`` returns an unused producer id, or None if there is none yet.
    ``server_version`` returns the cluster's transaction.version.

    - ``on_due`` is called with markers whose outcome is replicated.
    - ``on_dropped`` is called with a partition of ``__transaction_state`` that this node no longer
      leads.
    - ``on_wait`` is called when a request begins to wait for the end of the previous transaction,
      and when markers become due that a request waits for.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        config: TransactionConfig,
        timers: TimerQueue,
        run_in_pool: RunInPool,
        next_producer_id: Callable[[], int | None],
        server_version: Callable[[], int],
        partition_count: Callable[[], int] = lambda: 0,
        on_due: Callable[[Owner, DueMarkers], None],
        on_dropped: Callable[[int], None],
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._config = config
        self._waiting = WaitingRequests(
            clock=clock, timers=timers, is_ending_soon=self._is_ending_soon, on_wait=on_wait
        )
        self._on_wait = on_wait
        self._on_due = on_due
        self._on_dropped = on_dropped
        self._epochs: dict[int, int] = {}
        shards: Shards[TransactionCoordinatorShard, TransactionRecord] = Shards(
            clock=clock,
            timers=timers,
            run_in_pool=run_in_pool,
            topic=TRANSACTION_STATE_TOPIC,
            new_shard=lambda: TransactionCoordinatorShard(config, next_producer_id, server_version),
            encode=records.encode,
            decode=records.decode,
            reply_timeout_ms=STORE_TIMEOUT_MS,
            on_announcement=self._on_announcement,
        )
        super().__init__(shards, partition_count, config.state_log_partitions)

    def lead(self, coordinator_log: CoordinatorLog) -> None:
        """Load the transactional ids of a partition, then serve them."""
        self._on_dropped(coordinator_log.partition)
        self._epochs[coordinator_log.partition] = coordinator_log.leader_epoch
        super().lead(coordinator_log)

    def resign(self, partition: int) -> None:
        """Stop serving the transactional ids of a partition.

        The next coordinator sends the partition's markers.
        """
        self._epochs.pop(partition, None)
        super().resign(partition)
        self._on_dropped(partition)

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` that a transactional id belongs to."""
        return self._partition_of(transactional_id)

    # Markers

    def _on_announcement(
        self, coordinator_log: CoordinatorLog, announced: DueMarkers | EndedTransaction
    ) -> None:
        if isinstance(announced, EndedTransaction):
            self._waiting.resume(announced.transactional_id)
        else:
            self._on_due(
                Owner(
                    partition=coordinator_log.partition, leader_epoch=coordinator_log.leader_epoch
                ),
                announced,
            )
            # the InitProducerId that made this shard abort the transaction may wait for its end
            if self._waiting.is_awaited(announced.transactional_id):
                self._on_wait()

    def markers_written(self, written: SentMarkers) -> None:
        """Record which partitions of a transaction have their marker, or are deleted.

        A report for an earlier leader epoch is ignored. After the last partition, the end of the
        transaction is stored before this method returns. Requests that waited for the end are then
        retried.
        """
        if self._epochs.get(written.owner.partition) != written.owner.leader_epoch:
            return
        transactional_id = written.markers.transactional_id
        producer = Producer(
            producer_id=written.markers.producer_id, producer_epoch=written.markers.producer_epoch
        )
        news = WrittenMarkers(
            transactional_id=transactional_id, producer=producer, partitions=written.partitions
        )

        def decide(
            shard: TransactionCoordinatorShard,
            decision: Decision[TransactionRecord],
            token: Hashable,
        ) -> None:
            shard.handle_written_markers(news, decision)
            decision.reply(token, None)

        self.shards.ask(written.owner.partition, decide, _ignore, _ignore)
        self.shards.fire_if_due(written.owner.partition, completion_timer(transactional_id))
        shard = self.shards.shard(written.owner.partition)
        if shard is not None and not shard.owed(transactional_id):
            # retry now, because the announcement of the end waits for followers
            self._waiting.resume(transactional_id)

    # One transactional id

    def init_producer_id(
        self, request: InitProducerIdRequest, client: RequestClient, on_reply: OnReply
    ) -> None:
        """Respond with InitProducerIdResponse. The request must have a transactional id."""

        def refuse(error: KafkaError) -> InitProducerIdResponse:
            return InitProducerIdResponse(
                error_code=api_error(error), producer_epoch=NO_PRODUCER_EPOCH
            )

        transactional_id = request.transactional_id or ""
        if not transactional_id:
            on_reply(refuse(KafkaError(ErrorCode.INVALID_REQUEST)))
        elif not 0 < request.transaction_timeout_ms <= self._config.max_timeout_ms:
            on_reply(refuse(KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)))
        else:
            reply = _with_known_code(
                on_reply, is_fencing_known=client.api_version >= FIRST_FENCED_INIT_VERSION
            )
            decide = _decides(TransactionCoordinatorShard.handle_init_producer_id, request, client)
            self._ask_patiently(transactional_id, decide, reply, refuse)

    def add_offsets(
        self,
        request: AddOffsetsToTxnRequest,
        where: TopicPartition,
        client: RequestClient,
        on_reply: OnReply,
    ) -> None:
        """Respond with AddOffsetsToTxnResponse.

        ``where`` is the partition of ``__consumer_offsets`` that the group belongs to.
        """
        producer = Producer(producer_id=request.producer_id, producer_epoch=request.producer_epoch)
        asked = PartitionsOfTransaction(
            transactional_id=request.transactional_id,
            producer=producer,
            partitions=(where,),
            client_version=CLASSIC_VERSION,
        )
        is_fencing_known = client.api_version >= FIRST_FENCED_VERSION
        self._add(
            asked,
            lambda code: on_reply(
                AddOffsetsToTxnResponse(
                    error_code=_known_code(code, is_fencing_known=is_fencing_known)
                )
            ),
        )

    def end_txn(self, request: EndTxnRequest, client: RequestClient, on_reply: OnReply) -> None:
        """Respond with EndTxnResponse."""

        def refuse(error: KafkaError) -> EndTxnResponse:
            return EndTxnResponse(
                error_code=api_error(error),
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_PRODUCER_EPOCH,
            )

        if not request.transactional_id:
            on_reply(refuse(KafkaError(ErrorCode.INVALID_REQUEST)))
            return
        reply = _with_known_code(
            on_reply, is_fencing_known=client.api_version >= FIRST_FENCED_VERSION
        )
        decide = _decides(TransactionCoordinatorShard.handle_end_txn, request, client)
        self._ask_patiently(request.transactional_id, decide, reply, refuse)

    # Partitions of transactions

    def add_partitions(
        self,
        request: AddPartitionsToTxnRequest,
        api_version: int,
        on_reply: OnReply,
        is_there: Callable[[TopicPartition], bool] = lambda _where: True,
    ) -> None:
        """Respond with AddPartitionsToTxnResponse.

        If a partition does not exist, no partition of the same transaction is added.
        """
        if api_version < FIRST_ADD_VERSION_WITH_MANY:
            self._add_of_one(request, api_version, on_reply, is_there)
            return
        results = Gathering(
            len(request.transactions),
            lambda found: on_reply(AddPartitionsToTxnResponse(results_by_transaction=found)),
        )
        for index, each in enumerate(request.transactions):
            reply = partial(_reply_for_transaction, each.transactional_id, results.part(index))
            self._add_or_verify(each, reply, is_there)

    def _add_of_one(
        self,
        request: AddPartitionsToTxnRequest,
        api_version: int,
        on_reply: OnReply,
        is_there: Callable[[TopicPartition], bool],
    ) -> None:
        partitions = _partitions(request.v3_and_below_topics)

        def on_codes(codes: Codes) -> None:
            known = {
                where: _known_code(code, is_fencing_known=api_version >= FIRST_FENCED_VERSION)
                for where, code in codes.items()
            }
            on_reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(known)))

        missing = _missing(partitions, is_there)
        if missing:
            on_codes(missing)
            return
        producer = Producer(
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
        )
        asked = PartitionsOfTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer=producer,
            partitions=partitions,
            client_version=CLASSIC_VERSION,
        )
        self._add(asked, lambda code: on_codes(dict.fromkeys(partitions, code)))

    def _add_or_verify(
        self,
        request: AddPartitionsToTxnTransaction,
        on_codes: Callable[[Codes], None],
        is_there: Callable[[TopicPartition], bool],
    ) -> None:
        partitions = _partitions(request.topics)
        missing = _missing(partitions, is_there)
        if missing:
            on_codes(missing)
            return
        asked = PartitionsOfTransaction(
            transactional_id=request.transactional_id,
            producer=Producer(
                producer_id=request.producer_id, producer_epoch=request.producer_epoch
            ),
            partitions=partitions,
            client_version=EPOCH_BUMP_VERSION,
        )
        self.settle_partitions(
            asked, on_codes, verify_only=request.verify_only, patience_ms=BROKER_PATIENCE_MS
        )

    def settle_partitions(
        self,
        asked: PartitionsOfTransaction,
        on_codes: Callable[[Codes], None],
        *,
        verify_only: bool,
        patience_ms: int,
    ) -> None:
        """Add partitions to a transaction, or only verify that it has them.

        ``on_codes`` is called once, now or later, with a code for each partition. ``patience_ms``
        bounds the wait for the end of the previous transaction.
        """
        if verify_only:
            self._verify(asked, on_codes)
        else:
            self._add(
                asked, lambda code: on_codes(dict.fromkeys(asked.partitions, code)), patience_ms
            )

    def _add(
        self,
        asked: PartitionsOfTransaction,
        on_code: Callable[[ErrorCode], None],
        patience_ms: int | None = None,
    ) -> None:
        if not asked.transactional_id:
            on_code(ErrorCode.INVALID_REQUEST)
            return
        decide = _decides(TransactionCoordinatorShard.handle_add_partitions, asked)
        self._ask_patiently(asked.transactional_id, decide, on_code, api_error, patience_ms)

    def _verify(self, asked: PartitionsOfTransaction, on_codes: Callable[[Codes], None]) -> None:
        def on_reply(outcome: Codes | ErrorCode) -> None:
            on_codes(
                outcome if isinstance(outcome, dict) else dict.fromkeys(asked.partitions, outcome)
            )

        if not asked.transactional_id:
            on_reply(ErrorCode.INVALID_REQUEST)
            return
        self._ask(
            asked.transactional_id,
            _decides(TransactionCoordinatorShard.handle_verify_partitions, asked),
            on_reply,
            api_error,
        )

    # Admin

    def describe(self, request: DescribeTransactionsRequest, on_reply: OnReply) -> None:
        """Respond with DescribeTransactionsResponse."""
        ids = request.transactional_ids
        results = Gathering(
            len(ids),
            lambda states: on_reply(DescribeTransactionsResponse(transaction_states=states)),
        )
        for index, transactional_id in enumerate(ids):
            refuse = partial(_refused_describe, transactional_id)
            if transactional_id:
                decide = _decides(TransactionCoordinatorShard.handle_describe, transactional_id)
                self._ask(transactional_id, decide, results.part(index), refuse)
            else:
                results.part(index)(refuse(KafkaError(ErrorCode.INVALID_REQUEST)))

    def list(self, request: ListTransactionsRequest, on_reply: OnReply) -> None:
        """Respond with ListTransactionsResponse."""
        shards = self.shards.serving()
        try:
            filters = listing.filters_of(request)
        except KafkaError as error:
            on_reply(ListTransactionsResponse(error_code=error.code))
            return
        if shards is None:
            on_reply(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        now_ms = self._clock.wall_ms()
        search = listing.Search(
            filters.pattern, [each for shard in shards for each in shard.listed(filters, now_ms)]
        )
        unknown = listing.unknown_states(request)
        self._go_on(
            search,
            lambda: on_reply(
                ListTransactionsResponse(
                    unknown_state_filters=unknown, transaction_states=search.found
                )
            ),
        )

    def _go_on(self, search: listing.Search, on_found: Callable[[], None]) -> None:
        """Take one step of a search now, and each later step after a pause for other requests.

        ``on_found`` is called after the last step.
        """
        if search.take_step():
            on_found()
        else:
            self._timers.schedule(
                self._clock.monotonic_ms() + PAUSE_MS, partial(self._go_on, search, on_found)
            )

    def _ask(
        self, transactional_id: str, decide: Decide, on_reply: OnReply, refuse: Refuse
    ) -> None:
        self.shards.ask(self.partition_for(transactional_id), decide, on_reply, refuse)

    def _ask_patiently(
        self,
        transactional_id: str,
        decide: Decide,
        on_reply: OnReply,
        refuse: Refuse,
        patience_ms: int | None = None,
    ) -> None:
        """Send a request to the shard of an id, and retry it if it has to wait.

        It waits while the previous transaction is expected to end soon. ``patience_ms`` bounds the
        wait. If it is None, the bound is ``end_patience_ms`` of the configuration, as for a
        client's request.
        """
        waits_ms = self._config.end_patience_ms if patience_ms is None else patience_ms
        self._waiting.ask(
            transactional_id,
            lambda on_outcome: self._ask(transactional_id, decide, on_outcome, refuse),
            on_reply,
            waits_ms,
        )

    def _is_ending_soon(self, transactional_id: str) -> bool:
        """Whether a transaction is ending and began to end less than ``end_patience_ms`` ago."""
        shard = self.shards.shard(self.partition_for(transactional_id))
        known = None if shard is None else shard.transactions.get(transactional_id)
        return (
            known is not None
            and known.is_ending
            and self._clock.wall_ms() - known.last_update_ms < self._config.end_patience_ms
        )


def _ignore(_outcome: object) -> None:
    """Ignore a response that no caller waits for."""


def _decides(
    handle: Callable[
        [TransactionCoordinatorShard, T, RequestContext, Decision[TransactionRecord]], None
    ],
    request: T,
    client: RequestClient = _ANY_CLIENT,
) -> Decide:
    """Return a function that calls ``handle`` with a shard and a client's request."""
    return lambda shard, decision, token: handle(shard, request, client.context(token), decision)


def _known_code(code: ErrorCode, *, is_fencing_known: bool) -> ErrorCode:
    return (
        ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.PRODUCER_FENCED and not is_fencing_known
        else code
    )


def _with_known_code(on_reply: OnReply, *, is_fencing_known: bool) -> OnReply:
    """Wrap ``on_reply`` to replace an error code that the request's version does not know."""

    def reply(response: Any) -> None:
        response.error_code = _known_code(
            ErrorCode.of(response.error_code), is_fencing_known=is_fencing_known
        )
        on_reply(response)

    return reply


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    return tuple(
        dict.fromkeys(
            TopicPartition(topic.name, index) for topic in topics for index in topic.partitions
        )
    )


def _missing(
    partitions: Sequence[TopicPartition], is_there: Callable[[TopicPartition], bool]
) -> Codes:
    """Return an error code for each partition if any does not exist, else an empty mapping.

    The existing partitions get OPERATION_NOT_ATTEMPTED.
    """
    there = {where: is_there(where) for where in partitions}
    if all(there.values()):
        return {}
    return {
        where: ErrorCode.OPERATION_NOT_ATTEMPTED if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for where, found in there.items()
    }


def _reply_for_transaction(transactional_id: str, on_codes: OnReply, codes: Codes) -> None:
    on_codes(
        AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=_by_topic(codes))
    )


def _by_topic(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for where, code in codes.items():
        result = AddPartitionsToTxnPartitionResult(
            partition_index=where.partition, partition_error_code=code
        )
        topics.setdefault(where.topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=name, results_by_partition=results)
        for name, results in topics.items()
    ]


def _refused_describe(transactional_id: str, error: KafkaError) -> DescribedTransaction:
    return DescribedTransaction(transactional_id=transactional_id, error_code=api_error(error))
