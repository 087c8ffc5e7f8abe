"""An admin asks again for the items alone that a controller has not done.

The controller refuses some for now, moves, or does not respond.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from log_service.client import (
    Admin,
    ErrorCode,
    ItemsFailed,
    KafkaError,
    NewTopic,
)
from log_service.client.admin.admin_connection import IDLE_MS
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from log_service.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from tests.sim.world import World, sim_run
from tests.unit.client.scripted_broker import ScriptedBroker

Story = Callable[[ScriptedBroker, Admin], Awaitable[None]]


def tell(story: Story, **settings: Any) -> None:
    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Admin("broker:9092", env=world.client_env(), **settings) as admin:
                with trio.fail_after(1_000):
                    await story(broker, admin)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


class Controller:
    """Creates and deletes topics; ``refusals`` holds, per topic, the errors that come first."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.topics: set[str] = set()
        self.refusals: dict[str, list[ErrorCode]] = {}
        self.asked: list[list[str]] = []
        broker.other[ApiKey.CREATE_TOPICS] = self._create
        broker.other[ApiKey.DELETE_TOPICS] = self._delete

    def _refusal(self, name: str) -> ErrorCode:
        refusals = self.refusals.get(name)
        return refusals.pop(0) if refusals else ErrorCode.NONE

    async def _create(self, request: Any, version: int) -> CreateTopicsResponse:
        await trio.lowlevel.checkpoint()
        self.asked.append([topic.name for topic in request.topics])
        results = []
        for topic in request.topics:
            code = self._refusal(topic.name) or (
                ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in self.topics else ErrorCode.NONE
            )
            if code is ErrorCode.NONE:
                self.topics.add(topic.name)
            results.append(CreatableTopicResult(name=topic.name, error_code=code))
        return CreateTopicsResponse(topics=results)

    async def _delete(self, request: Any, version: int) -> DeleteTopicsResponse:
        await trio.lowlevel.checkpoint()
        self.asked.append([topic.name for topic in request.topics])
        results = []
        for topic in request.topics:
            code = self._refusal(topic.name) or (
                ErrorCode.NONE
                if topic.name in self.topics
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            self.topics.discard(topic.name if code is ErrorCode.NONE else "")
            results.append(DeletableTopicResult(name=topic.name, error_code=code))
        return DeleteTopicsResponse(responses=results)


def test_only_what_was_refused_for_now_is_asked_for_again() -> None:
    async def story(broker: ScriptedBroker, admin: Admin) -> None:
        controller = Controller(broker)
        controller.refusals = {
            "b": [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT],
            "c": [ErrorCode.INVALID_CONFIG],
        }
        with pytest.raises(ItemsFailed) as caught:
            await admin.create_topics(
                [NewTopic(name=name) for name in ("a", "b", "c")], is_validated_only=True
            )
        assert controller.asked == [["a", "b", "c"], ["b"], ["b"]]
        assert (list(caught.value.errors), sorted(caught.value.results)) == (["c"], ["a", "b"])
        controller.refusals = {"a": [ErrorCode.NOT_CONTROLLER]}
        controller.asked.clear()
        await admin.delete_topics(["a", "b"])
        assert controller.asked == [["a", "b"], ["a"]]

    tell(story)


def test_a_call_ends_with_its_deadline_and_the_last_error() -> None:
    async def story(broker: ScriptedBroker, admin: Admin) -> None:
        controller = Controller(broker)
        controller.refusals = {"a": [ErrorCode.NOT_CONTROLLER] * 1_000}
        started = trio.current_time()
        with pytest.raises(KafkaError, match="topic a: NOT_CONTROLLER"):
            await admin.create_topics([NewTopic(name="a")], timeout_ms=3_000)
        assert trio.current_time() - started == pytest.approx(3, abs=0.1)
        assert len(controller.asked) < 20

    tell(story)


def test_a_topic_that_is_deleted_is_gone_when_the_call_returns() -> None:
    async def story(broker: ScriptedBroker, admin: Admin) -> None:
        controller = Controller(broker)
        controller.topics.add("t")

        async def forget_later() -> None:
            await trio.sleep(2)
            broker.recreate()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(forget_later)
            started = trio.current_time()
            controller_delete = broker.other[ApiKey.DELETE_TOPICS]

            async def delete(request: Any, version: int) -> DeleteTopicsResponse:
                response: DeleteTopicsResponse = await controller_delete(request, version)
                response.responses[0].topic_id = broker.topic_id
                return response

            broker.other[ApiKey.DELETE_TOPICS] = delete
            await admin.delete_topics(["t"])
            assert 2 <= trio.current_time() - started < 4

    tell(story)


def test_one_deadline_for_creating_and_for_waiting_until_it_is_there() -> None:
    async def story(broker: ScriptedBroker, admin: Admin) -> None:
        controller = Controller(broker)
        controller.refusals = {"a": [ErrorCode.NOT_CONTROLLER] * 4}
        started = trio.current_time()
        with pytest.raises(KafkaError, match="topic 'a' was created and has no leaders yet"):
            await admin.create_topics([NewTopic(name="a")], timeout_ms=5_000)
        assert trio.current_time() - started == pytest.approx(5, abs=0.1)

    tell(story)


def test_topics_that_no_call_names_are_asked_for_no_more() -> None:
    async def story(broker: ScriptedBroker, admin: Admin) -> None:
        for _ in range(2):
            await admin.describe_topics(["t"])
            await admin.cluster.refresh()
            assert asked_topics(broker) == ["t"]
            await trio.sleep(IDLE_MS / 1_000)
            await admin.cluster.refresh()
            assert asked_topics(broker) == []

    tell(story)


def asked_topics(broker: ScriptedBroker) -> list[str]:
    """Return the topics of the last request for metadata."""
    request = [each for key, each in broker.requests if key is ApiKey.METADATA][-1]
    return [topic.name for topic in request.topics]
