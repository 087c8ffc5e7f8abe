"""Metadata and DescribeTopicPartitions beside Apache Kafka: who is told what about which topics.

``tests/unit/broker/handlers/test_meant_differences.py`` holds a meant difference: a topic without
name and id is UNKNOWN_TOPIC_ID, where Apache Kafka responds with UNKNOWN_SERVER_ERROR.
"""

from uuid import UUID

import pytest

from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.differential import Cluster, Duel
from tests.integration.record_requests import STRANGE_ID, ready_topic

WITHOUT_AUTHORIZER = {"rack", "cluster_authorized_operations", "topic_authorized_operations"}


def named(*names: str, creates: bool = False, version: int = 12) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=creates or version < 4)


@pytest.mark.parametrize("version", range(14))
def test_topics_by_name(duel: Duel, version: int) -> None:
    topic = f"named-{version}"
    ready_topic(duel, topic, 3)
    duel.compare(named(topic, version=version), version, ignore={"rack"})
    duel.compare(named(topic, topic, version=version), version, ignore={"rack"})
    if version >= 4:
        duel.compare(named(topic, "nowhere", version=version), version, ignore={"rack"})


@pytest.mark.parametrize("version", range(14))
def test_no_topics(duel: Duel, version: int) -> None:
    if version:
        duel.compare(MetadataRequest(topics=[]), version, ignore={"rack"})


@pytest.mark.parametrize("version", [1, 4, 9, 12, 13])
@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "x" * 250, "x" * 249, "ä", "a/b", "__consumer_offsets_not"]
)
def test_names_that_are_not_good(duel: Duel, name: str, version: int) -> None:
    duel.compare(
        named(name, creates=False, version=max(version, 4)), max(version, 4), ignore={"rack"}
    )
    if not name.startswith(("x" * 249, "__")) or len(name) > 249:
        duel.compare(named(name, creates=True, version=version), version, ignore={"rack"})


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_topics_by_id(duel: Duel, version: int) -> None:
    topic = f"by-id-{version}"
    ready_topic(duel, topic)

    def asked(name: str | None) -> object:
        def build(cluster: Cluster) -> MetadataRequest:
            return MetadataRequest(
                topics=[MetadataRequestTopic(topic_id=cluster.topic_id(topic), name=name)]
            )

        return build

    if version >= 12:
        duel.compare(asked(None), version, ignore={"rack"})
        strange = [
            MetadataRequestTopic(topic_id=STRANGE_ID, name=None),
            MetadataRequestTopic(topic_id=UUID(int=7), name=None),
        ]
        duel.compare(MetadataRequest(topics=strange), version, ignore={"rack"})
        duel.compare(MetadataRequest(topics=strange[:1] * 2), version, ignore={"rack"})
    duel.compare(asked(topic), version, ignore={"rack"})
    duel.compare(asked("nowhere"), version, ignore={"rack"})


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_names_say_nothing_beside_ids(duel: Duel, version: int) -> None:
    """Not even that a topic shall be created."""
    topic = f"beside-{version}"
    ready_topic(duel, topic)
    by_name = [MetadataRequestTopic(name=topic), MetadataRequestTopic(name=f"{topic}-not")]

    def asked(*more: MetadataRequestTopic) -> object:
        def build(cluster: Cluster) -> MetadataRequest:
            by_id = MetadataRequestTopic(topic_id=cluster.topic_id(topic), name=None)
            return MetadataRequest(
                topics=[*by_name, by_id, *more], include_topic_authorized_operations=True
            )

        return build

    duel.compare(asked(), version, ignore={"rack"})
    duel.compare(
        asked(MetadataRequestTopic(topic_id=STRANGE_ID, name=None)), version, ignore={"rack"}
    )
    if version < 12:
        duel.compare(
            MetadataRequest(topics=[*by_name, MetadataRequestTopic(name=None)]),
            version,
            ignore={"rack"},
        )


@pytest.mark.parametrize("version", [1, 4, 9, 12, 13])
def test_asking_creates(duel: Duel, version: int) -> None:
    """The first answer says that the leader is not there yet; then it is."""
    topic = f"created-{version}"
    duel.until(
        named(topic, creates=True, version=version),
        version,
        lambda answer: answer.topics[0].error_code == 0,
    )
    duel.compare(named(topic, creates=True, version=version), version, ignore={"rack"})
    duel.compare(named(topic, f"{topic}-not", creates=False), 12, ignore={"rack"})


def test_authorized_operations(duel: Duel) -> None:
    ready_topic(duel, "operations")
    for version in (8, 9, 10, 11, 12, 13):
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="operations")],
            include_topic_authorized_operations=True,
        )
        if version <= 10:
            request.include_cluster_authorized_operations = True
        duel.compare(request, version, ignore={"rack"})


def test_topics_a_page_at_a_time(duel: Duel) -> None:
    for name, count in (("page-a", 3), ("page-b", 1), ("page-c", 2)):
        ready_topic(duel, name, count)
    names = [TopicRequest(name=name) for name in ("page-c", "page-a", "page-b")]
    for limit in (1, 2, 3, 4, 5, 6, 7, 2000):
        duel.compare(
            DescribeTopicPartitionsRequest(topics=names, response_partition_limit=limit),
            0,
            ordered=True,
        )
    for name, index in (
        ("page-a", 1),
        ("page-a", 3),
        ("page-b", 0),
        ("page-c", 1),
        ("page-aa", 0),
        ("zzz", 0),
    ):
        cursor = RequestCursor(topic_name=name, partition_index=index)
        duel.compare(
            DescribeTopicPartitionsRequest(topics=names, cursor=cursor, response_partition_limit=2),
            0,
            ordered=True,
        )
    duel.compare(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="nowhere"), TopicRequest(name="page-b")]
        ),
        0,
        ordered=True,
    )
    duel.compare(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="page-b")] * 2), 0, ordered=True
    )
