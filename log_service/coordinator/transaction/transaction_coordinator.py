"""One shard of the transaction coordinator: the ids of one partition of ``__transaction_state``.

Every ``handle_...`` method and ``on_timer`` is a plain function of the shard's state and a
``Decision``. ``rules`` decides on the next value of an id. The ids change only in ``replay``, both
after an append and while loading. One part of the state is not in the log: the partitions of an
ending transaction that have not acknowledged their marker yet. After a load, these are all
partitions of the transaction.

Invariants: Markers are announced only after the record with the outcome is replicated. An ending
transaction is completed only when every partition has acknowledged its marker. The completion is
retried until the log accepts it. A refusal waits for the high watermark like every response,
because it may follow from a record that is not replicated yet, and a producer that gets
PRODUCER_FENCED does not retry.

Source: transaction coordinator of Kafka 4.3; KIP-98, KIP-360, KIP-890.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from log_service.config.views import TransactionConfig
from log_service.coordinator.request_context import RequestContext
from log_service.coordinator.transaction import listing, rules
from log_service.coordinator.transaction.markers import DueMarkers
from log_service.coordinator.transaction.records import (
    CLASSIC_VALUE_VERSION,
    FLEXIBLE_VALUE_VERSION,
    TransactionRecord,
)
from log_service.coordinator.transaction.rules import Producer
from log_service.coordinator.transaction.transaction import Transaction
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.describe_transactions import (
    TransactionState as DescribedTransaction,
)
from log_service.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.protocol.messages.list_transactions import TransactionState as ListedTransaction
from log_service.state_machine.decision import Decision, ReplayContext

TransactionDecision = Decision[TransactionRecord]

TIMEOUT_TIMER = ("abort-timed-out",)
EXPIRY_TIMER = ("forget-expired",)
FORGOTTEN_PER_STEP = 500
FORGOTTEN_CHARACTERS_PER_STEP = 1 << 18
"""The bound of the expired ids' total length in one batch.

An id may have 32,767 bytes, and a batch must fit into a segment.
"""
PAUSE_MS = 5
"""The pause between two steps of background work."""
FIRST_END_VERSION_RAISING_EPOCH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsOfTransaction:
    """Partitions to add to a producer's transaction, or to verify."""

    transactional_id: str
    producer: Producer
    partitions: tuple[TopicPartition, ...]
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMarkers:
    """The partitions that have the marker of an ending transaction, or that are deleted."""

    transactional_id: str
    producer: Producer
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """Announcement that a transaction is complete."""

    transactional_id: str


class TransactionCoordinatorShard:
    """The transactional ids of one partition of ``__transaction_state``.

    ``next_producer_id`` returns an unused producer id, or None if there is none yet.
    ``server_version`` returns the cluster's transaction.version.
    """

    def __init__(
        self,
        config: TransactionConfig,
        next_producer_id: Callable[[], int | None],
        server_version: Callable[[], int],
    ) -> None:
        self._config = config
        self._next_producer_id = next_producer_id
        self._server_version = server_version
        self._transactions: dict[str, Transaction] = {}
        self._owed: dict[str, set[TopicPartition]] = {}
        """The partitions of each ending transaction that have not acknowledged the marker yet."""

    def __repr__(self) -> str:
        return (
            f"<TransactionCoordinatorShard ids={len(self._transactions)} ending={len(self._owed)}>"
        )

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """The transactional ids with their current values."""
        return self._transactions

    def owed(self, transactional_id: str) -> frozenset[TopicPartition]:
        """Return the partitions that have not acknowledged a transaction's marker yet."""
        return frozenset(self._owed.get(transactional_id, ()))

    # Stored state

    def replay(self, record: TransactionRecord, context: ReplayContext) -> None:  # noqa: ARG002 - see ``Shard``
        """Apply one record of the log."""
        transaction = record.transaction
        self._owed.pop(record.transactional_id, None)
        if transaction is None:
            self._transactions.pop(record.transactional_id, None)
            return
        self._transactions[record.transactional_id] = transaction
        if transaction.is_ending:
            self._owed[record.transactional_id] = set(transaction.partitions)

    def replay_end_transaction(
        self, producer_id: int, producer_epoch: int, *, is_committed: bool
    ) -> None:
        """Do nothing, because the coordinator's own log has no transactions."""

    def on_image(
        self, delta: MetadataDelta, image: MetadataImage, decision: TransactionDecision
    ) -> None:
        """Do nothing, because the broker of a marker is chosen when it is sent."""

    def on_loaded(self, decision: TransactionDecision) -> None:
        """Begin to serve requests.

        Markers of ending transactions are announced again, and the timers start.
        """
        for transactional_id in self._owed:
            self._announce_markers(self._transactions[transactional_id], decision)
        decision.set_timer(TIMEOUT_TIMER, decision.now_ms + self._config.abort_interval_ms)
        decision.set_timer(EXPIRY_TIMER, decision.now_ms + self._config.expiry_interval_ms)

    # Requests

    def handle_init_producer_id(
        self, request: InitProducerIdRequest, context: RequestContext, decision: TransactionDecision
    ) -> None:
        """Handle InitProducerId with a transactional id: raise the epoch to fence older producers.

        An ongoing transaction is aborted instead. The response is then CONCURRENT_TRANSACTIONS, and
        the producer must send the request again.
        """
        transactional_id = request.transactional_id
        assert transactional_id, "the service refuses what has no transactional id"
        timeout_ms, now_ms = request.transaction_timeout_ms, decision.wall_ms
        try:
            known = self._transactions.get(transactional_id)
            if known is None:
                known = rules.first_seen(
                    transactional_id, self._new_producer_id(), timeout_ms, now_ms
                )
            following = rules.init_producer_id(
                known, timeout_ms, _claimed(request), self._new_producer_id, now_ms
            )
            if following is known:
                self._abort(known, decision)
        except KafkaError as error:
            decision.reply(
                context.reply_to,
                InitProducerIdResponse(error_code=error.code, producer_epoch=NO_PRODUCER_EPOCH),
            )
            return
        if following is known:
            response = InitProducerIdResponse(
                error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=NO_PRODUCER_EPOCH
            )
        else:
            self._store(following, decision)
            response = InitProducerIdResponse(
                producer_id=following.producer_id, producer_epoch=following.producer_epoch
            )
        decision.reply(context.reply_to, response)

    def handle_add_partitions(
        self, asked: PartitionsOfTransaction, context: RequestContext, decision: TransactionDecision
    ) -> None:
        """Add partitions to a transaction. If needed, the transaction begins.

        Reply with one error code for all partitions.
        """
        known = self._transactions.get(asked.transactional_id)
        try:
            following = rules.add_partitions(
                known, asked.producer, asked.partitions, asked.client_version, decision.wall_ms
            )
        except KafkaError as error:
            decision.reply(context.reply_to, error.code)
            return
        if following is not known:
            self._store(following, decision)
        decision.reply(context.reply_to, ErrorCode.NONE)

    def handle_verify_partitions(
        self, asked: PartitionsOfTransaction, context: RequestContext, decision: TransactionDecision
    ) -> None:
        """Verify that a transaction has all of the given partitions. Nothing changes.

        Reply with an error code for each partition, or with one code for all.
        """
        known = self._transactions.get(asked.transactional_id)
        try:
            decision.reply(
                context.reply_to, rules.verify_partitions(known, asked.producer, asked.partitions)
            )
        except KafkaError as error:
            decision.reply(context.reply_to, error.code)

    def handle_end_txn(
        self, request: EndTxnRequest, context: RequestContext, decision: TransactionDecision
    ) -> None:
        """Handle EndTxn 0-5: store the outcome and respond. The markers are written later.

        From version 5 on, the response holds the producer's next epoch.
        """
        known = self._transactions.get(request.transactional_id)
        producer = Producer(producer_id=request.producer_id, producer_epoch=request.producer_epoch)
        is_raising = context.api_version >= FIRST_END_VERSION_RAISING_EPOCH
        now_ms, is_commit = decision.wall_ms, request.committed
        try:
            if is_raising:
                following = rules.end_raising_epoch(
                    known, producer, self._new_producer_id, is_commit=is_commit, now_ms=now_ms
                )
            else:
                following = rules.end_classic(known, producer, is_commit=is_commit, now_ms=now_ms)
        except KafkaError as error:
            decision.reply(context.reply_to, EndTxnResponse(error_code=error.code))
            return
        if following is not known:
            self._end(following, decision)
        producer_id, producer_epoch = (
            following.completed_identity if is_raising else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        )
        decision.reply(
            context.reply_to, EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)
        )

    def handle_describe(
        self, transactional_id: str, context: RequestContext, decision: TransactionDecision
    ) -> None:
        """Reply with the description of one transactional id."""
        described: DescribedTransaction = listing.described(
            transactional_id, self._transactions.get(transactional_id)
        )
        decision.reply(context.reply_to, described)

    def handle_written_markers(
        self, written: WrittenMarkers, decision: TransactionDecision
    ) -> None:
        """Record which partitions have their marker.

        When all have it, a timer that is due at once completes the transaction.

        A late report about an earlier transaction is ignored.
        """
        known, owed = (
            self._transactions.get(written.transactional_id),
            self._owed.get(written.transactional_id),
        )
        if known is None or owed is None:
            return
        if (known.producer_id, known.producer_epoch) != (
            written.producer.producer_id,
            written.producer.producer_epoch,
        ):
            return
        owed.difference_update(written.partitions)
        if not owed:
            decision.set_timer(completion_timer(written.transactional_id), decision.now_ms)

    def listed(self, filters: listing.Filters, now_ms: int) -> Iterable[ListedTransaction]:
        """Return the transactional ids that pass all filters except the pattern.

        ``listing.Search`` applies the pattern.
        """
        return listing.listed(self._transactions.values(), filters, now_ms)

    # Time

    def on_timer(self, key: Hashable, decision: TransactionDecision) -> None:
        """Abort timed-out transactions, remove expired ids, or complete an ending transaction."""
        if key == TIMEOUT_TIMER:
            self._find_timed_out(decision)
        elif key == EXPIRY_TIMER:
            self._forget_expired(decision)
        else:
            assert isinstance(key, tuple), "the timers of single ids are pairs"
            step, transactional_id = key
            known = self._transactions.get(transactional_id)
            if known is not None and step == "abort":
                self._abort_timed_out(known, decision)
            elif known is not None and known.is_ending and not self.owed(transactional_id):
                self._store(rules.complete(known, decision.wall_ms), decision)
                decision.announce(EndedTransaction(transactional_id))

    def _find_timed_out(self, decision: TransactionDecision) -> None:
        """Start a timer for each transaction that has timed out.

        Each transaction is aborted in a separate decision, so that a refused append does not delay
        the others.
        """
        for known in self._transactions.values():
            if rules.is_timed_out(known, decision.wall_ms):
                decision.set_timer(("abort", known.transactional_id), decision.now_ms)
        decision.set_timer(TIMEOUT_TIMER, decision.now_ms + self._config.abort_interval_ms)

    def _abort_timed_out(self, known: Transaction, decision: TransactionDecision) -> None:
        if rules.is_timed_out(known, decision.wall_ms):
            self._abort(known, decision)

    def _forget_expired(self, decision: TransactionDecision) -> None:
        is_full, character_count = False, 0
        for known in self._transactions.values():
            if not rules.is_expired(known, self._config.expiration_ms, decision.wall_ms):
                continue
            character_count += len(known.transactional_id)
            is_full = len(decision.records) == FORGOTTEN_PER_STEP
            is_full |= bool(decision.records) and character_count > FORGOTTEN_CHARACTERS_PER_STEP
            if is_full:
                break
            decision.append(
                TransactionRecord(transactional_id=known.transactional_id, transaction=None)
            )
        decision.set_timer(
            EXPIRY_TIMER,
            decision.now_ms + (PAUSE_MS if is_full else self._config.expiry_interval_ms),
        )

    # Records and announcements

    def _store(self, transaction: Transaction, decision: TransactionDecision) -> None:
        version = FLEXIBLE_VALUE_VERSION if self._server_version() > 0 else CLASSIC_VALUE_VERSION
        decision.append(
            TransactionRecord(
                transactional_id=transaction.transactional_id,
                transaction=transaction,
                value_version=version,
            )
        )

    def _abort(self, ongoing: Transaction, decision: TransactionDecision) -> None:
        self._end(
            rules.abort_as_coordinator(
                ongoing, self._server_version(), self._new_producer_id, decision.wall_ms
            ),
            decision,
        )

    def _end(self, prepared: Transaction, decision: TransactionDecision) -> None:
        self._store(prepared, decision)
        self._announce_markers(prepared, decision)

    def _announce_markers(self, ending: Transaction, decision: TransactionDecision) -> None:
        """Announce the markers. The announcement is made when the outcome is replicated.

        A transaction without partitions has no markers and completes at once.
        """
        if not ending.partitions:
            decision.set_timer(completion_timer(ending.transactional_id), decision.now_ms)
            return
        decision.announce(
            DueMarkers(
                transactional_id=ending.transactional_id,
                producer_id=ending.producer_id,
                producer_epoch=ending.producer_epoch,
                is_commit=ending.is_commit,
                transaction_version=ending.client_version,
                partitions=tuple(sorted(ending.partitions)),
            )
        )

    def _new_producer_id(self) -> int:
        producer_id = self._next_producer_id()
        if producer_id is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                "the controller has not given the next producer ids yet; ask again",
            )
        return producer_id


def completion_timer(transactional_id: str) -> tuple[str, str]:
    """Return the key of the timer that completes a transaction after its last marker."""
    return "complete", transactional_id


def _claimed(request: InitProducerIdRequest) -> Producer | None:
    if request.producer_id == NO_PRODUCER_ID:
        return None
    return Producer(producer_id=request.producer_id, producer_epoch=request.producer_epoch)
