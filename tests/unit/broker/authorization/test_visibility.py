"""Responses leave out things that a client must not see, and tell what it may do."""

import logging

import pytest
import trio

from log_service.broker.authorization.decision_log import TRACE
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from log_service.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from log_service.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from log_service.protocol.messages.describe_transactions import DescribeTransactionsRequest
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from log_service.security.audit import LOGGER_NAME
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    CLUSTER_NAME,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    AclStory,
    codes,
    tell_with_acls,
)
from tests.unit.broker.authorization.matrix import (
    ALTER,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    WRITE,
    Things,
)
from tests.unit.broker.authorization.matrix_requests import add_partitions_request, commit_request
from tests.unit.broker.authorization.matrix_steps import fitted, prepare, state
from tests.unit.broker.context import batch, fetch_request, produce_request

NOT_ASKED = -(2**31)
TOPIC_AND_CLUSTER = 0x0DF8, 0x1FA0


def test_clients_that_ask_are_told_what_they_may_do() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        asking = MetadataRequest(
            topics=[MetadataRequestTopic(name="t")],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        await node.have_only((READ, TOPIC, "t"))
        told = await node.ask(asking, 8)
        assert (told.topics[0].topic_authorized_operations, told.cluster_authorized_operations) == (
            1 << READ | 1 << DESCRIBE,
            0,
        )
        await node.have_only((2, TOPIC, "*"), (2, CLUSTER, CLUSTER_NAME))
        told = await node.ask(asking, 8)
        assert (
            told.topics[0].topic_authorized_operations,
            told.cluster_authorized_operations,
        ) == TOPIC_AND_CLUSTER
        told = await node.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert told.cluster_authorized_operations == TOPIC_AND_CLUSTER[1]
        told = await node.ask(DescribeTopicPartitionsRequest(topics=[DescribedTopic(name="t")]), 0)
        assert told.topics[0].topic_authorized_operations == TOPIC_AND_CLUSTER[0]
        await node.have_only((DESCRIBE, CLUSTER, CLUSTER_NAME), (ALTER, CLUSTER, CLUSTER_NAME))
        told = await node.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert told.cluster_authorized_operations == 1 << DESCRIBE | 1 << ALTER
        assert (
            await node.ask(DescribeClusterRequest(), 1)
        ).cluster_authorized_operations == NOT_ASKED
        await node.have_only((CREATE, CLUSTER, CLUSTER_NAME))
        told = await node.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
        assert told.cluster_authorized_operations == 0, (
            "nothing is told to those who may not describe the cluster"
        )

    tell_with_acls(story)


def test_groups_tell_what_may_be_done_with_them() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.have_only((READ, GROUP, "g"))
        told = await node.ask(
            DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5
        )
        assert [group.authorized_operations for group in told.groups] == [1 << READ | 1 << DESCRIBE]
        await node.have_only((2, GROUP, "g"))
        told = await node.ask(
            DescribeGroupsRequest(groups=["g", "other"], include_authorized_operations=True), 5
        )
        assert [
            (group.group_id, group.error_code, group.authorized_operations) for group in told.groups
        ] == [
            ("g", 0, 0x0D48),
            ("other", 30, NOT_ASKED),
        ]

    tell_with_acls(story)


def test_a_group_that_shows_a_hidden_topic_is_hidden_as_a_whole() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.may_do_everything()
        beat = ConsumerGroupHeartbeatRequest(
            group_id="cg",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert codes(await node.ask(beat, 1)) == {0}
        asking = ConsumerGroupDescribeRequest(group_ids=["cg"], include_authorized_operations=True)
        await node.have_only((2, GROUP, "cg"), (DESCRIBE, TOPIC, "t"))
        (group,) = (await node.ask(asking, 1)).groups
        assert (group.error_code, len(group.members), group.authorized_operations) == (0, 1, 0x0D48)
        await node.have_only((2, GROUP, "cg"))
        (group,) = (await node.ask(asking, 1)).groups
        assert (
            group.error_code,
            group.members,
            group.group_state,
            group.authorized_operations,
        ) == (29, [], "", NOT_ASKED)

    tell_with_acls(story)


def test_a_regular_expression_matches_what_its_client_may_see() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.make_topic("hidden")
        await node.have_only((READ, GROUP, "cg"), (DESCRIBE, TOPIC, "t"))
        beat = ConsumerGroupHeartbeatRequest(
            group_id="cg",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_regex=".*",
            topic_partitions=[],
        )
        assert codes(await node.ask(beat, 1)) == {0}
        await trio.sleep(1)
        told = await node.ask(
            ConsumerGroupHeartbeatRequest(group_id="cg", member_id="m", member_epoch=1), 1
        )
        by_id = {topic.topic_id: name for name, topic in node.broker.image.topics.by_name.items()}
        assert [by_id[topic.topic_id] for topic in told.assignment.topic_partitions] == ["t"]

    tell_with_acls(story)


def test_positions_of_hidden_topics_are_left_out() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        other = await node.make_topic("other")
        await node.may_do_everything()
        assert codes(
            await node.ask(commit_request(Things(topic="other", topic_id=other), 9), 9)
        ) == {0}
        await node.have_only((DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "t"))
        told = await node.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9
        )
        assert [topic.name for topic in told.groups[0].topics] == ["t"]
        told = await node.ask(OffsetFetchRequest(group_id="g", topics=None), 5)
        assert [topic.name for topic in told.topics] == ["t"]

    tell_with_acls(story)


def test_a_part_of_a_request_is_let_through() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.make_topic("other")
        await node.have_only((DESCRIBE, TOPIC, "t"), (WRITE, TOPIC, "other"))
        topics = [
            ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])
            for name in ("gone", "t", "other")
        ]
        told = await node.ask(ListOffsetsRequest(topics=topics), 5)
        assert [(topic.name, topic.partitions[0].error_code) for topic in told.topics] == [
            ("t", 0),
            ("other", 0),
            ("gone", 29),
        ]
        produced = produce_request("t", batch(b"no"))
        produced.topic_data += produce_request("other", batch(b"yes")).topic_data
        told = await node.ask(produced, 9)
        assert [
            (topic.name, topic.partition_responses[0].error_code) for topic in told.responses
        ] == [("other", 0), ("t", 29)]
        fetched = fetch_request("t", 0)
        fetched.topics += fetch_request("other", 0).topics
        await node.have_only((READ, TOPIC, "other"))
        told = await node.ask(fetched, 12)
        assert [(topic.topic, topic.partitions[0].error_code) for topic in told.responses] == [
            ("t", 29),
            ("other", 0),
        ]

    tell_with_acls(story)


def test_one_denied_topic_keeps_a_whole_request_out_of_a_transaction() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.make_topic("other")
        await node.have_only(
            (WRITE, TRANSACTIONAL_ID, "x"), (WRITE, TOPIC, "other"), (WRITE, TOPIC, "gone")
        )
        asking: AddPartitionsToTxnRequest = fitted(add_partitions_request(Things(), 3), 3)
        asking.v3_and_below_topics += [
            AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("other", "gone")
        ]
        told = await node.ask(asking, 3)
        found = {
            topic.name: topic.results_by_partition[0].partition_error_code
            for topic in told.results_by_topic_v3_and_below
        }
        assert found == {"t": 29, "other": 55, "gone": 3}
        await node.may_do_everything()
        (described,) = (
            await node.ask(DescribeTransactionsRequest(transactional_ids=["x"]), 0)
        ).transaction_states
        assert (described.transaction_state, described.topics) == ("Empty", [])

    tell_with_acls(story)


def test_a_topic_that_only_brokers_write_to_gets_into_no_transaction() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.may_do_everything()
        asking: AddPartitionsToTxnRequest = fitted(add_partitions_request(Things(), 3), 3)
        asking.v3_and_below_topics.append(
            AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=[0])
        )
        told = await node.ask(asking, 3)
        found = {
            topic.name: topic.results_by_partition[0].partition_error_code
            for topic in told.results_by_topic_v3_and_below
        }
        assert found == {"t": 55, "__consumer_offsets": 29}

    tell_with_acls(story)


def test_hidden_topics_are_left_out_of_a_transaction() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.may_do_everything()
        begun = await node.ask(
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000), 4
        )
        asking: AddPartitionsToTxnRequest = fitted(add_partitions_request(Things(), 3), 3)
        asking.v3_and_below_producer_id, asking.v3_and_below_producer_epoch = (
            begun.producer_id,
            begun.producer_epoch,
        )
        await node.make_topic("other")
        asking.v3_and_below_topics.append(AddPartitionsToTxnTopic(name="other", partitions=[0]))
        assert {
            partition.partition_error_code
            for topic in (await node.ask(asking, 3)).results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        } == {0}
        await node.have_only((DESCRIBE, TRANSACTIONAL_ID, "x"), (DESCRIBE, TOPIC, "other"))
        (described,) = (
            await node.ask(DescribeTransactionsRequest(transactional_ids=["x"]), 0)
        ).transaction_states
        assert [topic.topic for topic in described.topics] == ["other"]

    tell_with_acls(story)


def test_a_new_topic_tells_its_configuration_to_those_who_may_see_it() -> None:
    async def story(node: AclStory) -> None:
        def creating(name: str) -> CreateTopicsRequest:
            return CreateTopicsRequest(
                topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
                timeout_ms=1_000,
            )

        await node.allow((CREATE, CLUSTER, CLUSTER_NAME), (DESCRIBE_CONFIGS, TOPIC, "seen"))
        (seen,) = (await node.ask(creating("seen"), 7)).topics
        assert (
            seen.error_code,
            seen.num_partitions,
            seen.topic_config_error_code,
            bool(seen.configs),
        ) == (0, 1, 0, True)
        (unseen,) = (await node.ask(creating("unseen"), 7)).topics
        assert (unseen.error_code, unseen.num_partitions, unseen.replication_factor) == (0, -1, -1)
        assert (unseen.topic_config_error_code, unseen.configs) == (29, [])

    tell_with_acls(story)


def test_deleting_tells_nothing_of_what_must_not_be_seen() -> None:
    async def story(node: AclStory) -> None:
        topic_id = await node.make_topic("t")

        async def deleting(*states: DeleteTopicState) -> list[tuple[str | None, int]]:
            told = await node.ask(DeleteTopicsRequest(topics=list(states), timeout_ms=1_000), 6)
            return [(result.name, result.error_code) for result in told.responses]

        by_name, by_id, gone = (
            DeleteTopicState(name="t"),
            DeleteTopicState(name=None, topic_id=topic_id),
            DeleteTopicState(name="gone"),
        )
        assert await deleting(by_name, gone) == [("t", 29), ("gone", 29)]
        assert await deleting(by_id) == [(None, 29)]
        await node.have_only((DESCRIBE, TOPIC, "*"))
        assert await deleting(by_name, gone) == [("gone", 3), ("t", 29)]
        assert await deleting(by_id) == [("t", 29)]
        await node.have_only((DELETE, TOPIC, "*"))
        await node.deny((DESCRIBE, TOPIC, "t"))
        assert await deleting(by_name) == [("t", 29)]
        await node.have_only((DELETE, TOPIC, "*"))
        assert await deleting(by_name) == [("t", 0)]

    tell_with_acls(story)


def test_a_fetch_session_ends_where_a_right_ends() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.have_only((READ, TOPIC, "t"))
        request = fetch_request("t", 0)
        request.session_epoch = 0
        told = await node.ask(request, 12)
        assert told.session_id
        await node.forget_acls()
        later = fetch_request("t", 0)
        later.topics, later.session_id, later.session_epoch = [], told.session_id, 1
        told = await node.ask(later, 12)
        assert [
            (partition.error_code, bytes(partition.records or b""))
            for partition in told.responses[0].partitions
        ] == [(29, b"")]

    tell_with_acls(story)


@pytest.mark.parametrize("version", [12, 13])
def test_each_topic_of_a_fetch_session_needs_its_own_right_at_each_request(version: int) -> None:
    async def story(node: AclStory) -> None:
        ids = {name: await node.make_topic(name, 2) for name in ("a", "b")}
        names = {topic_id: name for name, topic_id in ids.items()}

        def request(*topics: str, session_id: int = 0, session_epoch: int = 0) -> FetchRequest:
            wanted = [
                FetchTopic(topic=name) if version < 13 else FetchTopic(topic_id=ids[name])
                for name in topics
            ]
            for topic in wanted:
                topic.partitions = [
                    FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=100)
                    for number in (0, 1)
                ]
            return FetchRequest(
                max_bytes=1000, topics=wanted, session_id=session_id, session_epoch=session_epoch
            )

        def denied(told: FetchResponse) -> list[str]:
            topics = [
                (topic.topic or names[topic.topic_id], topic.partitions) for topic in told.responses
            ]
            return sorted(
                name for name, partitions in topics for each in partitions if each.error_code == 29
            )

        await node.have_only((READ, TOPIC, "a"))
        told = await node.ask(request("a", "b"), version)
        assert denied(told) == ["b", "b"]
        for epoch, (readable, expected) in enumerate(
            [("a", "b"), ("b", "a"), ("b", "a"), ("a", "b")], 1
        ):
            await node.have_only((READ, TOPIC, readable))
            later = await node.ask(
                request(session_id=told.session_id, session_epoch=epoch), version
            )
            assert denied(later) == [expected, expected]
        await node.forget_acls()
        assert denied(
            await node.ask(request(session_id=told.session_id, session_epoch=5), version)
        ) == ["a", "a", "b", "b"]

    tell_with_acls(story)


def test_a_fetch_that_waits_hears_of_a_right_that_ends() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.have_only((READ, TOPIC, "t"))
        await node.client.send(fetch_request("t", 1, max_wait_ms=5_000), 12)
        await trio.sleep(1)
        await node.have_only((WRITE, TOPIC, "t"))
        other = await node.connect()
        assert codes(await other.ask(produce_request("t", batch(b"secret")), 9)) == {0}
        told = await node.client.receive()
        assert told.responses[0].partitions[0].error_code == 29
        other.close()

    tell_with_acls(story)


def test_acks_0_closes_the_connection_of_who_may_not_write() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        before = state(node)
        await node.client.send(produce_request("t", batch(b"x"), acks=0), 9)
        assert await node.client.is_closed()
        assert state(node) == before

    tell_with_acls(story)


def test_acks_0_appends_what_is_allowed_before_it_closes_the_connection() -> None:
    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.make_topic("other")
        await node.have_only((WRITE, TOPIC, "t"))
        request = produce_request("t", batch(b"x"), acks=0)
        request.topic_data += produce_request("other", batch(b"x")).topic_data
        await node.client.send(request, 9)
        assert await node.client.is_closed()
        ends = {
            where.topic: log.log_end_offset
            for where, log in node.broker.foundation.logs.logs.items()
            if where.topic in {"t", "other"}
        }
        assert ends == {"t": 2, "other": 0}

    tell_with_acls(story)


def test_missing_topics_are_created_for_those_who_may() -> None:
    async def story(node: AclStory) -> None:
        await node.allow((DESCRIBE, TOPIC, "*"))
        asking = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
        assert (await node.ask(asking, 12)).topics[0].error_code == 29
        assert "new" not in node.broker.image.topics.by_name
        await node.allow((CREATE, CLUSTER, CLUSTER_NAME))
        assert (await node.ask(asking, 12)).topics[0].error_code == 0
        assert "new" in node.broker.image.topics.by_name

    tell_with_acls(story)


def test_super_users_and_open_clusters() -> None:
    async def of_super_users(node: AclStory) -> None:
        await node.make_topic("t")
        await node.deny((2, TOPIC, "*"))
        assert (await node.produce("t", batch(b"x"))).error_code == 0

    async def of_everyone(node: AclStory) -> None:
        await node.make_topic("t")
        assert (await node.produce("t", batch(b"x"))).error_code == 0
        await node.allow((READ, TOPIC, "t"))
        assert (await node.produce("t", batch(b"x"))).error_code == 29

    tell_with_acls(of_super_users, super_users="User:admin; User:ANONYMOUS")
    tell_with_acls(of_everyone, allow_everyone_if_no_acl_found="true")


def test_acls_are_there_after_a_start() -> None:
    """The rights of the metadata log hold before the first client is served."""

    async def story(node: AclStory) -> None:
        authorizer = node.broker.authorizer
        assert authorizer is not None
        assert authorizer.acls.is_loaded
        assert codes(await node.ask(FindCoordinatorRequest(key="g", key_type=0), 1)) == {30}

    tell_with_acls(story)


# The audit log


@pytest.mark.parametrize(("level", "expected"), [(logging.INFO, 1), (logging.DEBUG, 2), (TRACE, 2)])
def test_the_audit_log_has_a_line_for_each_decision_of_its_level(
    caplog: pytest.LogCaptureFixture, level: int, expected: int
) -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        caplog.set_level(level, LOGGER_NAME)
        assert (await node.produce("t", batch(b"x"))).error_code == 29
        await node.allow((WRITE, TOPIC, "t"))
        assert (await node.produce("t", batch(b"x"))).error_code == 0

    tell_with_acls(story)
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER_NAME]
    assert len(lines) == expected
    assert lines[0] == (
        "Principal = User:ANONYMOUS is Denied operation = WRITE from host = client on resource = Topic:LITERAL:t for request = Produce"
        " with resourceRefCount = 1 based on rule DefaultDeny"
    )
