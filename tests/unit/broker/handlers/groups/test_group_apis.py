"""The group APIs through a broker: what the handlers add to the coordinator's decisions."""

from uuid import UUID

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from log_service.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from log_service.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from log_service.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from log_service.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from log_service.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.unit.broker.context import Story, tell, values_of
from tests.unit.broker.handlers.groups.group_requests import commit, coordinated, positions


@pytest.mark.parametrize("version", range(2, 10))
def test_positions_of_existing_partitions_are_committed(version: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        answers = await commit(node, ("a", 0, 7), ("a", 9, 1), ("z", 0, 1), version=version)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert sorted(answers) == [("a", 0, 0), ("a", 9, unknown), ("z", 0, unknown)]

    tell(story)


def test_a_commit_of_nothing_that_exists_is_answered() -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        assert await commit(node, ("z", 0, 1)) == [("z", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]

    tell(story)


@pytest.mark.parametrize("version", range(1, 10))
def test_positions_are_fetched_in_the_shape_of_every_version(version: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 2)
        await coordinated(node)
        await commit(node, ("a", 0, 7))
        wanted = [0, 1]
        if version >= 8:
            group = OffsetFetchRequestGroup(
                group_id="g", topics=[OffsetFetchRequestTopics(name="a", partition_indexes=wanted)]
            )
            request = OffsetFetchRequest(groups=[group])
        else:
            request = OffsetFetchRequest(
                group_id="g", topics=[OffsetFetchRequestTopic(name="a", partition_indexes=wanted)]
            )
        assert positions(await node.ask(request, version)) == [("a", 0, 7, 0), ("a", 1, -1, 0)]

    tell(story)


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_all_positions_of_a_group_are_asked_for_with_null(version: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 2)
        await coordinated(node)
        await commit(node, ("a", 1, 9))
        groups = [OffsetFetchRequestGroup(group_id="g", topics=None)] if version >= 8 else []
        request = (
            OffsetFetchRequest(groups=groups)
            if version >= 8
            else OffsetFetchRequest(group_id="g", topics=None)
        )
        assert positions(await node.ask(request, version)) == [("a", 1, 9, 0)]

    tell(story)


def test_topics_are_named_by_id_in_version_10() -> None:
    async def story(node: Story) -> None:
        topic_id = await node.create_topic("a")
        await coordinated(node)
        assert await commit(node, ("a", 0, 4), version=10, topic_id=topic_id) == [("", 0, 0)]
        assert await commit(node, ("a", 0, 4), version=10, topic_id=UUID(int=5)) == [
            ("", 0, ErrorCode.UNKNOWN_TOPIC_ID)
        ]
        topics = [
            OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0])
            for one in (topic_id, UUID(int=5))
        ]
        response: OffsetFetchResponse = await node.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)]), 10
        )
        found = [
            (topic.topic_id, topic.partitions[0].committed_offset, topic.partitions[0].error_code)
            for topic in response.groups[0].topics
        ]
        assert found == [(topic_id, 4, 0), (UUID(int=5), -1, ErrorCode.UNKNOWN_TOPIC_ID)]

    tell(story)


async def join(node: Story, group: str = "g") -> JoinGroupResponse:
    """Join as the only member, with the second request that KIP-394 asks for."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    first: JoinGroupResponse = await node.ask(request, 9)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = first.member_id
    second: JoinGroupResponse = await node.ask(request, 9)
    assert second.error_code == 0
    return second


async def sync(node: Story, joined: JoinGroupResponse, group: str = "g") -> SyncGroupResponse:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
    )
    response: SyncGroupResponse = await node.ask(request, 5)
    return response


def test_a_member_joins_stays_and_leaves() -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        joined = await join(node)
        assert joined.leader == joined.member_id
        assert (await sync(node, joined)).assignment == b"all"
        beat = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
        )
        alive: HeartbeatResponse = await node.ask(beat, 4)
        assert alive.error_code == 0
        leave = LeaveGroupRequest(
            group_id="g", members=[MemberIdentity(member_id=joined.member_id)]
        )
        left: LeaveGroupResponse = await node.ask(leave, 5)
        assert (left.error_code, [member.error_code for member in left.members]) == (0, [0])
        gone: HeartbeatResponse = await node.ask(beat, 4)
        assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    tell(story)


def test_groups_are_listed_described_and_deleted() -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        joined = await join(node)
        await sync(node, joined)
        listed: ListGroupsResponse = await node.ask(ListGroupsRequest(), 5)
        assert [(group.group_id, group.group_state) for group in listed.groups] == [("g", "Stable")]
        request = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=True)
        described: DescribeGroupsResponse = await node.ask(request, 6)
        stable, missing = described.groups
        assert stable.members[0].client_id == "story"
        assert stable.members[0].client_host.startswith("/")
        assert stable.authorized_operations > 0
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        deleted: DeleteGroupsResponse = await node.ask(
            DeleteGroupsRequest(groups_names=["g", "nobody"]), 2
        )
        assert [one.error_code for one in deleted.results] == [
            ErrorCode.NON_EMPTY_GROUP,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ]

    tell(story)


def test_a_group_is_not_coordinated_before_its_topic_is_there() -> None:
    async def story(node: Story) -> None:
        response: HeartbeatResponse = await node.ask(
            HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4
        )
        assert response.error_code == ErrorCode.NOT_COORDINATOR

    tell(story)


def test_positions_in_a_deleted_topic_are_forgotten() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        await commit(node, ("a", 0, 7))
        await node.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000), 6
        )
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        assert positions(await node.ask(request, 8)) == []

    tell(story)


def test_what_a_group_decides_lies_in_the_offsets_topic() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        await commit(node, ("a", 0, 7))
        found = [await node.fetch("__consumer_offsets", 0, partition=index) for index in range(2)]
        assert sum(len(values_of(one.records)) for one in found) == 1

    tell(story)


def test_a_member_that_waits_hears_that_the_broker_stops() -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        joined = await join(node)
        await sync(node, joined)
        other = await node.connect()
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        request.member_id = (await other.ask(request, 9)).member_id
        await other.send(request, 9)
        await trio.sleep(0.1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.broker.stop)
            waited: JoinGroupResponse = await other.receive()
        assert waited.error_code == ErrorCode.NOT_COORDINATOR

    tell(story)


@pytest.mark.parametrize("instance", ["x" * 32_760, "\u00fc" * 16_380])
def test_a_member_with_the_longest_of_names_can_join_and_be_stored(instance: str) -> None:
    async def story(node: Story) -> None:
        await coordinated(node)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=6_000,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        joined: JoinGroupResponse = await node.ask(join, 9)
        assert joined.error_code == ErrorCode.NONE
        sync = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
        )
        assert (await node.ask(sync, 4)).error_code == ErrorCode.NONE

    tell(story)
