"""A broker keeps transactions in a topic and sends markers to leaders of partitions."""

import logging
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
import trio
import trio.testing

from log_service.broker.transactions.marker_sender import PUT_OFF_MS, RETRY_MS, MarkerSender
from log_service.broker.transactions.marker_writer import (
    REQUEST_TIMEOUT_MS,
    OnResponse,
    write_markers,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TRANSACTION_STATE_TOPIC, NodeId, TopicPartition
from log_service.coordinator.transaction.markers import DueMarkers, Owner, SentMarkers
from log_service.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.helpers.handler_node import LISTENER, HandlerNode, tell_handlers

OWNER = Owner(partition=3, leader_epoch=9)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, (50, 1, "1", str(100 << 20))),
        (
            {
                "transaction.state.log.num.partitions": "3",
                "transaction.state.log.replication.factor": "2",
                "transaction.state.log.min.isr": "1",
                "transaction.state.log.segment.bytes": "2000000",
            },
            (3, 2, "1", "2000000"),
        ),
    ],
)
def test_the_topic_of_transactions_is_made_as_configured(
    properties: dict[str, str], expected: tuple[int, int, str, str]
) -> None:
    async def story(node: HandlerNode) -> None:
        node.controller.responses[CreateTopicsResponse] = CreateTopicsResponse(
            topics=[CreatableTopicResult(name=TRANSACTION_STATE_TOPIC)]
        )
        assert await node.node.topic_creation.create([TRANSACTION_STATE_TOPIC]) == {}
        (topic,) = node.controller.requests[-1].topics
        configs = {each.name: each.value for each in topic.configs}
        assert (
            topic.num_partitions,
            topic.replication_factor,
            configs["min.insync.replicas"],
            configs["segment.bytes"],
        ) == expected
        assert (configs["cleanup.policy"], configs["compression.type"]) == (
            "compact",
            "uncompressed",
        )
        assert configs["unclean.leader.election.enable"] == "false"

    tell_handlers(story, **{name.replace(".", "_"): text for name, text in properties.items()})


@dataclass
class Leader:
    """A pool whose one broker answers what the test says."""

    codes: list[ErrorCode | None]
    requests: list[WriteTxnMarkersRequest] = field(default_factory=list)

    async def request(
        self, _destination: object, request: WriteTxnMarkersRequest, _response_type: object
    ) -> WriteTxnMarkersResponse:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection is gone")
        return WriteTxnMarkersResponse(
            markers=[_answer(marker, code) for marker in request.markers]
        )


def _answer(marker: Any, code: ErrorCode) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


def due(*partitions: TopicPartition) -> DueMarkers:
    return DueMarkers(
        transactional_id="t",
        producer_id=1,
        producer_epoch=4,
        is_commit=True,
        transaction_version=2,
        partitions=partitions,
    )


PARTITIONS = (TopicPartition("a", 0), TopicPartition("a", 1))
GONE = TopicPartition("gone", 0)


class Written:
    """This notes the markers that the coordinator hears of, until so many partitions have theirs."""

    def __init__(self, count: int) -> None:
        self.partitions: set[TopicPartition] = set()
        self._count = count
        self._are_all_there = trio.Event()

    def __call__(self, entry: SentMarkers) -> None:
        self.partitions.update(entry.partitions)
        if len(self.partitions) == self._count:
            self._are_all_there.set()

    async def wait(self) -> None:
        with trio.fail_after(RETRY_MS):
            await self._are_all_there.wait()


def sender_of(
    node: HandlerNode,
    node_id: NodeId,
    pool: object,
    written: Written,
    failures: list[Exception] | None = None,
) -> MarkerSender:
    """Return the sender for a node.

    It reaches other nodes through ``pool``, and node 1 by a call, which raises ``failures`` first.
    """

    def write_here(request: WriteTxnMarkersRequest, on_response: OnResponse) -> None:
        if failures:
            raise failures.pop()
        write_markers(
            node.replicas,
            node.node.groups,
            request,
            on_response,
            node.node.clock.monotonic_ms() + REQUEST_TIMEOUT_MS,
        )

    return MarkerSender(
        node_id=node_id,
        image=lambda: node.image,
        listener_name=LISTENER,
        pool=lambda: cast("Any", pool),
        write_here=write_here,
        on_written=written,
    )


def test_markers_are_sent_until_every_partition_has_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        leader = Leader(codes=[None, None, ErrorCode.NOT_ENOUGH_REPLICAS])
        written = Written(count=3)
        sender = sender_of(node, NodeId(2), leader, written)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(*PARTITIONS, GONE))
        await written.wait()
        assert written.partitions == {*PARTITIONS, GONE}
        assert len(leader.requests) == 4
        assert ["did not take markers" in text for text in caplog.messages].count(True) == 1, (
            "a node that is down is not told ten times a second"
        )
        assert {
            marker.coordinator_epoch for request in leader.requests for marker in request.markers
        } == {9}

    tell_handlers(story)


def log_end(node: HandlerNode, where: TopicPartition) -> int:
    return node.replicas.get_partition(*where).state.log_end_offset


def test_markers_of_partitions_that_the_node_leads_itself_take_no_connection() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        leader, written = Leader(codes=[]), Written(count=2)
        sender = sender_of(node, NodeId(1), leader, written)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(*PARTITIONS))
        await written.wait()
        assert [log_end(node, where) for where in PARTITIONS] == [1, 1]
        assert leader.requests == []

    tell_handlers(story)


class Turns(trio.abc.Instrument):
    """Counts the turns of the event loop."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


def test_markers_of_the_nodes_unreplicated_partitions_leave_the_processor_to_the_client_first() -> (
    None
):
    """The client that hears of the outcome is often woken on the node's core, and would stand
    behind them.
    """

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        written = Written(count=2)
        sender = sender_of(node, NodeId(1), Leader(codes=[]), written)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(*PARTITIONS))
        await trio.testing.wait_all_tasks_blocked()
        assert written.partitions == set()
        await trio.sleep(PUT_OFF_MS / 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert written.partitions == set(PARTITIONS)

    tell_handlers(story)


def test_markers_that_are_put_off_are_written_in_the_next_turn_of_the_event_loop_where_a_request_waits_for_them() -> (
    None
):
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        turns, counted = Turns(), list[int]()
        sender = sender_of(
            node,
            NodeId(1),
            Leader(codes=[]),
            cast("Any", lambda _entry: counted.append(turns.count)),
        )
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(*PARTITIONS))
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(turns)
        sender.hurry()
        await trio.testing.wait_all_tasks_blocked()
        assert counted == [1]
        sender.send(OWNER, due(*PARTITIONS))
        sender.hurry()
        turns.count = 0
        await trio.testing.wait_all_tasks_blocked()
        assert counted == [1, 1], "a request may come before the sender has looked at what is owed"
        sender.hurry()
        await trio.testing.wait_all_tasks_blocked()
        sender.send(OWNER, due(*PARTITIONS))
        await trio.testing.wait_all_tasks_blocked()
        assert counted == [1, 1], "a hurry with nothing put off is over"

    tell_handlers(story)


@pytest.mark.parametrize(("node_id", "at_once"), [(1, {GONE}), (2, {GONE, *PARTITIONS})])
def test_markers_of_other_nodes_and_of_partitions_that_are_gone_are_not_put_off(
    node_id: int, at_once: set[TopicPartition]
) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        written = Written(count=3)
        sender = sender_of(node, NodeId(node_id), Leader(codes=[]), written)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(*PARTITIONS, GONE))
        await trio.testing.wait_all_tasks_blocked()
        assert written.partitions == at_once
        await written.wait()

    tell_handlers(story)


def test_a_marker_of_the_nodes_own_counts_once_all_replicas_have_it() -> None:
    async def story(node: HandlerNode) -> None:
        node.context.create_topic("a", replicas=[NodeId(1), NodeId(2)], isr=[NodeId(1), NodeId(2)])
        written = Written(count=1)
        sender = sender_of(node, NodeId(1), Leader(codes=[]), written)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(PARTITIONS[0]))
        await trio.testing.wait_all_tasks_blocked()
        assert (log_end(node, PARTITIONS[0]), written.partitions) == (1, set())
        partition = node.replicas.get_partition("a", 0)
        node.replicas.note_fetch(
            partition,
            2,
            1,
            log_start_offset=0,
            broker_epoch=-1,
            now_ms=node.node.clock.monotonic_ms(),
        )
        node.replicas.announce((partition,))
        await written.wait()
        assert log_end(node, PARTITIONS[0]) == 1

    tell_handlers(story)


def test_markers_of_unreplicated_partitions_go_with_the_next_ones_that_followers_have_to_get() -> (
    None
):
    """The node is asked for one batch at a time.

    Batches that wait for followers would hold up deferred ones for as long as they come.
    """

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        node.context.create_topic("r", replicas=[NodeId(1), NodeId(2)], isr=[NodeId(1), NodeId(2)])
        replicated, written = TopicPartition("r", 0), Written(count=1)
        sender = sender_of(node, NodeId(1), Leader(codes=[]), written)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, replace(due(replicated), transactional_id="first"))
        await trio.testing.wait_all_tasks_blocked()
        sender.send(OWNER, due(PARTITIONS[0]))
        sender.send(OWNER, replace(due(replicated), transactional_id="next"))
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(PUT_OFF_MS / 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert (log_end(node, replicated), log_end(node, PARTITIONS[0])) == (1, 0), (
            "the first batch is under way"
        )
        partition = node.replicas.get_partition(*replicated)
        node.replicas.note_fetch(
            partition,
            2,
            1,
            log_start_offset=0,
            broker_epoch=-1,
            now_ms=node.node.clock.monotonic_ms(),
        )
        node.replicas.announce((partition,))
        await written.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert (log_end(node, replicated), log_end(node, PARTITIONS[0])) == (2, 1)

    tell_handlers(story)


def test_a_coordinator_that_was_followed_by_another_sends_no_marker_to_its_own_partitions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        written = Written(count=1)
        sender = sender_of(node, NodeId(1), Leader(codes=[]), written)
        await node.context.nursery.start(sender.run)
        sender.send(replace(OWNER, leader_epoch=OWNER.leader_epoch + 1), due(PARTITIONS[0]))
        await written.wait()
        sender.send(OWNER, due(PARTITIONS[0]))
        await trio.sleep(PUT_OFF_MS / 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert log_end(node, PARTITIONS[0]) == 1, "the first marker alone"

    tell_handlers(story)
    assert "Another coordinator owns transactional id 't' by now" in caplog.text


def test_markers_that_a_bug_keeps_from_the_nodes_own_partitions_are_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        written = Written(count=1)
        failures: list[Exception] = [RuntimeError("a bug")]
        sender = sender_of(node, NodeId(1), Leader(codes=[]), written, failures)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(PARTITIONS[0]))
        await written.wait()
        assert log_end(node, PARTITIONS[0]) == 1

    tell_handlers(story)
    assert "a bug" in caplog.text
