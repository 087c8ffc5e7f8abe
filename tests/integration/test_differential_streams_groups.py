"""Streams groups (KIP-1071) live the same lives on tidelog and on Apache Kafka.

The tests have heartbeats, statuses, epochs, offsets, and a group's records in the log.

Targets are computed at once. Which of several members gets a task depends on Kafka's hash maps: a
story notes how many each has. Internal topics are created beside the heartbeats, so that a story
waits for them before it goes on.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from log_service.coordinator.group.records.codec import decode, encode
from log_service.coordinator.group.records.streams import STREAMS_GROUP_RECORDS
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from log_service.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from log_service.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    RequestEndpoint,
    RequestTaskIds,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.integration.consumer_cast import pairs_of, stored
from tests.integration.differential import Cluster, Duel
from tests.integration.group_cast import Cast, coordinators_are_there, told
from tests.integration.streams_cast import (
    Instance,
    configure,
    copying,
    counting,
    describe,
    internal,
    joining,
    topic_shape,
)

PROPERTIES = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "3",
}
TOPIC_RESOURCE = 2


@pytest.fixture(autouse=True)
def _coordinators_are_there(duel: Duel) -> None:
    coordinators_are_there(duel)
    if "orders" not in duel.clusters.tidelog.topic_ids:
        duel.create_topic("orders", 4)
        duel.create_topic("bills", 2)


def bytes_are_kept(cast: Cast) -> None:
    """Note whether the group's records in the log are those that tidelog would write, byte by byte.

    Both sides have to say so.
    """
    held = [(decode(key, value), key, value) for key, value in pairs_of(cast)]
    mine = [
        encode(record) == (key, value)
        for record, key, value in held
        if isinstance(record, STREAMS_GROUP_RECORDS)
    ]
    cast.note([["as written by tidelog", all(mine), bool(mine)]])


def first_member(cast: Cast) -> None:
    a = Instance(cast, "a", copying("orders"))
    a.join()
    describe(cast)
    a.beat()
    describe(cast)
    a.beat({"0": [0, 1, 2, 3]})
    a.beat({"0": [0]})
    a.beat(member_epoch=1)
    a.beat({"0": [0, 1]}, member_epoch=1)
    a.beat({"0": [4]})
    a.beat({"7": [0]})
    a.beat(member_epoch=7)
    a.beat(rack_id="r")
    a.beat()
    a.beat(client_tags=[KeyValue(key="z", value="1"), KeyValue(key="c", value="2")])
    a.beat(process_id="another")
    a.beat()
    a.join()
    a.beat(member_id="nobody", member_epoch=3)
    stored(cast)
    bytes_are_kept(cast)
    a.leave()
    a.beat()
    a.leave()
    describe(cast)
    cast.delete()
    describe(cast)
    stored(cast)
    a.beat()
    a.leave()


def refused_requests(cast: Cast) -> None:
    a = Instance(cast, "a", copying("orders"))
    a.join(member_id="")
    a.join(member_id=" ")
    a.join(group_id="")
    a.join(instance_id="i")
    a.join(instance_id="")
    a.join(rack_id="")
    a.join(rebalance_timeout_ms=-1)
    a.join(topology=None)
    a.join(task_offsets=[TaskOffset(subtopology_id="0")])
    a.join(task_end_offsets=[])
    a.join(warmup_tasks=[RequestTaskIds(subtopology_id="0", partitions=[0])])
    a.join(active_tasks=[RequestTaskIds(subtopology_id="0", partitions=[0])])
    a.join(standby_tasks=[RequestTaskIds(subtopology_id="0", partitions=[0])])
    a.join(standby_tasks=None)
    a.join(active_tasks=None, standby_tasks=None, warmup_tasks=None)
    a.beat(topology=a.topology)
    a.beat({}, standby_tasks=None)
    a.beat(member_epoch=-2)
    a.beat(member_epoch=-3)
    a.beat(member_epoch=-1)
    a.beat(member_epoch=9)
    a.leave()
    describe(cast)


def refused_topologies(cast: Cast) -> None:
    a = Instance(cast, "a", copying("orders"))

    def try_out(**said: Any) -> None:
        fields: dict[str, Any] = {"subtopology_id": "0", "source_topics": ["orders"], **said}
        a.join(topology=Topology(subtopologies=[Subtopology(**fields)]))

    try_out(source_topics=["__consumer_offsets"])
    try_out(source_topics=["no such name", "orders"])
    try_out(repartition_sink_topics=["__transaction_state"])
    try_out(state_changelog_topics=[TopicInfo(name="..")])
    try_out(source_topic_regex=["o.*"])
    try_out(state_changelog_topics=[internal("c", 3)])
    try_out(source_topics=[])
    try_out(repartition_source_topics=[internal("r")])
    try_out(
        source_topics=[], repartition_source_topics=[internal("r")], repartition_sink_topics=["r"]
    )
    describe(cast)
    a.join(topology=Topology())
    describe(cast)


def members_share(cast: Cast) -> None:
    a, b, c, d = (Instance(cast, name, copying("orders")) for name in "abcd")
    a.join()
    b.join(is_counted=True)
    describe(cast, is_counted=True)
    kept = a.send()
    cast.note([[kept.member_epoch, len(a.told["0"])]])
    b.beat(is_counted=True)
    a.beat({"0": [0, 1, 2, 3]}, is_counted=True)
    describe(cast, is_counted=True)
    a.beat(a.told, is_counted=True)
    b.beat(is_counted=True)
    describe(cast, is_counted=True)
    b.beat(b.told, is_counted=True)
    c.join(is_counted=True)
    d.join(is_counted=True)
    d.beat(member_epoch=3)
    describe(cast, is_counted=True)
    for _ in range(3):
        for each in (a, b, c):
            each.beat(each.told, is_counted=True)
    describe(cast, is_counted=True)
    a.leave()
    for _ in range(3):
        for each in (b, c):
            each.beat(each.told, is_counted=True)
    describe(cast, is_counted=True)
    b.leave()
    c.beat(c.told)
    c.beat(c.told)
    describe(cast)
    bytes_are_kept(cast)
    c.leave()


def threads_of_one_process(cast: Cast) -> None:
    a, b = (Instance(cast, name, copying("orders"), process="p") for name in "ab")
    a.join()
    b.join(is_counted=True)
    a.beat(is_counted=True)
    b.beat(is_counted=True)
    a.beat(a.told, is_counted=True)
    b.beat(is_counted=True)
    describe(cast, is_counted=True)
    a.leave()
    b.beat(b.told)
    b.leave()


def internal_topics_are_made(cast: Cast) -> None:
    topology = counting(cast.group)
    a = Instance(cast, "a", topology)
    a.join()
    describe(cast)
    a.settle()
    for name in (f"{cast.group}-by-country-repartition", f"{cast.group}-counts-changelog"):
        topic_shape(cast, name)
        keys = ["cleanup.policy", "retention.ms"]
        described = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=keys
        )
        cast.ask(DescribeConfigsRequest(resources=[described]), 4)
    cast.note([[sorted((each, len(partitions)) for each, partitions in a.told.items())]])
    a.beat()
    describe_ready(cast)
    bytes_are_kept(cast)
    a.leave()


def describe_ready(cast: Cast) -> None:
    """Note the description of a group whose internal topics came one after the other.

    Its epochs depend on that, and are left out.
    """
    (group,) = cast.cluster.wire.ask(StreamsGroupDescribeRequest(group_ids=[cast.group]), 0).groups
    group.group_epoch = group.assignment_epoch = 0
    for member in group.members:
        member.member_epoch = 0
    cast.note(group)


def topics_that_are_missing_or_wrong(cast: Cast) -> None:
    a = Instance(cast, "a", copying("none-1", "none-2", "none-3", "none-4", "none-5", "orders"))
    a.join()
    a.beat()
    describe(cast)
    stored(cast)
    bytes_are_kept(cast)
    a.leave()
    cast.delete()
    b = Instance(cast, "b", joining("orders", "bills"))
    b.join()
    b.leave()
    cast.delete()
    through = Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["orders"],
                state_changelog_topics=[internal("bills")],
            )
        ]
    )
    c = Instance(cast, "c", through)
    c.join()
    c.leave()
    cast.delete()
    d = Instance(cast, "d", joining("bills", repartitioned=[internal("fixed", 3)]))
    d.join()
    d.leave()
    cast.delete()
    e = Instance(cast, "e", joining(repartitioned=[internal("three", 3), internal("four", 4)]))
    e.join()
    e.leave()


def internal_topics_that_cannot_be_made(cast: Cast) -> None:
    refused = internal(f"{cast.group}-changelog", factor=9)
    topology = Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=["orders"], state_changelog_topics=[refused]
            )
        ]
    )
    a = Instance(cast, "a", topology)
    # The brokers try to create the topic beside the heartbeats: the first response may tell already
    # that it failed.
    first = a.send(
        {}, member_epoch=0, rebalance_timeout_ms=60_000, topology=topology, process_id=a.process
    )
    cast.note(
        [
            [
                first.error_code,
                first.member_epoch,
                first.status[0].status_code,
                first.status[0].status_detail.partition(";")[0],
            ]
        ]
    )
    deadline = time.monotonic() + 20
    while "Creation failed" not in (told_last := a.send({})).status[0].status_detail:
        assert time.monotonic() < deadline, told_last
        time.sleep(0.05)
    (status,) = told_last.status
    before, _, _ = status.status_detail.partition(" (")
    cast.note([[status.status_code, before]])
    topic_shape(cast, refused.name)
    a.leave()


def joined_topics_are_adapted(cast: Cast) -> None:
    name = f"{cast.group}-through"
    a = Instance(cast, "a", joining("bills", repartitioned=[internal(name)]))
    a.join()
    a.settle()
    topic_shape(cast, name)
    a.beat(a.told)
    a.leave()


def standby_tasks(cast: Cast) -> None:
    changelog = internal("standby-changelog")
    topology = Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=["bills"], state_changelog_topics=[changelog]
            )
        ]
    )
    a, b = (Instance(cast, name, topology) for name in "ab")
    a.join()
    a.settle()
    configure(cast, streams_num_standby_replicas="1")
    response = a.send(a.told)
    cast.note([[bool(response.status), response.active_tasks is None]])
    b.send(
        {}, member_epoch=0, rebalance_timeout_ms=60_000, topology=topology, process_id="process-b"
    )
    a.send()
    a.send(a.told, {})
    for _ in range(3):
        b.send()
        a.send()
    describe_counts(cast)
    configure(cast, streams_num_standby_replicas="3")
    bytes_are_kept(cast)
    a.leave()
    b.leave()


def describe_counts(cast: Cast) -> None:
    (group,) = cast.cluster.wire.ask(StreamsGroupDescribeRequest(group_ids=[cast.group]), 0).groups
    counted = [
        [
            sum(len(each.partitions) for each in role)
            for role in (member.assignment.active_tasks, member.assignment.standby_tasks)
        ]
        for member in group.members
    ]
    cast.note([[group.group_state, counted]])


def topologies_are_kept(cast: Cast) -> None:
    a = Instance(cast, "a", copying("orders", epoch=3))
    a.join()
    b = Instance(cast, "b", copying("orders", epoch=4))
    b.join()
    b.join(topology=copying("bills", epoch=3))
    b.join(topology=copying("bills", epoch=2), is_counted=True)
    b.beat(is_counted=True)
    describe(cast, is_counted=True)
    a.beat(is_counted=True)
    a.beat(a.told, is_counted=True)
    b.beat(shutdown_application=True, is_counted=True)
    a.beat(is_counted=True)
    b.leave()
    a.beat(a.told, is_counted=True)
    a.leave()
    a.join()
    a.leave(shutdown_application=True)
    a.join()


def delayed_at_first(cast: Cast) -> None:
    configure(cast, streams_initial_rebalance_delay_ms="3000")
    # Apache Kafka's coordinator hears of it a moment after the response, and begins without a delay
    # till then.
    time.sleep(1.0)
    a, b = (Instance(cast, name, copying("orders")) for name in "ab")
    a.join()
    b.join()
    a.beat()
    describe(cast)
    time.sleep(4.0)
    describe(cast, is_counted=True)
    a.beat(is_counted=True)
    b.beat(is_counted=True)
    describe(cast, is_counted=True)
    a.leave()
    b.leave()


def endpoints(cast: Cast) -> None:
    a = Instance(cast, "a", copying("orders", "bills"))
    a.join(user_endpoint=RequestEndpoint(host="one.example", port=8080))
    a.beat()
    a.beat(endpoint_information_epoch=1)
    b = Instance(cast, "b", copying("orders", "bills"))
    b.join(user_endpoint=RequestEndpoint(host="two.example", port=8080), is_counted=True)
    described = a.send()
    cast.note(
        [[described.endpoint_information_epoch, len(described.partitions_by_user_endpoint or ())]]
    )
    a.beat(a.told, endpoint_information_epoch=described.endpoint_information_epoch, is_counted=True)
    a.leave()
    b.leave()


def offsets(cast: Cast) -> None:
    a, b = (Instance(cast, name, copying("orders")) for name in "ab")
    a.join()
    b.join(is_counted=True)
    a.send()
    a.send(a.told, {})
    b.send()
    of_a, of_b = a.told["0"][0], b.told["0"][0]

    def codes(member: Instance, partition: int, version: int = 9, epoch: int | None = None) -> None:
        """Commit, and note only the codes: which member has which partition differs."""
        before = len(cast.transcript)
        response = member.commit("orders", partition, version, epoch)
        del cast.transcript[before:]
        cast.note([[each.error_code for topic in response.topics for each in topic.partitions]])

    codes(a, of_a)
    codes(a, of_a, epoch=2)
    codes(a, of_b, epoch=2)
    codes(a, of_a, epoch=1)
    codes(b, of_b, epoch=2)
    codes(b, of_b)
    codes(a, of_a, epoch=9)
    codes(a, of_a, version=8)
    codes(a, of_a, epoch=-1)
    a.commit("bills", epoch=2)
    a.commit("no-such-topic", epoch=2)
    for member_id, epoch in ((None, -1), ("a", 3), ("a", 2), ("a", 4), ("x", 3), ("", -1)):
        group = OffsetFetchRequestGroup(
            group_id=cast.group, member_id=member_id, member_epoch=epoch, topics=[]
        )
        cast.ask(OffsetFetchRequest(groups=[group]), 9)
    gone = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        for name in ("orders", "bills")
    ]
    cast.ask(OffsetDeleteRequest(group_id=cast.group, topics=gone), 0)
    cast.delete()
    a.leave()
    b.leave()
    cast.ask(OffsetDeleteRequest(group_id=cast.group, topics=gone), 0)
    player = cast.member()
    player.commit(5, "orders", generation_id=-1)
    cast.delete()
    describe(cast)


def groups_of_other_kinds(cast: Cast) -> None:
    a = Instance(cast, "a", copying("orders"))
    a.join()
    player = cast.member()
    player.join()
    player.commit(5, "orders")
    player.commit(5, "orders", generation_id=-1)
    player.heartbeat()
    player.leave()
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=cast.group,
        member_id="b",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    share = ShareGroupHeartbeatRequest(
        group_id=cast.group, member_id="c", subscribed_topic_names=["orders"]
    )
    cast.ask(consumer, 1)
    cast.ask(share, 1)
    cast.ask(ConsumerGroupDescribeRequest(group_ids=[cast.group]), 1)
    cast.fetch({"orders": [0]})
    a.leave()
    cast.ask(consumer, 1)
    cast.ask(share, 1)
    classic = cast.member()
    classic.join()
    describe(cast)
    a.join()
    classic.leave()
    cast.settle()
    a.join()
    stored_types(cast)
    describe(cast)
    a.leave()
    cast.delete()
    cast.ask(consumer, 1)
    a.join()
    cast.ask(StreamsGroupDescribeRequest(group_ids=[cast.group]), 0)


def stored_types(cast: Cast) -> None:
    """Note the types of all records of the group, and whether each takes something back."""
    found = [
        (int.from_bytes(key[:2]), value is None)
        for key, value in pairs_of(cast)
        if is_of(cast.group, key)
    ]
    cast.note([[list(each) for each in found]])


def is_of(group: str, key: bytes) -> bool:
    record = decode(key, None)
    return record is not None and record.group_id == group


STORIES: list[Callable[[Cast], None]] = [
    first_member,
    refused_requests,
    refused_topologies,
    members_share,
    threads_of_one_process,
    internal_topics_are_made,
    topics_that_are_missing_or_wrong,
    internal_topics_that_cannot_be_made,
    joined_topics_are_adapted,
    standby_tasks,
    topologies_are_kept,
    delayed_at_first,
    endpoints,
    offsets,
    groups_of_other_kinds,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story(duel: Duel, story: Callable[[Cast], None]) -> None:
    duel.compare_told(told(story))


def test_the_feature_is_told(duel: Duel) -> None:
    def tell(cluster: Cluster) -> list[object]:
        response = cluster.wire.ask(
            ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4
        )
        finalized = [
            [each.name, each.max_version_level]
            for each in response.finalized_features
            if each.name == "streams.version"
        ]
        keys = [
            [each.api_key, each.min_version, each.max_version]
            for each in response.api_keys
            if each.api_key in (88, 89)
        ]
        return [finalized, sorted(keys)]

    duel.compare_told(tell)
