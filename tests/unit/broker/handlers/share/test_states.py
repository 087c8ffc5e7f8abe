"""A broker stores the states of share groups in a topic (KIP-932).

The tests tell which node coordinates a state, and what is deleted of the log.
"""

from functools import partial
from typing import Any, cast
from uuid import UUID

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import SHARE_GROUP_STATE_TOPIC
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import ShareKey, ShareState
from log_service.coordinator.share.window import StateBatch
from log_service.coordinator.share_state_service import coordinator_key, parse_coordinator_key
from log_service.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.read_share_group_state import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from log_service.records.batch import iterate_headers
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import Story, tell


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, (50, 1, "1", str(100 << 20))),
        (
            {
                "num.partitions": "3",
                "replication.factor": "2",
                "min.isr": "1",
                "segment.bytes": "2000000",
            },
            (3, 2, "1", "2000000"),
        ),
    ],
)
def test_the_topic_of_share_states_is_made_as_configured(
    properties: dict[str, str], expected: tuple[int, int, str, str]
) -> None:
    async def story(node: HandlerNode) -> None:
        node.controller.responses[CreateTopicsResponse] = CreateTopicsResponse(
            topics=[CreatableTopicResult(name=SHARE_GROUP_STATE_TOPIC)]
        )
        assert await node.node.topic_creation.create([SHARE_GROUP_STATE_TOPIC]) == {}
        (topic,) = node.controller.requests[-1].topics
        configs = {each.name: each.value for each in topic.configs}
        assert (
            topic.num_partitions,
            topic.replication_factor,
            configs["min.insync.replicas"],
            configs["segment.bytes"],
        ) == expected
        assert (
            configs["cleanup.policy"],
            configs["compression.type"],
            configs["retention.ms"],
        ) == ("delete", "producer", "-1")

    named = {f"share.coordinator.state.topic.{name}": text for name, text in properties.items()}
    tell_handlers(story, **{name.replace(".", "_"): text for name, text in named.items()})


class States:
    """This broker notes its requests to share coordinators, one after the other."""

    def __init__(self, node: Story, topic_id: UUID) -> None:
        self.persister = node.broker.rooms.share_persister
        self.key = ShareKey(group_id="g", topic_id=topic_id, partition=0)

    async def told(self, ask: Any, **said: Any) -> Any:
        """Return what is told at the end."""
        done, told = trio.Event(), []

        def on_done(result: Any) -> None:
            told.append(result)
            done.set()

        ask(self.key, **said, on_done=on_done)
        await done.wait()
        assert len(told) == 1
        return told[0]

    async def write(
        self, first: int, last: int, *, start: int = 0, leader_epoch: int = 4
    ) -> KafkaError | None:
        batch = StateBatch(first_offset=first, last_offset=last, delivery_state=2, delivery_count=1)
        write = ShareStateWrite(
            state_epoch=1,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=2,
            batches=(batch,),
        )
        told: KafkaError | None = await self.told(self.persister.write, write=write)
        return told


def state_partition(node: Story) -> Any:
    return node.broker.replicas.get_partition(SHARE_GROUP_STATE_TOPIC, 0)


ONE_PARTITION: dict[str, Any] = {"share_coordinator_state_topic_num_partitions": "1"}


def test_a_state_is_begun_written_read_and_forgotten() -> None:
    async def story(node: Story) -> None:
        states = States(node, await node.create_topic("a"))
        ask = states.persister
        assert await states.told(ask.initialize, state_epoch=1, start_offset=-1) is None
        assert isinstance(await states.told(ask.read, leader_epoch=4), ShareState)
        assert await states.write(3, 5, start=2) is None
        read = await states.told(ask.read, leader_epoch=4)
        expected = (StateBatch(first_offset=3, last_offset=5, delivery_state=2, delivery_count=1),)
        assert (read.state_epoch, read.start_offset, read.batches) == (1, 2, expected)
        summary = await states.told(ask.summarize, leader_epoch=4)
        assert (summary.start_offset, summary.leader_epoch, summary.delivery_complete_count) == (
            2,
            4,
            2,
        )
        fenced = await states.write(6, 6, leader_epoch=3)
        assert fenced is not None
        assert fenced.code is ErrorCode.FENCED_LEADER_EPOCH
        assert await states.told(ask.delete) is None
        assert (await states.told(ask.read, leader_epoch=4)).code is ErrorCode.INVALID_REQUEST
        assert (await states.told(ask.summarize, leader_epoch=4)).start_offset == -1

    tell(story)


def test_writes_of_one_state_are_taken_in_the_order_in_which_they_were_made() -> None:
    async def story(node: Story) -> None:
        states = States(node, await node.create_topic("a"))
        assert await states.told(states.persister.initialize, state_epoch=1, start_offset=0) is None
        async with trio.open_nursery() as nursery:
            for start in range(1, 30):
                nursery.start_soon(partial(states.write, start, start, start=start))
                await trio.testing.wait_all_tasks_blocked()
        assert (await states.told(states.persister.read, leader_epoch=4)).start_offset == 29

    tell(story)


def test_records_that_no_state_needs_are_deleted() -> None:
    async def story(node: Story) -> None:
        states = States(node, await node.create_topic("a"))
        await states.told(states.persister.initialize, state_epoch=1, start_offset=0)
        for offset in range(20):
            await states.write(offset, offset)
        before = state_partition(node).log_start_offset
        await trio.sleep(61)
        # a snapshot after each 4 updates: the last one is the twentieth record
        assert (before, state_partition(node).log_start_offset) == (0, 20)
        await states.write(20, 20)
        await trio.sleep(61)
        assert state_partition(node).log_start_offset == 20

    tell(
        story,
        **ONE_PARTITION,
        share_coordinator_snapshot_update_records_per_snapshot="4",
        share_coordinator_state_topic_prune_interval_ms="60000",
    )


def test_states_that_do_not_change_are_stored_anew_so_that_others_can_be_deleted() -> None:
    async def story(node: Story) -> None:
        cold, hot = (
            States(node, await node.create_topic("a")),
            States(node, await node.create_topic("b")),
        )
        for states in (cold, hot):
            await states.told(states.persister.initialize, state_epoch=1, start_offset=0)
        for offset in range(10):
            await hot.write(offset, offset)
        await trio.sleep(25)
        assert state_partition(node).log_start_offset > 0
        assert isinstance(await cold.told(cold.persister.read, leader_epoch=0), ShareState)

    tell(
        story,
        **ONE_PARTITION,
        share_coordinator_snapshot_update_records_per_snapshot="1",
        share_coordinator_state_topic_prune_interval_ms="10000",
        share_coordinator_cold_partition_snapshot_interval_ms="8000",
    )


def test_states_are_compressed_as_configured() -> None:
    async def story(node: Story) -> None:
        states = States(node, await node.create_topic("a"))
        await states.told(states.persister.initialize, state_epoch=1, start_offset=0)
        write = ShareStateWrite(
            state_epoch=1,
            leader_epoch=0,
            start_offset=0,
            batches=tuple(
                StateBatch(first_offset=at, last_offset=at, delivery_state=2, delivery_count=1)
                for at in range(0, 400, 2)
            ),
        )
        assert await states.told(states.persister.write, write=write) is None
        content = bytes(cast("bytes", (await node.fetch(SHARE_GROUP_STATE_TOPIC, 0)).records))
        assert [header.attributes & 7 for _, header in iterate_headers(content)][-1] == 4

    tell(story, **ONE_PARTITION, share_coordinator_state_topic_compression_codec="4")


def test_states_of_a_topic_that_is_deleted_go_with_it() -> None:
    async def story(node: Story) -> None:
        states = States(node, await node.create_topic("a"))
        await states.told(states.persister.initialize, state_epoch=1, start_offset=0)
        end_offset = state_partition(node).state.log_end_offset
        await node.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000), 6
        )
        await trio.sleep(1)
        assert state_partition(node).state.log_end_offset == end_offset + 1
        told = await states.told(states.persister.read, leader_epoch=1)
        assert told.code in {ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    tell(story, **ONE_PARTITION)


def test_find_coordinator_names_the_leader_of_a_share_partition() -> None:
    async def story(node: Story) -> None:
        key = coordinator_key(
            ShareKey(group_id="a:b", topic_id=await node.create_topic("a"), partition=3)
        )
        request = FindCoordinatorRequest(
            key_type=2, coordinator_keys=[key, "nonsense", ":" + key.split(":", 2)[2]]
        )
        told = [
            (each.error_code, each.node_id) for each in (await node.ask(request, 6)).coordinators
        ]
        assert told == [(0, 1), (ErrorCode.INVALID_REQUEST, -1), (ErrorCode.INVALID_REQUEST, -1)]
        assert len(node.broker.image.topics.by_name[SHARE_GROUP_STATE_TOPIC].partitions) == 50
        assert (await node.ask(request, 5)).coordinators[0].error_code == ErrorCode.INVALID_REQUEST

    tell(story)


def test_a_broker_that_does_not_lead_the_partition_says_so() -> None:
    async def story(node: HandlerNode) -> None:
        topics = [ReadStateData(topic_id=UUID(int=1), partitions=[PartitionData(partition=0)])]
        response = await node.ask(ReadShareGroupStateRequest(group_id="g", topics=topics), 0)
        assert response.results[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR

    tell_handlers(story)


def test_names_of_share_partitions_are_read_as_they_are_written() -> None:
    key = ShareKey(group_id="g:1", topic_id=UUID(int=9), partition=12)
    assert parse_coordinator_key(coordinator_key(key)) == key
    for text in (
        "",
        "g",
        "g:AAAAAAAAAAAAAAAAAAAAAQ",
        "g:AAAAAAAAAAAAAAAAAAAAAQ:x",
        " :AAAAAAAAAAAAAAAAAAAAAQ:1",
        "g:short:1",
    ):
        with pytest.raises(KafkaError) as caught:
            parse_coordinator_key(text)
        assert caught.value.code is ErrorCode.INVALID_REQUEST
