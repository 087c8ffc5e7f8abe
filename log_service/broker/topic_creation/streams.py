"""Internal topics of Kafka Streams applications, created beside a group's heartbeats (KIP-1071).

Decides which topics are requested from the controller now. Topics that are requested already, or
were refused a short while ago, are left out. Heartbeats do not wait for the controller. A later one
finds the topic in the metadata, or reports why it could not be created. The controller decides
everything else, on behalf of the client that sent the heartbeat.

Invariant: at most ``MAX_REFUSALS`` refusals are remembered. The oldest is dropped first.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from log_service.broker.topic_creation.automatic import IS_THERE_NOW
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.controller.caller import Caller
from log_service.controller.channel import ControllerChannel
from log_service.coordinator.group.values.streams_topology import UNDECIDED, InternalTopic
from log_service.protocol.api_versions import KNOWN, ApiKey
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CREATE_TIMEOUT_MS = 30_000
MAX_REFUSALS = 1_000
DEFAULT_REPLICATION = -1
"""Makes the controller take the cluster's default."""


class _Refusal(NamedTuple):
    """The reason why a topic could not be created, and when it may be tried again.

    The time is in monotonic milliseconds.
    """

    reason: str
    until_ms: int


class StreamsTopicCreation:
    """Requests internal topics from the controller.

    ``start_task`` runs the requests, because no heartbeat waits for them.
    """

    def __init__(
        self, controller: ControllerChannel, clock: Clock, start_task: Callable[..., None]
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._start_task = start_task
        self._asked: set[str] = set()
        self._refusals: dict[str, _Refusal] = {}

    def __repr__(self) -> str:
        return f"<StreamsTopicCreation asked={sorted(self._asked)} refused={len(self._refusals)}>"

    def create(self, topics: Iterable[InternalTopic], client: Caller, retry_ms: int) -> None:
        """Request topics from the controller, without waiting for them.

        Refused topics are not requested again for ``retry_ms``.
        """
        now_ms = self._clock.monotonic_ms()
        wanted = [
            topic
            for topic in topics
            if topic.name not in self._asked and self._refusal(topic.name, now_ms) is None
        ]
        if wanted:
            self._asked.update(topic.name for topic in wanted)
            self._start_task(self._ask, wanted, client, retry_ms)

    def refusals(self, names: Iterable[str]) -> dict[str, str]:
        """Return the reasons why topics could not be created a short while ago, by name."""
        now_ms = self._clock.monotonic_ms()
        found = ((name, self._refusal(name, now_ms)) for name in names)
        return {name: refusal.reason for name, refusal in found if refusal is not None}

    def _refusal(self, name: str, now_ms: int) -> _Refusal | None:
        refusal = self._refusals.get(name)
        return refusal if refusal is not None and now_ms < refusal.until_ms else None

    async def _ask(self, topics: list[InternalTopic], client: Caller, retry_ms: int) -> None:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics], timeout_ms=CREATE_TIMEOUT_MS
        )
        names = [topic.name for topic in topics]
        try:
            caller = replace(client, version=KNOWN[ApiKey.CREATE_TOPICS].max_version)
            response = await self._controller.request(request, CreateTopicsResponse, caller)
        except KafkaError as error:
            self._note(dict.fromkeys(names, str(error)), retry_ms)
        else:
            results = (
                (each.name, ErrorCode.of(each.error_code), each.error_message)
                for each in response.topics
            )
            self._note(
                {
                    name: message or code.name
                    for name, code, message in results
                    if code not in IS_THERE_NOW
                },
                retry_ms,
            )
        finally:
            self._asked.difference_update(names)

    def _note(self, reasons: dict[str, str], retry_ms: int) -> None:
        until_ms = self._clock.monotonic_ms() + retry_ms
        for name, reason in reasons.items():
            self._refusals.pop(name, None)
            self._refusals[name] = _Refusal(reason, until_ms)
        while len(self._refusals) > MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    factor = (
        DEFAULT_REPLICATION if topic.replication_factor == UNDECIDED else topic.replication_factor
    )
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in topic.configs]
    return CreatableTopic(
        name=topic.name, num_partitions=topic.partitions, replication_factor=factor, configs=configs
    )
