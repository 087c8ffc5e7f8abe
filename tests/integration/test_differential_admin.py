"""tidelog and Apache Kafka create, grow, trim, describe and delete topics and partitions alike.

The tests have each error of each API.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from log_service.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
)
from log_service.protocol.messages.describe_topic_partitions import TopicRequest as Described
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.differential import Cluster, Duel

pytestmark = pytest.mark.timeout(120)

NODE = 1
CONFIGS = ("configs",)
"""What holds for a topic is compared key by key in the tests of configuration."""


def topic(
    name: str, partitions: int = 1, factor: int = 1, *assignments: list[int], **configs: str | None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in enumerate(assignments)
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def assigned(name: str, **placed: list[int]) -> CreatableTopic:
    """A topic with a manual assignment: ``assigned("a", p0=[1], p2=[1])``."""
    assignments = [
        CreatableReplicaAssignment(partition_index=int(key[1:]), broker_ids=ids)
        for key, ids in placed.items()
    ]
    return CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
    )


# CreateTopics

REFUSED = {
    "empty-name": topic(""),
    "dot": topic("."),
    "dots": topic(".."),
    "slash": topic("a/b"),
    "space": topic("a b"),
    "long-name": topic("n" * 250),
    "metadata-log": topic("__cluster_metadata"),
    "no-partitions": topic("refused", 0),
    "negative-partitions": topic("refused", -2),
    "no-replicas": topic("refused", 1, 0),
    "negative-replicas": topic("refused", 1, -2),
    "too-many-replicas": topic("refused", 1, 2),
    "unknown-config": topic("refused", no_such_key="1"),
    "bad-number": topic("refused", retention_ms="soon"),
    "out-of-range": topic("refused", segment_bytes="1"),
    "bad-policy": topic("refused", cleanup_policy="burn"),
    "null-config": topic("refused", retention_ms=None),
    "empty-config-name": CreatableTopic(
        name="refused",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="", value="1")],
    ),
    "assignment-with-count": topic("refused", 1, -1, [NODE]),
    "assignment-with-factor": topic("refused", -1, 1, [NODE]),
    "assignment-of-nobody": assigned("refused", p0=[]),
    "assignment-twice": assigned("refused", p0=[NODE, NODE]),
    "assignment-unknown-broker": assigned("refused", p0=[9]),
    "assignment-negative-broker": assigned("refused", p0=[-1]),
    "assignment-uneven": assigned("refused", p0=[NODE], p1=[NODE, 9]),
    "assignment-with-a-gap": assigned("refused", p0=[NODE], p2=[NODE]),
    "assignment-not-from-0": assigned("refused", p1=[NODE]),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_topics_that_are_refused(duel: Duel, case: str) -> None:
    for version in (2, 4, 5, 7):
        duel.compare(create(REFUSED[case]), version)
    duel.compare(create(REFUSED[case], validate_only=True), 7)


def test_a_taken_name_is_refused(duel: Duel) -> None:
    duel.create_topic("taken")
    for version in (2, 5, 7):
        duel.compare(create(topic("taken")), version)
    duel.compare(create(topic("taken", 0), validate_only=True), 7)


def test_names_that_collide(duel: Duel) -> None:
    duel.create_topic("close.by")
    for name in ("close_by", "close.by", "close.by_", "close-by"):
        duel.compare(create(topic(name), validate_only=True), 7, ignore=CONFIGS)


def test_topics_that_are_created(duel: Duel) -> None:
    for number, version in enumerate(range(2, 8)):
        duel.compare(create(topic(f"created-{number}", 2)), version, ignore=CONFIGS)
    duel.compare(create(topic("created-by-default", -1, -1)), 7, ignore=CONFIGS)
    duel.compare(create(assigned("created-as-told", p1=[NODE], p0=[NODE])), 7, ignore=CONFIGS)
    duel.compare(create(topic("n" * 249)), 7, ignore=CONFIGS)
    duel.compare(create(), 7)


def test_defaults_came_with_version_4(duel: Duel) -> None:
    for version in (2, 3):
        duel.compare(create(topic("by-default-too-early", -1, -1)), version)


def test_validation_creates_nothing(duel: Duel) -> None:
    duel.compare(create(topic("only-validated", 3), validate_only=True), 7, ignore=CONFIGS)
    duel.compare(metadata_of("only-validated"), 12)


def test_topics_of_one_request_are_decided_one_by_one(duel: Duel) -> None:
    duel.compare(
        create(topic("mixed-good"), topic("mixed bad"), topic("mixed-none", 0)), 7, ignore=CONFIGS
    )
    duel.compare(
        create(topic("mixed-twice"), topic("mixed-twice"), topic("mixed-once")), 7, ignore=CONFIGS
    )


def test_configuration_in_the_answer(duel: Duel) -> None:
    answer = duel.compare(
        create(topic("shown", retention_ms="1234", cleanup_policy="compact"), validate_only=True),
        7,
        ignore=CONFIGS,
    )
    shown = {
        config.name: (config.value, config.config_source) for config in answer.topics[0].configs
    }
    assert shown["retention.ms"] == ("1234", 1)
    assert shown["cleanup.policy"] == ("compact", 1)


# CreatePartitions


def grow(
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    validate_only: bool = False,
) -> CreatePartitionsRequest:
    placed = (
        None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    )
    grown = CreatePartitionsTopic(name=name, count=count, assignments=placed)
    return CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=validate_only)


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_topics_that_do_not_grow(duel: Duel, count: int) -> None:
    name = f"stays-{count}"
    duel.create_topic(name, 2)
    for version in (0, 1, 2, 3):
        duel.compare(grow(name, count), version)
    duel.compare(grow(name, count, validate_only=True), 3)


@pytest.mark.parametrize(
    "assignments",
    [
        [],
        [[]],
        [[NODE], [NODE], [NODE]],
        [[9], [NODE]],
        [[NODE, NODE], [NODE]],
        [[NODE, 9], [NODE]],
        [[-1], [NODE]],
    ],
    ids=str,
)
def test_assignments_that_new_partitions_cannot_have(
    duel: Duel, assignments: list[list[int]]
) -> None:
    name = "grown-by-" + "-".join(str(len(ids)) + ".".join(map(str, ids)) for ids in assignments)
    duel.create_topic(name)
    duel.compare(grow(name, 3, assignments), 3)


def test_topics_grow(duel: Duel) -> None:
    duel.create_topic("grows")
    duel.compare(grow("grows", 2, validate_only=True), 3)
    duel.compare(grow("grows", 2), 3)
    duel.compare(grow("grows", 4, [[NODE], [NODE]]), 3)
    duel.compare(grow("grows", 4), 3)
    duel.until(metadata_of("grows"), 12, lambda answer: len(answer.topics[0].partitions) == 4)
    both = [CreatePartitionsTopic(name="grows", count=count, assignments=None) for count in (5, 6)]
    duel.compare(CreatePartitionsRequest(topics=both, timeout_ms=10_000), 3)
    for name in ("missing", "", "not a name"):
        duel.compare(grow(name, 2), 3, ignore=("error_message",))  # Kafka has none here
    duel.compare(CreatePartitionsRequest(timeout_ms=10_000), 3)


# DeleteTopics


def delete(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], timeout_ms=10_000
    )


def test_topics_are_deleted_by_name(duel: Duel) -> None:
    for version in range(1, 6):
        duel.create_topic(f"gone-{version}")
        named = DeleteTopicsRequest(topic_names=[f"gone-{version}", "missing"], timeout_ms=10_000)
        duel.compare(named, version)
        duel.compare(named, version)
    duel.create_topic("gone-6")
    duel.compare(delete("gone-6", "missing", "", "not a name"), 6)
    duel.until(metadata_of("gone-6"), 12, lambda answer: answer.topics[0].error_code != 0)
    duel.compare(metadata_of("gone-6"), 12)
    duel.compare(delete(), 6)


def test_topics_are_deleted_by_id(duel: Duel) -> None:
    duel.create_topic("gone-by-id")

    def by_id(name: str | None = None) -> Callable[[Cluster], DeleteTopicsRequest]:
        def request(side: Cluster) -> DeleteTopicsRequest:
            return DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name, topic_id=side.topic_id("gone-by-id"))],
                timeout_ms=10_000,
            )

        return request

    duel.compare(by_id("gone-by-id"), 6)
    duel.compare(by_id(), 6)
    duel.compare(by_id(), 6)
    duel.compare(DeleteTopicsRequest(topics=[DeleteTopicState(name=None)], timeout_ms=10_000), 6)


def test_topics_that_are_deleted_twice_in_a_request(duel: Duel) -> None:
    duel.create_topic("gone-twice")
    duel.compare(delete("gone-twice", "gone-twice"), 6)
    duel.compare(delete("missing", "missing"), 6)
    both = [DeleteTopicState(name="gone-twice"), DeleteTopicState(name=None)]
    duel.compare(
        lambda side: DeleteTopicsRequest(
            topics=[both[0], replace(both[1], topic_id=side.topic_id("gone-twice"))],
            timeout_ms=10_000,
        ),
        6,
    )
    duel.compare(metadata_of("gone-twice"), 12)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_requests_without_time_change_nothing(duel: Duel, timeout_ms: int) -> None:
    name = f"timeless-{timeout_ms}"
    ignored = ("error_message",)  # Kafka has none here
    duel.create_topic(name)
    duel.compare(replace(delete(name), timeout_ms=timeout_ms), 6, ignore=ignored)
    duel.compare(replace(grow(name, 2), timeout_ms=timeout_ms), 3, ignore=ignored)
    duel.compare(replace(create(topic(f"{name}-new")), timeout_ms=timeout_ms), 7, ignore=ignored)
    for asked in (name, f"{name}-new"):
        duel.compare(metadata_of(asked), 12)


def test_a_name_is_free_at_once_when_its_topic_is_gone(duel: Duel) -> None:
    for _ in range(3):
        duel.create_topic("again")
        duel.compare(delete("again"), 6)
        duel.until(metadata_of("again"), 12, lambda answer: answer.topics[0].error_code != 0)


# Describing


def metadata_of(name: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )


def describe(
    *names: str, limit: int = 2_000, cursor: RequestCursor | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[Described(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )


def test_topics_are_described(duel: Duel) -> None:
    duel.create_topic("page-a", 3)
    duel.create_topic("page-b", 2)
    for asked in (
        describe("page-a"),
        describe("page-b", "page-a"),
        describe("page-a", "missing"),
        describe("page-a", "page-a"),
        describe("not a name"),
        describe("page-a", "page-b", limit=1),
        describe("page-a", "page-b", limit=3),
        describe("page-a", "page-b", limit=4),
        describe("page-a", "page-b", limit=0),
        describe("page-a", limit=-1),
        describe("page-a", "page-b", cursor=RequestCursor(topic_name="page-a", partition_index=1)),
        describe(
            "page-a",
            "page-b",
            limit=2,
            cursor=RequestCursor(topic_name="page-a", partition_index=2),
        ),
        describe("page-a", "page-b", cursor=RequestCursor(topic_name="page-b", partition_index=0)),
        describe("page-a", "page-b", cursor=RequestCursor(topic_name="page-aa", partition_index=0)),
        describe("page-a", cursor=RequestCursor(topic_name="page-z", partition_index=0)),
        describe("page-a", cursor=RequestCursor(topic_name="page-a", partition_index=9)),
        describe("page-a", cursor=RequestCursor(topic_name="page-a", partition_index=-1)),
        describe(
            "page-a", "missing", cursor=RequestCursor(topic_name="missing", partition_index=0)
        ),
    ):
        duel.compare(asked, 0, ordered=True)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described(duel: Duel, version: int) -> None:
    plain = DescribeClusterRequest()
    cases = [plain, replace(plain, include_cluster_authorized_operations=True)]
    if version >= 1:
        cases += [replace(plain, endpoint_type=kind) for kind in (0, 2, 3)]
    if version >= 2:
        cases.append(replace(plain, include_fenced_brokers=True))
    for asked in cases:
        duel.compare(asked, version)
