"""Produce requests without a transactional id, appended at once (see ``produce``).

A batch in a transaction is TRANSACTIONAL_ID_AUTHORIZATION_FAILED here, with all of its request. A
request that takes longer than one turn of the event loop, or follows such a request, waits in the
queue of its connection (``produce_queues``).
"""

import trio

from log_service.broker.handlers.produce.checks import check_in_queue
from log_service.broker.handlers.produce.produce import (
    ACKS_NONE,
    Outcome,
    Terms,
    append_batch,
    each_once,
    refuse_produce,
    respond,
    terms_of,
)
from log_service.broker.node import Node
from log_service.broker.requests.call import NOTHING, Call, Deferred, Nothing
from log_service.broker.requests.produce_queues import QueuedRequest
from log_service.common.errors import ErrorCode, KafkaError, kept
from log_service.protocol.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from log_service.records.batch import looks_transactional
from log_service.records.validator import Allowance, NoRoomError, TurnRoom
from log_service.replication.partition import Batch


def handle_produce(
    node: Node, call: Call, request: ProduceRequest
) -> ProduceResponse | Deferred | Nothing:
    """Append the batches of a request, and respond now, later or never."""
    if request.transactional_id is not None:
        from log_service.broker.handlers.produce.transactional import (  # noqa: PLC0415 - few nodes need it
            handle_transactional_produce,
        )

        return handle_transactional_produce(node, call, request)
    topics = request.topic_data
    if len(topics) > 1 or (topics and len(topics[0].partition_data) > 1):
        topics = each_once(topics)
        if any(
            looks_transactional(wanted.records)
            for topic in topics
            for wanted in topic.partition_data
        ):
            text = "a batch is part of a transaction, and the request names no transactional id"
            return refuse_produce(
                call, KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
            )
    appends = PlainAppends(node, terms_of(request, call.version), topics)
    if not node.produce_queues.is_busy(call.connection) and appends.append_some(TurnRoom()):
        return respond(node, call, request, appends.outcomes)
    return append_later(node, call, request, appends)


def append_later(
    node: Node, call: Call, request: ProduceRequest, appends: "PlainAppends"
) -> Deferred:
    """Append the remaining batches when the queue of the connection reaches the request.

    Return the response to the request.
    """
    appends.announce()

    async def work(queued: QueuedRequest) -> None:
        if await appends.append_rest(queued):
            with call.counted():
                reply = respond(
                    node, call, request, appends.outcomes, queued.deferred, is_announced=True
                )
            if reply is NOTHING:
                queued.deferred.complete_without_response()
            elif isinstance(reply, ProduceResponse):
                queued.deferred.complete(reply)

    return node.produce_queues.add(call, request, work, outlives_client=request.acks == ACKS_NONE)


class PlainAppends:
    """The appends of one request, both done and remaining."""

    __slots__ = ("_announced_count", "_checked", "_node", "_now_ms", "_terms", "outcomes")

    def __init__(self, node: Node, terms: Terms, topics: list[TopicProduceData]) -> None:
        self._node = node
        self._terms = terms
        self._now_ms = node.clock.wall_ms()
        self._checked: Batch | None = None
        self._announced_count = 0
        self.outcomes: list[tuple[TopicProduceData, list[Outcome]]] = [
            (topic, []) for topic in topics
        ]

    @property
    def done_count(self) -> int:
        """Number of partitions whose outcome is known."""
        return sum(len(of_topic) for _, of_topic in self.outcomes)

    def append_some(self, room: TurnRoom) -> bool:
        """Append batches until the turn has no ``room`` left. Return whether all are appended."""
        appends, terms, now_ms = self._node.appends, self._terms, self._now_ms
        try:
            for topic, of_topic in self.outcomes:
                for wanted in (
                    topic.partition_data[len(of_topic) :] if of_topic else topic.partition_data
                ):
                    records = wanted.records if self._checked is None else self._checked
                    of_topic.append(
                        append_batch(
                            appends, terms, topic, wanted.index, records, now_ms=now_ms, room=room
                        )
                    )
                    self._checked = None
        except NoRoomError:
            return False
        return True

    async def append_rest(self, queued: QueuedRequest) -> bool:
        """Append the remaining batches, over several turns if needed.

        Return whether all are appended. They are not if the client has left meanwhile.
        """
        allowance = Allowance()
        while not queued.is_dropped:
            before = self.done_count
            with queued.call.counted():
                is_all = self.append_some(TurnRoom())
                self.announce()
            if is_all:
                return True
            if self.done_count == before:  # the next one takes more than a turn
                self._checked = await self._check_next(allowance, queued)
            else:
                await trio.lowlevel.checkpoint()
        return False

    async def _check_next(self, allowance: Allowance, queued: QueuedRequest) -> Batch | None:
        topic, wanted = next(
            (topic, topic.partition_data[len(of_topic)])
            for topic, of_topic in self.outcomes
            if len(of_topic) < len(topic.partition_data)
        )
        assert isinstance(wanted.records, memoryview), "anything else is refused at once"
        try:
            partition = self._node.replicas.find(topic.name, topic.topic_id, wanted.index)
            return await check_in_queue(
                self._node, partition, wanted.records, self._now_ms, allowance, queued
            )
        except KafkaError as error:
            return kept(error)

    def announce(self) -> None:
        """Notify waiting requests of appends that they were not notified of yet."""
        done = [outcome for _, of_topic in self.outcomes for outcome in of_topic]
        moved = [
            outcome[0] for outcome in done[self._announced_count :] if isinstance(outcome, tuple)
        ]
        self._announced_count = len(done)
        if moved:
            self._node.replicas.announce(moved)
