"""Clients send streams group requests to a broker as frames (KIP-1071).

The tests follow the life of a group, and the topics that are created for it.
"""

from typing import Any

import trio
import trio.testing

from log_service.broker.cluster_view import GROUP_OPERATIONS
from log_service.broker.topic_creation.streams import MAX_REFUSALS, StreamsTopicCreation
from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode, KafkaError
from log_service.controller.caller import Caller
from log_service.coordinator.group.streams.configuration import StreamsStatus
from log_service.coordinator.group.values.streams_topology import InternalTopic
from log_service.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from log_service.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.broker.authorization.acl_story import AclStory, tell_with_acls
from tests.unit.broker.context import Story, tell

CALLER = Caller(version=0, client_id="an-application")


def counting(*, factor: int = 0, source: str = "orders") -> Topology:
    changelog = TopicInfo(
        name="counts-changelog",
        replication_factor=factor,
        topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
    )
    return Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=[source], state_changelog_topics=[changelog]
            )
        ]
    )


async def beat(node: Story, epoch: int, topology: Topology | None = None) -> Any:
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=30_000,
        topology=topology,
        active_tasks=[] if topology is not None else None,
        standby_tasks=[] if topology is not None else None,
        warmup_tasks=[] if topology is not None else None,
        process_id="p",
    )
    return await node.ask(request, 0)


async def begun(node: Story) -> None:
    """Have a source topic, and a coordinator for groups."""
    await node.create_topic("orders", 2)
    await node.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    await trio.sleep(1)


def test_the_life_of_a_streams_group() -> None:
    async def story(node: Story) -> None:
        await begun(node)
        joined = await beat(node, 0, counting())
        assert [each.status_code for each in joined.status] == [
            StreamsStatus.ASSIGNMENT_DELAYED,
            StreamsStatus.MISSING_INTERNAL_TOPICS,
        ]
        await trio.sleep(4)
        made = MetadataRequest(
            topics=[MetadataRequestTopic(name="counts-changelog")], allow_auto_topic_creation=False
        )
        assert len((await node.ask(made, 12)).topics[0].partitions) == 2
        policy = DescribeConfigsResource(
            resource_type=2, resource_name="counts-changelog", configuration_keys=["cleanup.policy"]
        )
        (described,) = (await node.ask(DescribeConfigsRequest(resources=[policy]), 4)).results
        assert described.configs[0].value == "compact"
        response = await beat(node, 1)
        assert [(each.subtopology_id, each.partitions) for each in response.active_tasks] == [
            ("0", [0, 1])
        ]
        assert response.status == []
        asked = StreamsGroupDescribeRequest(
            group_ids=["g", "x", "g"], include_authorized_operations=True
        )
        found, missing = (await node.ask(asked, 0)).groups
        assert (found.group_state, found.authorized_operations) == ("Stable", GROUP_OPERATIONS)
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await node.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[
            0
        ].error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await beat(node, -1)).member_epoch == -1
        assert (await node.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results[
            0
        ].error_code == 0
        assert (await beat(node, 2)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    tell(story)


def test_why_a_topic_could_not_be_created_is_told_for_two_intervals() -> None:
    async def story(node: Story) -> None:
        await begun(node)
        epoch = (await beat(node, 0, counting(factor=3))).member_epoch
        await trio.sleep(1)

        async def detail() -> str:
            nonlocal epoch
            response = await beat(node, epoch)
            epoch = response.member_epoch
            (status,) = [
                each
                for each in response.status
                if each.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS
            ]
            return str(status.status_detail)

        assert "; Creation failed: counts-changelog (" in await detail()
        await trio.sleep(8)
        assert "Creation failed" in await detail()
        await trio.sleep(2)
        assert "Creation failed" not in await detail(), "it is asked for again"
        await trio.sleep(1)
        assert "Creation failed" in await detail()

    tell(story)


def test_topics_that_no_application_may_have_are_refused() -> None:
    async def story(node: Story) -> None:
        await begun(node)
        for source in ("__consumer_offsets", "no such name", ".."):
            assert (
                await beat(node, 0, counting(source=source))
            ).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY

    tell(story)


def test_without_the_feature_there_are_no_streams_groups() -> None:
    async def story(node: Story) -> None:
        update = FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2)
        assert (
            await node.ask(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update]), 1)
        ).error_code == 0
        assert (await beat(node, 0, counting())).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await node.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0)).groups[
            0
        ].error_code == ErrorCode.UNSUPPORTED_VERSION

    tell(story)


def test_a_broker_that_leaves_the_protocol_out_serves_no_streams_groups() -> None:
    async def story(node: Story) -> None:
        assert (await beat(node, 0, counting())).error_code == ErrorCode.UNSUPPORTED_VERSION

    tell(story, group_coordinator_rebalance_protocols="classic,consumer")


# What the client may do


def test_internal_topics_are_made_for_a_client_that_may_create_them() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("orders", 2)
        seen = [
            (AclOperation.DESCRIBE, AclResource.TOPIC, name)
            for name in ("orders", "counts-changelog")
        ]
        await node.allow((AclOperation.READ, AclResource.GROUP, "g"), *seen)
        await node.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        await trio.sleep(1)
        response = await beat(node, 0, counting())
        detail = "Internal topics are missing: counts-changelog; Unauthorized to CREATE on topics counts-changelog."
        assert detail in [status.status_detail for status in response.status]
        await node.allow((AclOperation.CREATE, AclResource.TOPIC, "counts-changelog"))
        await beat(node, 1)
        await trio.sleep(4)
        assert (await beat(node, 1)).status == []

    tell_with_acls(story)


def test_a_group_with_a_topic_that_the_client_may_not_see_is_hidden() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("orders", 2)
        await node.may_do_everything()
        await node.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        await trio.sleep(1)
        assert (await beat(node, 0, counting())).error_code == 0
        await node.have_only(
            (AclOperation.DESCRIBE, AclResource.GROUP, "g"),
            (AclOperation.DESCRIBE, AclResource.TOPIC, "orders"),
        )
        (hidden,) = (await node.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0)).groups
        assert (hidden.error_code, hidden.topology, hidden.members) == (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            None,
            [],
        )
        await node.allow((AclOperation.DESCRIBE, AclResource.TOPIC, "counts-changelog"))
        (shown,) = (await node.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0)).groups
        assert (shown.error_code, len(shown.members)) == (0, 1)

    tell_with_acls(story)


# What is asked for, and what is remembered


class World:
    """A controller that says what the test tells it to, once it may, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.requests: list[list[tuple[str, int, int]]] = []
        self.versions: list[int] = []
        self.refused: dict[str, ErrorCode] = {}
        self.failure: KafkaError | None = None
        self.may_respond = trio.Event()

    def monotonic_ms(self) -> int:
        return self.now_ms

    async def request(
        self, message: Any, _response_type: Any, caller: Caller
    ) -> CreateTopicsResponse:
        self.requests.append(
            [(each.name, each.num_partitions, each.replication_factor) for each in message.topics]
        )
        self.versions.append(caller.version)
        await self.may_respond.wait()
        if self.failure is not None:
            raise self.failure
        results = [
            CreatableTopicResult(
                name=each.name, error_code=self.refused.get(each.name, ErrorCode.NONE)
            )
            for each in message.topics
        ]
        return CreateTopicsResponse(topics=results)


def run(story: Any) -> None:
    async def main() -> None:
        world = World()
        async with trio.open_nursery() as nursery:
            creation = StreamsTopicCreation(world, world, nursery.start_soon)  # type: ignore[arg-type]
            await story(world, creation)
            world.may_respond.set()

    trio.run(main)


def topics(*names: str) -> list[InternalTopic]:
    return [InternalTopic(name=name, partitions=2) for name in names]


def test_a_topic_is_asked_for_once_at_a_time_with_the_defaults_of_the_cluster() -> None:
    async def story(world: World, creation: StreamsTopicCreation) -> None:
        creation.create(topics("a"), CALLER, 1_000)
        creation.create(
            [*topics("a"), InternalTopic(name="b", partitions=5, replication_factor=2)],
            CALLER,
            1_000,
        )
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(world.requests) == [[("a", 2, -1)], [("b", 5, 2)]]
        assert min(world.versions) >= 7, (
            "a quota that is used up refuses it, as it does the client's own request"
        )
        world.may_respond.set()
        await trio.testing.wait_all_tasks_blocked()
        creation.create(topics("a"), CALLER, 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.requests) == 3, "the metadata may be late"

    run(story)


def test_a_topic_that_was_refused_is_left_alone_for_a_while() -> None:
    async def story(world: World, creation: StreamsTopicCreation) -> None:
        world.may_respond.set()
        world.refused = {"a": ErrorCode.POLICY_VIOLATION, "b": ErrorCode.TOPIC_ALREADY_EXISTS}
        creation.create(topics("a", "b"), CALLER, 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert creation.refusals(["a", "b", "c"]) == {"a": "POLICY_VIOLATION"}
        creation.create(topics("a"), CALLER, 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.requests) == 1
        world.now_ms = 1_000
        assert creation.refusals(["a"]) == {}
        creation.create(topics("a"), CALLER, 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.requests) == 2

    run(story)


def test_a_controller_that_is_not_there_refuses_all() -> None:
    async def story(world: World, creation: StreamsTopicCreation) -> None:
        world.may_respond.set()
        world.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "no node is the controller")
        creation.create(topics("a", "b"), CALLER, 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert set(creation.refusals(["a", "b"])) == {"a", "b"}

    run(story)


def test_so_many_refusals_are_remembered() -> None:
    async def story(world: World, creation: StreamsTopicCreation) -> None:
        world.may_respond.set()
        names = [f"topic-{number}" for number in range(MAX_REFUSALS + 10)]
        world.refused = dict.fromkeys(names, ErrorCode.POLICY_VIOLATION)
        creation.create(topics(*names), CALLER, 1_000)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(creation.refusals(names)) == sorted(names[10:])

    run(story)
