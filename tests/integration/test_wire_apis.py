"""The protocol itself is tested without a client between.

Apache Kafka's responses in every version are the measure, if clients do not show them.

Each test holds on Apache Kafka 4.3 as well; many are bugs that other implementations of the
protocol had.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.batch import iterate_records
from log_service.records.builder import build_batch
from tests.integration.confluent import WAIT_SECONDS, Sent, admin, create_topic, produce, wait_until
from tests.integration.wire import Wire

MakeTopic = Callable[..., str]
NO_ID = UUID(int=0)
STRANGE_ID = UUID(int=12345678901234567890)
TOPIC = 2
LOADING = 14


def metadata_of(wire: Wire, *names: str, version: int = 12) -> list[Any]:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=version < 4,
    )
    found: list[Any] = wire.ask(request, version).topics
    return found


def topic_id_of(wire: Wire, name: str) -> UUID:
    found: UUID = metadata_of(wire, name)[0].topic_id
    return found


def fetch_request(topic: str, topic_id: UUID, offset: int = 0, **more: Any) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=more.pop("partition_max_bytes", 1 << 20),
    )
    partition.current_leader_epoch = more.pop("leader_epoch", -1)
    settings = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return FetchRequest(
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])], **settings
    )


# Metadata


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_each_topic_once(wire: Wire, topic: str, version: int) -> None:
    (found,) = metadata_of(wire, topic, topic, version=version)
    assert (found.name, found.error_code, len(found.partitions)) == (topic, 0, 1)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_id_wins_over_a_name_beside_it(
    wire: Wire, topic: str, name: str, version: int
) -> None:
    topics = [MetadataRequestTopic(topic_id=topic_id_of(wire, topic), name=f"{name}-other")]
    (found,) = wire.ask(
        MetadataRequest(topics=topics, allow_auto_topic_creation=True), version
    ).topics
    assert (found.name, found.error_code) == (topic, 0)
    assert metadata_of(wire, f"{name}-other")[0].error_code == 3, "a topic was made of the name"


def test_an_unknown_topic_id_is_told(wire: Wire) -> None:
    (found,) = wire.ask(
        MetadataRequest(topics=[MetadataRequestTopic(topic_id=STRANGE_ID, name=None)]), 12
    ).topics
    assert (found.error_code, found.topic_id) == (100, STRANGE_ID)


def test_all_topics_are_asked_for_with_null_and_none_with_an_empty_list(
    wire: Wire, topic: str
) -> None:
    """Version 0 has no null: an empty list means all there."""
    assert topic in [found.name for found in wire.ask(MetadataRequest(topics=[]), 0).topics]
    for version in (1, 8, 12):
        assert topic in [
            found.name for found in wire.ask(MetadataRequest(topics=None), version).topics
        ]
        assert wire.ask(MetadataRequest(topics=[]), version).topics == []


def test_asking_creates_a_topic_only_where_it_is_allowed(wire: Wire, name: str) -> None:
    assert metadata_of(wire, name)[0].error_code == 3
    wire.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True),
        12,
    )
    wait_until(lambda: metadata_of(wire, name)[0].error_code == 0, "the topic is there")


# Fetch


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_returns_the_whole_batch_that_holds_the_offset(
    wire: Wire, bootstrap: str, topic: str, version: int
) -> None:
    """Consumers drop the head; they hang on a broker that cuts it."""
    produce(bootstrap, topic, [str(number).encode() for number in range(10)], linger_ms=100)
    (answer,) = wire.ask(
        fetch_request(topic, topic_id_of(wire, topic), offset=7), version
    ).responses
    (partition,) = answer.partitions
    values = [bytes(record.value or b"") for record in iterate_records(bytes(partition.records), 0)]
    assert values[-1] == b"9"
    assert b"7" in values
    assert partition.high_watermark == partition.last_stable_offset == 10


@pytest.mark.parametrize("version", [4, 9, 11, 12, 15, 16, 18])
def test_an_offset_or_epoch_that_is_not_there_is_told(
    wire: Wire, bootstrap: str, topic: str, version: int
) -> None:
    produce(bootstrap, topic, [b"x"] * 10)
    topic_id = topic_id_of(wire, topic)
    wrong = {"offset": 11}, {"offset": -1}, {"leader_epoch": 99 if version >= 9 else -1}
    codes = [
        wire.ask(fetch_request(topic, topic_id, **one), version)
        .responses[0]
        .partitions[0]
        .error_code
        for one in wrong
    ]
    assert codes == [1, 1, 75 if version >= 9 else 0]


@pytest.mark.parametrize("version", [12, 13, 18])
def test_a_fetch_of_a_topic_that_is_not_there_is_told(wire: Wire, name: str, version: int) -> None:
    answer = wire.ask(fetch_request(name, STRANGE_ID), version)
    assert answer.responses[0].partitions[0].error_code == (3 if version == 12 else 100)


def test_a_recreated_topic_has_another_id_and_the_old_one_is_unknown(
    wire: Wire, bootstrap: str, topic: str
) -> None:
    old = topic_id_of(wire, topic)
    client = admin(bootstrap)
    client.delete_topics([topic])[topic].result(WAIT_SECONDS)
    wait_until(lambda: metadata_of(wire, topic)[0].error_code == 3, "the topic is gone")
    create_topic(bootstrap, topic)
    assert topic_id_of(wire, topic) != old
    assert wire.ask(fetch_request(topic, old), 13).responses[0].partitions[0].error_code == 100
    batch = bytes(build_batch([(1, None, b"stale")]))
    data = [
        TopicProduceData(
            topic_id=old, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
    ]
    answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data), 13)
    assert answer.responses[0].partition_responses[0].error_code == 100


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_fetch_session_tells_what_changed_until_it_ends(
    wire: Wire, bootstrap: str, new_topic: MakeTopic, version: int
) -> None:
    """KIP-227."""
    topic = new_topic(partitions=2)
    topic_id = topic_id_of(wire, topic)
    produce(bootstrap, topic, [b"x"])
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in (0, 1)
    ]

    def ask(
        session_id: int,
        epoch: int,
        topics: list[FetchTopic],
        forgotten: list[ForgottenTopic] | None = None,
    ) -> Any:
        request = FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics
        )
        request.session_id, request.session_epoch, request.forgotten_topics_data = (
            session_id,
            epoch,
            forgotten or [],
        )
        return wire.ask(request, version)

    first = ask(0, 0, [FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)])
    session = first.session_id
    assert session != 0
    assert sum(len(found.partitions) for found in first.responses) == 2
    told = [
        partition.partition_index
        for found in ask(session, 1, []).responses
        for partition in found.partitions
    ]
    again = [
        partition.partition_index
        for found in ask(session, 2, []).responses
        for partition in found.partitions
    ]
    assert set(again) <= set(told)
    assert len(again) == 1, "the partition with records is told again, the quiet one is not"
    ask(session, 3, [], [ForgottenTopic(topic=topic, topic_id=topic_id, partitions=again)])
    assert ask(session, 4, []).responses == []
    assert ask(session, 9, []).error_code == 71
    assert ask(session + 1, 1, []).error_code == 70
    ask(session, -1, [])
    assert ask(session, 5, []).error_code == 70


# Offsets


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_by_time_in_every_version(
    wire: Wire, bootstrap: str, topic: str, version: int
) -> None:
    start = 1_700_000_000_000
    sent = Sent(bootstrap)
    for number in range(5):
        sent.send(topic, b"x", timestamp=start + number * 1_000)
        sent.flush()
    wanted = {-1: 5, -2: 0, start + 2_500: 3, start + 9_999: -1} | ({-3: 4} if version >= 7 else {})
    for timestamp, offset in wanted.items():
        partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=topic, partitions=partitions)],
            timeout_ms=1_000,
        )
        (found,) = wire.ask(request, version).topics[0].partitions
        assert (found.error_code, found.offset) == (0, offset)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_end_of_a_leader_epoch(wire: Wire, bootstrap: str, topic: str, version: int) -> None:
    """librdkafka speaks version 2 only."""
    produce(bootstrap, topic, [b"x"] * 3)
    for epoch, expected in {0: (0, 3), 7: (-1, -1), -1: (-1, -1)}.items():
        partitions = [OffsetForLeaderPartition(partition=0, leader_epoch=epoch)]
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions)]
        )
        (found,) = wire.ask(request, version).topics[0].partitions
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *expected)


# Configs and topics


def test_configs_are_asked_for_by_name_and_all_with_null_or_nothing(wire: Wire, topic: str) -> None:
    counts = []
    for keys in (None, [], ["retention.ms", "no.such.key"], ["no.such.key"]):
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=keys
        )
        (result,) = wire.ask(
            DescribeConfigsRequest(
                resources=[resource], include_synonyms=True, include_documentation=True
            ),
            4,
        ).results
        assert result.error_code == 0
        counts.append(len(result.configs))
    assert counts[0] == counts[1] > 25
    assert counts[2:] == [1, 0]


@pytest.mark.parametrize("version", [0, 1])
def test_a_key_that_is_altered_twice_is_refused(wire: Wire, topic: str, version: int) -> None:
    changes = [
        AlterableConfig(name="retention.ms", config_operation=0, value="1"),
        AlterableConfig(name="retention.ms", config_operation=1),
    ]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=changes)
    (answer,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), version).responses
    assert answer.error_code in {40, 42}
    described = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=["retention.ms"]
    )
    (result,) = wire.ask(DescribeConfigsRequest(resources=[described]), 4).results
    assert result.configs[0].value == "604800000"


def test_a_topic_named_twice_in_one_request_is_not_made(wire: Wire, name: str) -> None:
    twice = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)] * 2
    answers = wire.ask(CreateTopicsRequest(topics=twice, timeout_ms=5_000), 7).topics
    assert {answer.error_code for answer in answers} == {42}
    assert metadata_of(wire, name)[0].error_code == 3


def test_topics_are_described_in_pages(wire: Wire, bootstrap: str, name: str) -> None:
    """KIP-966."""
    create_topic(bootstrap, f"{name}-a", 3)
    create_topic(bootstrap, f"{name}-b", 3)
    wanted = [TopicRequest(name=f"{name}-b"), TopicRequest(name=f"{name}-a")]
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(4):
        page = wire.ask(
            DescribeTopicPartitionsRequest(
                topics=wanted, response_partition_limit=2, cursor=cursor
            ),
            0,
        )
        seen += [
            (topic.name, partition.partition_index)
            for topic in page.topics
            for partition in topic.partitions
        ]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [(f"{name}-{letter}", index) for letter in "ab" for index in range(3)]


# Producers and coordinators


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_are_given_once(wire: Wire, version: int) -> None:
    answers = [
        wire.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), version
        )
        for _ in range(20)
    ]
    assert {answer.error_code for answer in answers} == {0}
    assert len({answer.producer_id for answer in answers}) == 20


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_id_without_its_epoch_is_refused(wire: Wire, version: int) -> None:
    assert (
        wire.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1, producer_id=5),
            version,
        ).error_code
        == 42
    )
    whole = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1, producer_id=5, producer_epoch=3
    )
    assert wire.ask(whole, version).error_code == 0


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_is_found(
    wire: Wire, bootstrap: str, name: str, version: int
) -> None:
    def find() -> Any:
        if version < 4:
            return wire.ask(FindCoordinatorRequest(key=name), version)
        return wire.ask(FindCoordinatorRequest(coordinator_keys=[name]), version).coordinators[0]

    wait_until(lambda: find().error_code == 0, "there is a coordinator")
    assert f"{find().host}:{find().port}" == bootstrap


@pytest.mark.parametrize("version", range(3))
def test_deleting_a_group_that_is_not_there_is_told(wire: Wire, name: str, version: int) -> None:
    wait_until(
        lambda: wire.ask(FindCoordinatorRequest(key=name), 0).error_code == 0,
        "there is a coordinator",
    )

    def codes() -> dict[str, int]:
        answers = wire.ask(
            DeleteGroupsRequest(groups_names=[name, f"{name}-other"]), version
        ).results
        return {answer.group_id: answer.error_code for answer in answers}

    wait_until(lambda: LOADING not in codes().values(), "the coordinator is loaded")
    assert codes() == {name: 69, f"{name}-other": 69}


def test_an_unknown_transactional_id_is_told_so_in_every_version(tidelog_bootstrap: str) -> None:
    with Wire(tidelog_bootstrap) as wire:
        for version in range(4, 7):
            (found,) = wire.ask(
                FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), version
            ).coordinators
            assert found.error_code in {0, 15}  # the topic may have no leaders yet
        for version in range(6):
            assert (
                wire.ask(
                    InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1_000),
                    version,
                ).error_code
                == 42
            )
