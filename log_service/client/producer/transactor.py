"""Sends a transactional producer's requests to the coordinators of transactions and groups.

``transaction_state`` decides which calls are allowed, and ``sender`` sends the records. This module
knows the versions of both transaction protocols.

Invariants: one call at a time. A call that timed out or was cancelled may be repeated with the same
meaning. Every record of a transaction is acknowledged before the commit is requested.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from log_service.client.admin.fan_out import by_topic
from log_service.client.admin.groups import as_offsets, with_coordinator
from log_service.client.admin.values import ConsumerGroupMetadata, OffsetAndMetadata
from log_service.client.connections.cluster_metadata import TRANSACTION_KEY_TYPE, ClusterMetadata
from log_service.client.producer.accumulator import Accumulator
from log_service.client.producer.sender import CONCURRENT_BACKOFF_MS, Sender
from log_service.client.producer.sequences import ProducerIdentity, Sequences
from log_service.client.producer.transaction_errors import (
    ProducerFailed,
    Step,
    TransactionAbortable,
)
from log_service.client.producer.transaction_state import TAKEN, Call, State, Transactions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.config.client import ProducerConfig
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from log_service.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from log_service.protocol.schema import Message
from log_service.rpc.connection import RpcConnection

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)

TRANSACTION_VERSION = "transaction.version"
PURPOSE = "transaction"
LAST_END_WITHOUT_EPOCH = 4
LAST_ADD_OF_CLIENTS = 3
LAST_OFFSETS_WITHOUT_ADDING = 4
FIRST_OFFSETS_WITH_MEMBERS = 3
FIRST_INIT_WITH_EPOCH = 3


class Transactor:
    """Runs the transactions of one open producer.

    ``deliver`` waits until all records are settled. It raises if the given time in ms passes first.
    """

    def __init__(
        self,
        cluster: ClusterMetadata,
        config: ProducerConfig,
        transactions: Transactions,
        *,
        sequences: Sequences,
        accumulator: Accumulator,
        sender: Sender,
        deliver: Callable[[int | None], Awaitable[None]],
        nursery: trio.Nursery,
    ) -> None:
        self._nursery = nursery
        self._cluster = cluster
        self._config = config
        self._transactions = transactions
        self._sequences = sequences
        self._accumulator = accumulator
        self._sender = sender
        self._deliver = deliver
        self._lock = trio.Lock()
        # Held while a transaction ends, because an announcement would then count for the next one.
        self._announcing = trio.Lock()
        self._id = transactions.transactional_id
        self._level = 0

    def __repr__(self) -> str:
        return f"<Transactor {self._transactions!r}>"

    # Calls

    async def init(self, timeout_ms: int) -> None:
        """Claim the transactional id; see ``Producer.init_transactions``."""
        async with self._lock:
            self._transactions.start_initializing()
            await self._until_done(
                Step.INIT, self._initialize, timeout_ms, "call init_transactions() again"
            )
            self._transactions.note_initialized()

    async def begin(self) -> None:
        """Begin a transaction; see ``Producer.begin_transaction``.

        If an abort is unfinished, finish it first.
        """
        async with self._lock:
            if self._transactions.state is State.ABORTING:
                await self._abort(self._config.max_block_ms)
            await trio.lowlevel.checkpoint()
            with self._accumulator.guarded():
                self._transactions.begin(self._level)

    async def commit(self, timeout_ms: int | None) -> None:
        """Commit the transaction; see ``Producer.commit_transaction``.

        If records cannot be delivered, the transaction must be aborted.
        """
        async with self._lock:
            with self._accumulator.guarded():
                self._transactions.start_commit()
            left_ms = self._cluster.countdown(
                self._config.max_block_ms if timeout_ms is None else timeout_ms
            )
            is_delivered = False
            try:
                await self._deliver(timeout_ms)
                is_delivered = True
            finally:
                if not is_delivered:
                    self._fail("not every record was acknowledged, so it was not committed")
            self._transactions.require(Call.COMMIT)  # a record may have failed
            if timeout_ms is None:
                left_ms = self._cluster.countdown(self._config.max_block_ms)
            await self._end(
                left_ms,
                "whether it is committed is not known: call commit_transaction() again",
                is_commit=True,
            )

    async def abort(self, timeout_ms: int) -> None:
        """Abort the transaction; see ``Producer.abort_transaction``."""
        async with self._lock:
            await self._abort(timeout_ms)

    async def send_offsets(
        self,
        given: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: ConsumerGroupMetadata,
        timeout_ms: int,
    ) -> None:
        """Commit a group's offsets; see ``Producer.send_offsets_to_transaction``.

        After any failure the transaction must be aborted.
        """
        if type(group) is not ConsumerGroupMetadata:
            text = (
                "group_metadata is what consumer.group_metadata() returns, or a"
                " ConsumerGroupMetadata"
            )
            raise TypeError(f"{text}, not {type(group).__name__}")
        offsets = as_offsets(given)
        async with self._lock:
            self._transactions.require(Call.SEND_OFFSETS)
            if not offsets:
                return
            left_ms = self._cluster.countdown(timeout_ms)
            is_sent = False
            try:
                self._transactions.start_adding_offsets()
                if not self._transactions.is_version_2:
                    await self._until_done(
                        Step.ADD_OFFSETS,
                        lambda: self._add_offsets(group),
                        left_ms(),
                        "abort the transaction",
                    )
                await self._until_done(
                    Step.COMMIT_OFFSETS,
                    lambda: self._commit_offsets(offsets, group),
                    left_ms(),
                    "abort the transaction",
                    group.group_id,
                )
                is_sent = True
            finally:
                if not is_sent:
                    self._fail(f"the offsets of group {group.group_id!r} did not get into it")

    # End of a ``transaction()`` block

    async def finish(self) -> None:
        """Commit the transaction. If that is impossible, abort it and raise the reason.

        If the call is cancelled while records are delivered, the transaction is aborted too. Once
        the commit was requested, only a commit can end the transaction.
        """
        try:
            await self.commit(None)
        except TransactionAbortable:
            await self.abort_quietly()
            raise
        except BaseException:
            self.abort_soon()
            raise

    async def abort_quietly(self) -> None:
        """Abort the transaction if that is possible.

        Errors are logged, because the application gets another error already.
        """
        if self._transactions.state in TAKEN[Call.ABORT]:
            with self._accumulator.guarded():
                self._transactions.start_abort()
            await self._finish_abort()

    def abort_soon(self) -> None:
        """Start to abort the transaction in a background task.

        The calling task is cancelled, so it cannot wait.
        """
        if self._transactions.state in TAKEN[Call.ABORT]:
            with self._accumulator.guarded():
                self._transactions.start_abort()
            self._sender.wake()
            self._nursery.start_soon(self._finish_abort)

    async def _finish_abort(self) -> None:
        """Finish the abort, unless another task finished it already.

        In that case the next transaction may be open, which must not be aborted.
        """
        try:
            async with self._lock:
                if self._transactions.state is State.ABORTING:
                    await self._abort(self._config.max_block_ms)
        except KafkaError as error:
            logger.warning(
                "the transaction is left to the coordinator, which aborts it after its timeout: %s",
                error,
            )

    # Steps

    def _fail(self, reason: str) -> None:
        text = f"transaction of {self._id!r}: {reason}. Abort it, and do its work again"
        self._transactions.fail(TransactionAbortable(ErrorCode.TRANSACTION_ABORTABLE, text))
        self._sender.wake()

    async def _abort(self, timeout_ms: int) -> None:
        with self._accumulator.guarded():
            self._transactions.start_abort()
        left_ms = self._cluster.countdown(timeout_ms)
        with trio.move_on_after(timeout_ms / 1_000):
            self._sender.wake()
            while not self._accumulator.is_empty:
                await self._sender.wait_settled()
        if not self._accumulator.is_empty:
            text = (
                f"transaction of {self._id!r}: brokers have not responded within {timeout_ms} ms;"
                " call abort_transaction() again"
            )
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        await self._end(left_ms, "call abort_transaction() again", is_commit=False)

    async def _end(self, left_ms: Callable[[], int], advice: str, *, is_commit: bool) -> None:
        transactions = self._transactions
        async with self._announced_by(left_ms, advice):
            if transactions.is_started:
                await self._until_done(
                    Step.END, lambda: self._end_once(is_commit=is_commit), left_ms(), advice
                )
                transactions.note_coordinator_ended()
            if transactions.is_bump_needed and not transactions.is_version_2:
                await self._until_done(Step.INIT, self._raise_epoch, left_ms(), advice)
            with self._accumulator.guarded():
                transactions.note_ended()

    @asynccontextmanager
    async def _announced_by(self, left_ms: Callable[[], int], advice: str) -> AsyncIterator[None]:
        """Prevent announcements of partitions during a block.

        First wait for a running announcement, for at most the ms that ``left_ms`` returns.

        Raises:
            KafkaError: REQUEST_TIMED_OUT, the time passed. The text ends with ``advice``.
        """
        is_free = False
        with trio.move_on_after(left_ms() / 1_000):
            await self._announcing.acquire()
            is_free = True
        if not is_free:
            text = (
                f"transaction of {self._id!r}: the coordinator has not responded to its partitions"
                f" in time; {advice}"
            )
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        try:
            yield
        finally:
            self._announcing.release()

    async def _until_done(
        self,
        step: Step,
        attempt: Callable[[], Awaitable[None]],
        timeout_ms: int,
        advice: str,
        group_id: str | None = None,
    ) -> None:
        """Call ``attempt`` until it succeeds, fails for good, or ``timeout_ms`` has passed.

        Every error that is raised here has been passed to ``Transactions.apply_error``.

        Raises:
            TransactionAbortable, ProducerFailed, ProducerFenced: the response had an error that has
                this meaning; see ``meaning_of``.
            KafkaError: ``timeout_ms`` passed. The text ends with ``advice``.
        """

        async def attempt_once() -> None:
            try:
                if group_id is None:
                    await with_coordinator(
                        self._cluster, self._id, attempt, key_type=TRANSACTION_KEY_TYPE
                    )
                else:
                    await with_coordinator(self._cluster, group_id, attempt)
            except (TransactionAbortable, ProducerFailed):
                raise
            except KafkaError as error:
                if not error.is_retriable:
                    self._raise_error_of(step, error.code, str(error))
                raise

        try:
            await self._cluster.retry(attempt_once, timeout_ms)
        except KafkaError as error:
            if error.is_retriable:
                raise KafkaError(
                    error.code, f"{error} (not done within {timeout_ms} ms); {advice}"
                ) from error
            raise

    def _raise_error_of(self, step: Step, code: ErrorCode, text: str) -> None:
        """Apply the error code of a response, and raise its error if there is one."""
        error = self._transactions.apply_error(step, code, text)
        if error is not None:
            if self._transactions.is_doomed:
                self._sender.wake()
            raise error

    def _raise_first(
        self,
        step: Step,
        partitions: Iterable[TopicPartition],
        codes: Mapping[TopicPartition, ErrorCode],
        what: str,
    ) -> None:
        """Apply the error codes of partitions, and raise the first error if there is one.

        ``what`` begins the error's text. A partition without a code has failed, because the
        response should have named it.
        """
        found = {each: codes.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in partitions}
        # OPERATION_NOT_ATTEMPTED is caused by another partition, which has the reason.
        for each in sorted(
            found, key=lambda each: found[each] is ErrorCode.OPERATION_NOT_ATTEMPTED
        ):
            self._raise_error_of(step, found[each], f"{what} for {each}")

    async def _coordinator(self) -> RpcConnection:
        connection = await self._cluster.coordinator(
            self._id, PURPOSE, key_type=TRANSACTION_KEY_TYPE
        )
        self._level = connection.versions.levels.get(TRANSACTION_VERSION, 0)
        return connection

    def _identity(self) -> ProducerIdentity:
        assert self._sequences.identity is not None, "a transaction has a producer id"
        return self._sequences.identity

    def _take_identity(self, producer_id: int, producer_epoch: int) -> None:
        with self._accumulator.guarded():
            self._sequences.take_identity(ProducerIdentity(producer_id, producer_epoch))

    async def _initialize(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=self._config.transaction_timeout_ms
        )
        response = await (await self._coordinator()).request(request, InitProducerIdResponse)
        self._raise_error_of(Step.INIT, ErrorCode.of(response.error_code), Step.INIT.value)
        self._take_identity(response.producer_id, response.producer_epoch)

    async def _raise_epoch(self) -> None:
        """Get the next epoch from the coordinator (KIP-360).

        It is needed after records with sequence numbers were given up. In a new epoch, leaders
        accept sequence numbers from 0 on.
        """
        connection = await self._coordinator()
        if connection.version_of(ApiKey.INIT_PRODUCER_ID) < FIRST_INIT_WITH_EPOCH:
            self._raise_error_of(
                Step.INIT,
                ErrorCode.UNSUPPORTED_VERSION,
                "the coordinator cannot raise the epoch (KIP-360)",
            )
        producer_id, producer_epoch = self._identity()
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        response = await connection.request(request, InitProducerIdResponse)
        self._raise_error_of(Step.INIT, ErrorCode.of(response.error_code), Step.INIT.value)
        self._take_identity(response.producer_id, response.producer_epoch)

    async def _end_once(self, *, is_commit: bool) -> None:
        connection = await self._coordinator()
        producer_id, producer_epoch = self._identity()
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=is_commit,
        )
        max_version = None if self._transactions.is_version_2 else LAST_END_WITHOUT_EPOCH
        response = await connection.request(request, EndTxnResponse, max_version=max_version)
        self._raise_error_of(
            Step.END, ErrorCode.of(response.error_code), "commit" if is_commit else "abort"
        )
        if response.producer_id >= 0:
            self._take_identity(response.producer_id, response.producer_epoch)

    async def announce(self) -> None:
        """Announce partitions to the coordinator until none is left or the transaction has failed.

        Only version 1 of the protocol needs this.
        """
        async with self._announcing:
            await self._announce_all()

    async def _announce_all(self) -> None:
        attempt = 0
        while self._transactions.is_announcement_due:
            try:
                await with_coordinator(
                    self._cluster, self._id, self._announce_once, key_type=TRANSACTION_KEY_TYPE
                )
                attempt = 0
            except (TransactionAbortable, ProducerFailed):
                return
            except KafkaError as error:
                if not error.is_retriable:
                    self._transactions.apply_error(Step.ADD_PARTITIONS, error.code, str(error))
                    return
                is_concurrent = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
                pause_ms = (
                    CONCURRENT_BACKOFF_MS if is_concurrent else self._cluster.backoff_ms(attempt)
                )
                attempt += 1
                await trio.sleep(pause_ms / 1_000)

    async def _announce_once(self) -> None:
        connection = await self._coordinator()
        with self._accumulator.guarded():
            partitions = self._transactions.start_announcing()
        producer_id, producer_epoch = self._identity()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=each)
                for name, each in by_topic(partitions).items()
            ],
        )
        response = await connection.request(
            request, AddPartitionsToTxnResponse, max_version=LAST_ADD_OF_CLIENTS
        )
        codes = {
            TopicPartition(topic.name, result.partition_index): ErrorCode.of(
                result.partition_error_code
            )
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        self._raise_first(Step.ADD_PARTITIONS, partitions, codes, Step.ADD_PARTITIONS.value)
        with self._accumulator.guarded():
            self._transactions.note_announced(partitions)

    async def _add_offsets(self, group: ConsumerGroupMetadata) -> None:
        connection = await self._coordinator()
        producer_id, producer_epoch = self._identity()
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            group_id=group.group_id,
        )
        response = await connection.request(request, AddOffsetsToTxnResponse)
        self._raise_error_of(
            Step.ADD_OFFSETS, ErrorCode.of(response.error_code), f"group {group.group_id!r}"
        )
        self._transactions.note_offsets_added()

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        connection = await self._cluster.coordinator(group.group_id)
        producer_id, producer_epoch = self._identity()
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        _offset(each, offsets[TopicPartition(name, each)]) for each in numbers
                    ],
                )
                for name, numbers in by_topic(offsets).items()
            ],
        )
        if connection.version_of(ApiKey.TXN_OFFSET_COMMIT) >= FIRST_OFFSETS_WITH_MEMBERS:
            request.generation_id, request.member_id = group.generation_id, group.member_id
            request.group_instance_id = group.group_instance_id
        max_version = None if self._transactions.is_version_2 else LAST_OFFSETS_WITHOUT_ADDING
        response = await connection.request(
            request, TxnOffsetCommitResponse, max_version=max_version
        )
        codes = {
            TopicPartition(topic.name, result.partition_index): ErrorCode.of(result.error_code)
            for topic in response.topics
            for result in topic.partitions
        }
        self._raise_first(
            Step.COMMIT_OFFSETS, offsets, codes, f"offset of group {group.group_id!r}"
        )


def _offset(partition: int, offset: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )
