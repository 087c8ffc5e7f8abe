"""Verifies partitions with transaction coordinators before a transaction's first batch (KIP-890).

Decides which coordinator is asked, and in which order. The log decides which verification an append
needs then (``storage.verifications``). The handlers decide the client's error after a refusal
(``transactions.response_errors``).

A coordinator of this node mostly responds at once, and the request continues at once. Otherwise the
request waits. A producer sends its batches one after the other without waiting for responses.
Therefore each transactional id has a queue. Its requests wait there while the coordinator is asked
for the first one. The later ones find the transaction open, and are appended in order.
All questions to one coordinator that arrive while a request to it is in flight go out together, in
the next request.

Invariants:

- At most one request per coordinator is in flight, and at most one question per transactional id.
- A queue is as long as the requests that connections may have in flight. All queues together hold
  ``MAX_HELD_BYTES`` at most. Further requests are refused, and their clients retry.
- The callback of a request (``act``) is called exactly once, even if no coordinator can be reached.
- A request waits once in all for the end of the previous transaction: here, in a queue or at a
  coordinator of this node, for ``retry_max_ms`` from its arrival.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import trio

from log_service.broker.peers import destination_of
from log_service.broker.requests.call import Deferred, StartTask
from log_service.broker.transactions.response_errors import Asker, request_error
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.java_hashing import hashed_partition
from log_service.common.types import TRANSACTION_STATE_TOPIC, NodeId, TopicPartition
from log_service.config.views import VerificationConfig
from log_service.coordinator.transaction.rules import Producer
from log_service.coordinator.transaction.transaction import EPOCH_BUMP_VERSION
from log_service.coordinator.transaction.transaction_coordinator import PartitionsOfTransaction
from log_service.metadata.image import MetadataImage
from log_service.metrics.latency import LatencyMeter
from log_service.protocol.api_versions import ApiKey
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.verifications import ONGOING, UNCHECKED, Verification

if TYPE_CHECKING:
    from log_service.protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTransaction,
    )
    from log_service.rpc.connection import Destination
    from log_service.rpc.pool import ConnectionPool

FIRST_VERSION_FOR_BROKERS = 4
PURPOSE = "transactions"
MAX_HELD_BYTES = 128 << 20
"""Limit for records that wait for coordinators.

A single request is always accepted, however large it is.
"""

Codes = dict[TopicPartition, ErrorCode]
Errors = Mapping[TopicPartition, ErrorCode]


class AskLocally(Protocol):
    """Asks a coordinator of this process. See ``TransactionService.settle_partitions``."""

    def __call__(
        self,
        asked: PartitionsOfTransaction,
        on_codes: Callable[[Codes], None],
        *,
        verify_only: bool,
        patience_ms: int,
    ) -> None:
        """Add partitions to the transaction, or check that they are in it (``verify_only``).

        ``on_codes`` is called once with a code for each partition, now or later.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The partitions that a request wants to write to in a transaction.

    ``sequences`` has the first sequence of the batch for each partition. ``held_bytes`` is the
    memory that the request holds while it waits. ``keep`` is called before it waits, to copy data
    that would not last.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequences: Mapping[TopicPartition, int]
    asker: Asker
    held_bytes: int = 0
    keep: Callable[[], None] = lambda: None


@dataclass(slots=True)
class VerificationResult:
    """The result of a verification, by partition.

    ``shown`` has the verification that an append must show to the partition's log. ``errors`` has
    the codes of partitions that must not be written to.
    """

    shown: dict[TopicPartition, Verification] = field(default_factory=dict)
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    @property
    def unasked(self) -> list[TopicPartition]:
        """The partitions that the coordinator has to be asked about."""
        return [
            where
            for where, shown in self.shown.items()
            if shown is not ONGOING and shown is not UNCHECKED
        ]


Act = Callable[[VerificationResult], None]


class _Asked:
    """A question to a coordinator, with or without its result.

    Once ``done`` is set, ``errors`` has the partitions that must not be written to.
    """

    def __init__(
        self, question: Question, partitions: Collection[TopicPartition], began_ns: int
    ) -> None:
        self.partitions = PartitionsOfTransaction(
            transactional_id=question.transactional_id,
            producer=Producer(
                producer_id=question.producer_id, producer_epoch=question.producer_epoch
            ),
            partitions=tuple(partitions),
            client_version=EPOCH_BUMP_VERSION,
        )
        self.verify_only = question.asker is not Asker.ADDS
        self.began_ns = began_ns
        self.errors: Errors = {}
        self.done = trio.Event()

    def settle(self, codes: Errors) -> None:
        """Store the coordinator's error codes of the partitions."""
        self.errors = {where: code for where, code in codes.items() if code is not ErrorCode.NONE}
        self.done.set()

    def settle_all(self, code: ErrorCode) -> None:
        """Store one error code for all partitions.

        It is the coordinator's code for the transaction, or the reason for its missing response.
        """
        self.settle(dict.fromkeys(self.partitions.partitions, code))


@dataclass(slots=True)
class _QueuedQuestion:
    """A request in the queue of its transactional id.

    It waits for the end of the previous transaction until ``deadline_ms``. ``begun`` is set for the
    request that began the queue: its result so far, and its question.
    """

    question: Question
    act: Act
    deferred: Deferred
    deadline_ms: int
    begun: tuple[VerificationResult, _Asked] | None = None


class TransactionVerifier:
    """Verifies the transactions of one node's partitions.

    ``ask_locally`` asks this node's own coordinator. It is None if the node has none.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        listener_name: str,
        config: VerificationConfig,
        clock: Clock,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        pool: "Callable[[], ConnectionPool]",
        start_task: StartTask,
        ask_locally: AskLocally | None = None,
    ) -> None:
        self._node_id = node_id
        self._listener_name = listener_name
        self._config = config
        self._clock = clock
        self._replicas = replicas
        self._image = image
        self._pool = pool
        self._start_task = start_task
        self._queues: dict[str, deque[_QueuedQuestion]] = {}
        self._waiting: dict[Destination, list[_Asked]] = {}
        self._busy: set[Destination] = set()
        self._held_bytes = 0
        self._ask_locally = ask_locally
        self.times = LatencyMeter(clock.monotonic_ms())
        """How long coordinators took to respond, and how often they were asked."""
        self.failure_count = 0
        """Count of partitions that were refused, by a coordinator or for lack of its response."""
        self.is_enabled = config.is_enabled
        """Whether partitions are verified for producers that have announced them.

        May change while the node runs.
        """

    def __repr__(self) -> str:
        return f"<TransactionVerifier queues={len(self._queues)} busy={len(self._busy)}>"

    def verify(self, question: Question, act: Act, deferred: Deferred) -> None:
        """Call ``act`` once with the coordinator's decision, to append or refuse the batches.

        It is called at once if the decision is known at once, otherwise when it is the request's
        turn. ``act`` completes ``deferred``. If ``act`` raises, the connection of the request
        closes.
        """
        queue = self._queues.get(question.transactional_id)
        result, unasked = VerificationResult(), list[TopicPartition]()
        if queue is None:
            result = self._begin(question)
            unasked = result.unasked
            if not unasked:
                act(result)
                return
        if self._held_bytes and self._held_bytes + question.held_bytes > MAX_HELD_BYTES:
            act(
                VerificationResult(
                    errors=dict.fromkeys(question.sequences, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                )
            )
            return
        queued = _QueuedQuestion(
            question, act, deferred, self._clock.monotonic_ms() + self._config.retry_max_ms
        )
        if queue is None:
            asked = self._ask(queued, unasked)
            if asked.done.is_set() and not _must_ask_again(question, asked):
                act(self._settled(question, result, asked))
                return
            queued.begun = result, asked
            queue = self._queues[question.transactional_id] = deque()
            self._start_task(self._work_off, question.transactional_id, queue)
        question.keep()
        self._held_bytes += question.held_bytes
        queue.append(queued)

    async def _work_off(self, transactional_id: str, queue: deque[_QueuedQuestion]) -> None:
        """Call ``act`` for the requests of a queue, in their order."""
        try:
            while queue:
                queued = queue[0]
                result = await self._result_of(queued)
                try:
                    queued.act(result)
                except Exception as error:  # noqa: BLE001 - a bug of ours, or a request without a response: its own connection pays
                    queued.deferred.fail(error)
                queue.popleft()
                self._held_bytes -= queued.question.held_bytes
        finally:
            self._held_bytes -= sum(queued.question.held_bytes for queued in queue)
            del self._queues[transactional_id]

    # Deciding

    def _begin(self, question: Question) -> VerificationResult:
        """Begin the verification in each partition's log, and return what is known so far.

        The coordinator need not be asked about partitions in which the transaction is open already.
        """
        result, is_version_2 = VerificationResult(), question.asker is Asker.ADDS
        if not is_version_2 and not self.is_enabled:
            result.shown = dict.fromkeys(question.sequences, UNCHECKED)
            return result
        producer, now_ms = (question.producer_id, question.producer_epoch), self._clock.wall_ms()
        for where, sequence in question.sequences.items():
            try:
                partition = self._replicas.get_partition(*where)
                shown = partition.begin_verification(
                    *producer, sequence, is_version_2=is_version_2, now_ms=now_ms
                )
            except KafkaError as error:
                result.errors[where] = error.code
            else:
                result.shown[where] = shown
        return result

    async def _result_of(self, queued: _QueuedQuestion) -> VerificationResult:
        """Return the coordinator's decision on the partitions of a request. Wait for it if needed.

        If the coordinator should add partitions, but is still ending the previous transaction, it
        is asked again for a while.
        """
        question, asked = queued.question, None
        if queued.begun is not None:
            result, asked = queued.begun
        else:
            result = self._begin(question)
            if unasked := result.unasked:
                asked = self._ask(queued, unasked)
        while asked is not None:
            await asked.done.wait()
            if (
                not _must_ask_again(question, asked)
                or self._clock.monotonic_ms() >= queued.deadline_ms
            ):
                break
            self._note(asked)
            await trio.sleep(self._config.retry_backoff_ms / 1_000)
            asked = self._ask(queued, result.unasked)
        return self._settled(question, result, asked)

    def _settled(
        self, question: Question, result: VerificationResult, asked: _Asked | None
    ) -> VerificationResult:
        """Return the result, after the coordinator's response was added to it."""
        if asked is not None:
            self._note(asked)
            result.errors.update(
                {where: request_error(code, question.asker) for where, code in asked.errors.items()}
            )
        if not self.is_enabled:
            result.shown = dict.fromkeys(result.shown, UNCHECKED)
        return result

    def _note(self, asked: _Asked) -> None:
        self.times.note(self._clock.monotonic_ns() - asked.began_ns)
        self.failure_count += len(asked.errors)

    # Asking

    def _ask(self, queued: _QueuedQuestion, partitions: Collection[TopicPartition]) -> _Asked:
        """Ask the coordinator. One on this node may have responded when this returns."""
        asked = _Asked(queued.question, partitions, self._clock.monotonic_ns())
        self._send(
            queued.question.transactional_id,
            asked,
            max(queued.deadline_ms - self._clock.monotonic_ms(), 0),
        )
        return asked

    def _send(self, transactional_id: str, asked: _Asked, patience_ms: int) -> None:
        """Send a question to the leader of the id's partition of ``__transaction_state``."""
        image = self._image()
        state = image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
        registration = (
            None
            if state is None
            else state.partitions.get(hashed_partition(transactional_id, len(state.partitions)))
        )
        if (
            registration is not None
            and registration.leader == self._node_id
            and self._ask_locally is not None
        ):
            self._ask_locally(
                asked.partitions,
                asked.settle,
                verify_only=asked.verify_only,
                patience_ms=patience_ms,
            )
            return
        destination = None
        if registration is not None and registration.leader != self._node_id:
            destination = destination_of(image, registration.leader, self._listener_name, PURPOSE)
        if destination is None:
            asked.settle_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._send_there(destination, asked)

    def _send_there(self, leader: "Destination", asked: _Asked) -> None:
        self._waiting.setdefault(leader, []).append(asked)
        if leader not in self._busy:
            self._busy.add(leader)
            self._start_task(self._send_all, leader)

    async def _send_all(self, leader: "Destination") -> None:
        """Send the waiting questions of a coordinator until there are none."""
        try:
            while questions := self._waiting.pop(leader, None):
                try:
                    response = await self._exchange(leader, _request(questions))
                except KafkaError as error:
                    code = (
                        ErrorCode.NONE
                        if error.code is ErrorCode.UNSUPPORTED_VERSION
                        else ErrorCode.NETWORK_EXCEPTION
                    )
                    for asked in questions:
                        asked.settle_all(code)
                else:
                    _settle(questions, response)
        finally:
            self._busy.discard(leader)

    async def _exchange(
        self, leader: "Destination", request: "AddPartitionsToTxnRequest"
    ) -> "AddPartitionsToTxnResponse":
        """Send a request to a coordinator and return the response.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, the broker does not support this request of brokers;
                NETWORK_EXCEPTION, REQUEST_TIMED_OUT.
        """
        from log_service.protocol.messages.add_partitions_to_txn import (  # noqa: PLC0415 - as above
            AddPartitionsToTxnResponse,
        )

        connection = await self._pool().connect(leader)
        if connection.versions.choose(ApiKey.ADD_PARTITIONS_TO_TXN) < FIRST_VERSION_FOR_BROKERS:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{leader} takes no questions of brokers about transactions",
            )
        return await connection.request(request, AddPartitionsToTxnResponse)


def _must_ask_again(question: Question, asked: _Asked) -> bool:
    """Whether to ask again, because the coordinator is still ending the previous transaction.

    This happens only if it was asked to add partitions.
    """
    return (
        question.asker is Asker.ADDS and ErrorCode.CONCURRENT_TRANSACTIONS in asked.errors.values()
    )


def _request(questions: Collection[_Asked]) -> "AddPartitionsToTxnRequest":
    from log_service.protocol.messages.add_partitions_to_txn import (  # noqa: PLC0415 - few nodes need it
        AddPartitionsToTxnRequest,
    )

    return AddPartitionsToTxnRequest(transactions=[_transaction(asked) for asked in questions])


def _settle(questions: Collection[_Asked], response: "AddPartitionsToTxnResponse") -> None:
    results = {result.transactional_id: result for result in response.results_by_transaction}
    for asked in questions:
        result = results.get(asked.partitions.transactional_id)
        if response.error_code:
            asked.settle_all(ErrorCode.of(response.error_code))
        elif result is None:
            asked.settle_all(ErrorCode.NETWORK_EXCEPTION)
        else:
            asked.settle(
                {
                    TopicPartition(topic.name, partition_result.partition_index): ErrorCode.of(
                        partition_result.partition_error_code
                    )
                    for topic in result.topic_results
                    for partition_result in topic.results_by_partition
                }
            )


def _transaction(asked: _Asked) -> "AddPartitionsToTxnTransaction":
    from log_service.protocol.messages.add_partitions_to_txn import (  # noqa: PLC0415 - as above
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for where in asked.partitions.partitions:
        topics.setdefault(where.topic, AddPartitionsToTxnTopic(name=where.topic)).partitions.append(
            where.partition
        )
    return AddPartitionsToTxnTransaction(
        transactional_id=asked.partitions.transactional_id,
        producer_id=asked.partitions.producer.producer_id,
        producer_epoch=asked.partitions.producer.producer_epoch,
        verify_only=asked.verify_only,
        topics=list(topics.values()),
    )
