"""Transactions at a broker: the topic that keeps them, and the markers on their way to the leaders of partitions."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import trio

from log_service.broker.marker_sender import RETRY_MS, MarkerSender
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TRANSACTION_STATE_TOPIC, TopicPartition
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
def test_the_topic_of_transactions_is_made_as_configured(properties: dict[str, str], expected: tuple[int, int, str, str]) -> None:
    async def story(node: HandlerNode) -> None:
        node.controller.responses[CreateTopicsResponse] = CreateTopicsResponse(topics=[CreatableTopicResult(name=TRANSACTION_STATE_TOPIC)])
        assert await node.node.topic_creation.create([TRANSACTION_STATE_TOPIC]) == {}
        (topic,) = node.controller.requests[-1].topics
        configs = {each.name: each.value for each in topic.configs}
        assert (topic.num_partitions, topic.replication_factor, configs["min.insync.replicas"], configs["segment.bytes"]) == expected
        assert (configs["cleanup.policy"], configs["compression.type"]) == ("compact", "uncompressed")
        assert configs["unclean.leader.election.enable"] == "false"

    tell_handlers(story, **{name.replace(".", "_"): text for name, text in properties.items()})


@dataclass
class Leader:
    """A pool whose one broker answers what the test says."""

    codes: list[ErrorCode | None]
    requests: list[WriteTxnMarkersRequest] = field(default_factory=list)

    async def request(self, _destination: object, request: WriteTxnMarkersRequest, _response_type: object) -> WriteTxnMarkersResponse:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the connection is gone")
        return WriteTxnMarkersResponse(markers=[_answer(marker, code) for marker in request.markers])


def _answer(marker: Any, code: ErrorCode) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[WritableTxnMarkerPartitionResult(partition_index=index, error_code=code) for index in topic.partition_indexes],
        )
        for topic in marker.topics
    ]
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


def due(*partitions: TopicPartition) -> DueMarkers:
    return DueMarkers(transactional_id="t", producer_id=1, producer_epoch=4, is_commit=True, transaction_version=2, partitions=partitions)


def test_markers_are_sent_until_every_partition_has_its_own() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        leader = Leader(codes=[None, ErrorCode.NOT_ENOUGH_REPLICAS])
        written: list[SentMarkers] = []
        all_are_written = trio.Event()

        def on_written(entry: SentMarkers) -> None:
            written.append(entry)
            if sum(len(each.partitions) for each in written) == 3:
                all_are_written.set()

        sender = MarkerSender(image=lambda: node.image, listener_name=LISTENER, pool=lambda: cast("Any", leader), on_written=on_written)
        await node.context.nursery.start(sender.run)
        sender.send(OWNER, due(TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("gone", 0)))
        with trio.fail_after(RETRY_MS):
            await all_are_written.wait()
        assert {where for each in written for where in each.partitions} == {*(TopicPartition("a", index) for index in (0, 1)), ("gone", 0)}
        assert len(leader.requests) == 3
        assert {marker.coordinator_epoch for request in leader.requests for marker in request.markers} == {9}

    tell_handlers(story)
