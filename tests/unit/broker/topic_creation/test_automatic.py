"""A broker has the controller create topics for its clients.

The tests tell its requests, how often it sends them, and its responses after a failure.
"""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.metadata.records import broker


def wanting(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True
    )


def answering(name: str, code: ErrorCode, text: str = "") -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=code, error_message=text)]
    )


def asked_for(node: HandlerNode) -> list[tuple[str, int, int]]:
    requests = [
        request for request in node.controller.requests if isinstance(request, CreateTopicsRequest)
    ]
    return [
        (topic.name, topic.num_partitions, topic.replication_factor)
        for request in requests
        for topic in request.topics
    ]


@pytest.mark.parametrize(
    ("properties", "asked"),
    [
        ({}, (-1, -1)),
        ({"num_partitions": "4"}, (4, -1)),
        ({"default_replication_factor": "3"}, (-1, 3)),
    ],
)
def test_a_broker_asks_for_what_its_file_says_and_leaves_the_rest_to_the_controller(
    properties: dict[str, str], asked: tuple[int, int]
) -> None:
    async def story(node: HandlerNode) -> None:
        await node.ask(wanting("a"), 12)
        assert asked_for(node) == [("a", *asked)]

    tell_handlers(story, **properties)


DECLARED = """{"topics": {
    "orders": {"partitions": 4, "replication_factor": 2, "configs": {"retention.ms": "1000"}},
    "clicks": {"partitions": 3, "replication_factor": 1, "configs": {}}
}}"""


def test_a_declared_topic_that_a_client_asks_for_first_is_created_as_it_is_declared() -> None:
    """A producer is earlier than its project, or goes on while the topic is deleted."""
    file = Path("/declared/topics.json")

    async def story(node: HandlerNode) -> None:
        files = node.context.env.files
        await node.ask(wanting("orders"), 12)
        assert asked_for(node) == [("orders", 7, -1)], "nothing is declared yet"
        files.make_directory(file.parent)
        files.write_atomically(file, DECLARED.encode())
        await node.ask(wanting("clicks", "orders", "others"), 12)
        assert asked_for(node)[1:] == [("clicks", 3, 1), ("orders", 4, 2), ("others", 7, -1)]
        last = [one for one in node.controller.requests if isinstance(one, CreateTopicsRequest)][-1]
        assert [(one.name, one.value) for topic in last.topics for one in topic.configs] == [
            ("retention.ms", "1000")
        ]
        await node.ask(wanting(GROUP_METADATA_TOPIC), 12)
        assert asked_for(node)[-1][0] != "orders"

    tell_handlers(story, auto_create_topics_declarations=str(file), num_partitions="7")


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense",
        b"[]",
        b'{"topics": {"orders": {"partitions": "many"}}}',
        b'{"topics": {"orders": 4}}',
    ],
)
def test_a_file_of_declarations_that_makes_no_sense_is_told_and_keeps_nothing_from_being_created(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path("/declared/topics.json")

    async def story(node: HandlerNode) -> None:
        node.context.env.files.make_directory(file.parent)
        node.context.env.files.write_atomically(file, content)
        await node.ask(wanting("orders"), 12)
        assert asked_for(node) == [("orders", -1, -1)]

    tell_handlers(story, auto_create_topics_declarations=str(file))
    assert f"The declared topics in {file} cannot be read" in caplog.text


def test_clients_that_miss_the_same_topic_at_once_ask_the_controller_once() -> None:
    async def story(node: HandlerNode) -> None:
        node.controller.responses[CreateTopicsResponse] = answering("a", ErrorCode.POLICY_VIOLATION)
        told: list[Any] = []

        async def ask() -> None:
            told.append((await node.ask(wanting("a"), 12)).topics[0].error_code)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        assert told == [ErrorCode.POLICY_VIOLATION] * 5
        assert len(asked_for(node)) == 1
        await ask()
        assert len(asked_for(node)) == 2, "a topic that could not be created may be asked for again"

    tell_handlers(story)


def test_without_enough_brokers_the_log_says_what_to_set_and_clients_try_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: HandlerNode) -> None:
        reason = "replication factor 3 cannot be reached: 1 broker(s) are registered"
        refusal = answering(GROUP_METADATA_TOPIC, ErrorCode.INVALID_REPLICATION_FACTOR, reason)
        node.controller.responses[CreateTopicsResponse] = refusal
        for _ in range(3):
            (found,) = (
                await node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
            ).coordinators
            assert (found.error_code, found.node_id, found.host, found.port) == (
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                -1,
                "",
                -1,
            )
        assert {name: factor for name, _, factor in asked_for(node)} == {GROUP_METADATA_TOPIC: 3}

    tell_handlers(story, offsets_topic_replication_factor="3")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "topic __consumer_offsets cannot be created, because replication factor 3 cannot be reached: 1 broker(s) are registered: "
        "start more brokers, or set offsets.topic.replication.factor to what the cluster has"
    )


@pytest.mark.parametrize(
    ("properties", "other_brokers", "factor"),
    [
        ({}, 0, 1),
        ({}, 1, 3),
        ({"offsets_topic_replication_factor": "2"}, 0, 2),
        ({"offsets_topic_replication_factor": "2"}, 4, 2),
    ],
)
def test_the_topic_of_groups_has_three_replicas_unless_the_node_is_alone_or_told_otherwise(
    properties: dict[str, str], other_brokers: int, factor: int
) -> None:
    async def story(node: HandlerNode) -> None:
        node.publish(*(broker(number, epoch=number * 10) for number in range(2, 2 + other_brokers)))
        await node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert asked_for(node) == [(GROUP_METADATA_TOPIC, 50, factor)]

    tell_handlers(story, **properties)


def test_a_controller_out_of_reach_keeps_no_client_waiting_for_ever() -> None:
    async def story(node: HandlerNode) -> None:
        node.controller.responses[CreateTopicsResponse] = KafkaError(
            ErrorCode.NOT_CONTROLLER, "nobody leads"
        )
        (found,) = (
            await node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        ).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert all(request.timeout_ms <= 10_000 for request in node.controller.requests)
        await wait_all_tasks_blocked()

    tell_handlers(story)
