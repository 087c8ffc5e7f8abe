"""Automatic creation of topics on a client's request.

User topics are created by Metadata, those of coordinators by FindCoordinator. Decides which names
may become topics and the parameters that this broker asks for. At most one request for a topic is
in progress. Other clients that need the topic wait for the same response. The controller decides
everything else. The response of a controller on another node may arrive before the topic is in this
broker's image. Clients then ask again.

User topics get the parameters of their declaration (``declared_topics``), else of this broker's
file, else the controller's defaults (KIP-464). The topics of coordinators get the parameters of
this broker's configuration. A single broker makes one replica, unless its file asks for more. If
the cluster has too few brokers for that, the broker logs it, and clients try again.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import trio

from log_service.broker.topic_creation.declared import Declared
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from log_service.config.views import NodeConfig
from log_service.controller.caller import Caller
from log_service.controller.channel import ControllerChannel
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CREATE_TIMEOUT_MS = 10_000
"""How long clients wait for the controller to create a topic.

It is less than they wait for a response.
"""

LAST_LENIENT_VERSION = 5
"""The last version of CreateTopics in which an exhausted quota does not refuse topics.

A client that only asked for metadata must not be refused for a quota (KIP-599).
"""
IS_THERE_NOW = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})
"""Results of CreateTopics after which clients find the topic.

Another broker may have created it at the same time.
"""

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Asked:
    """A topic that was requested from the controller.

    ``code`` is the result once ``is_done`` is set.
    """

    is_done: trio.Event = field(default_factory=trio.Event)
    code: ErrorCode = ErrorCode.REQUEST_TIMED_OUT


class TopicCreation:
    """Requests topics from the controller that this broker's clients need and that do not exist."""

    def __init__(
        self,
        controller: ControllerChannel,
        config: NodeConfig,
        clock: Clock,
        image: Callable[[], MetadataImage],
        declared: Declared,
    ) -> None:
        self._declared = declared
        self._controller = controller
        self._image = image
        self._config = config
        self._quiet = QuietLogger(logger, clock.monotonic_ms)
        self._asked: dict[str, _Asked] = {}

    def __repr__(self) -> str:
        return f"<TopicCreation asked={sorted(self._asked)}>"

    async def create(self, names: list[str], client: Caller | None = None) -> dict[str, ErrorCode]:
        """Create topics and return errors by name. A topic that was created meanwhile is not an
        error.

        The partitions count against the quota of ``client``, if it has one. The topics are created
        even if the quota is used up, and the client is throttled afterwards. ``client`` None means
        the broker's own request.
        """
        new = [name for name in names if name not in self._asked]
        asked = {name: self._asked.setdefault(name, _Asked()) for name in names}
        if new:
            await self._ask({name: asked[name] for name in new}, client)
        for each in asked.values():
            await each.is_done.wait()
        return {name: each.code for name, each in asked.items() if each.code not in IS_THERE_NOW}

    async def _ask(self, asked: dict[str, _Asked], client: Caller | None) -> None:
        caller = None if client is None else replace(client, version=LAST_LENIENT_VERSION)
        try:
            declared = await self._declared()
            topics = [declared.get(name) or self._topic(name) for name in asked]
            request = CreateTopicsRequest(topics=topics, timeout_ms=CREATE_TIMEOUT_MS)
            response = await self._controller.request(request, CreateTopicsResponse, caller)
        except KafkaError as error:
            for name, each in asked.items():
                self._settle(name, each, error.code, str(error))
        else:
            results = {topic.name: topic for topic in response.topics}
            for name, each in asked.items():
                topic = results.get(name)
                if topic is None:
                    self._settle(
                        name,
                        each,
                        ErrorCode.UNKNOWN_SERVER_ERROR,
                        "the controller's response does not name it",
                    )
                else:
                    self._settle(
                        name, each, ErrorCode.of(topic.error_code), topic.error_message or ""
                    )
        finally:
            for name, each in asked.items():
                del self._asked[name]
                each.is_done.set()

    def _settle(self, name: str, asked: _Asked, code: ErrorCode, reason: str) -> None:
        asked.code = code
        if code in IS_THERE_NOW:
            return
        if code is ErrorCode.INVALID_REPLICATION_FACTOR:
            text = (
                "topic %s cannot be created, because %s: start more brokers, or set %s to what the"
                " cluster has"
            )
            self._quiet.warning((name, code), text, name, reason, _factor_key(name))
        else:
            self._quiet.warning(
                (name, code), "topic %s could not be created (%s): %s", name, code.name, reason
            )

    def _topic(self, name: str) -> CreatableTopic:
        if name == GROUP_METADATA_TOPIC:
            return self._offsets_topic()
        if name == TRANSACTION_STATE_TOPIC:
            return self._transactions_topic()
        if name == SHARE_GROUP_STATE_TOPIC:
            return self._share_states_topic()
        topics = self._config.topics
        return CreatableTopic(
            name=name,
            num_partitions=topics.asked_partition_count,
            replication_factor=topics.asked_replication_factor,
        )

    def _offsets_topic(self) -> CreatableTopic:
        groups = self._config.groups
        is_alone = len(self._image().cluster.brokers) == 1
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(groups.offsets_topic_segment_bytes),
            "compression.type": "producer",
        }
        return _internal_topic(
            GROUP_METADATA_TOPIC,
            groups.offsets_topic_partitions,
            (
                groups.lone_offsets_topic_replication_factor
                if is_alone
                else groups.offsets_topic_replication_factor
            ),
            configs,
        )

    def _transactions_topic(self) -> CreatableTopic:
        transactions = self._config.transactions
        is_alone = len(self._image().cluster.brokers) == 1
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(
                transactions.lone_state_log_min_isr if is_alone else transactions.state_log_min_isr
            ),
            "segment.bytes": str(transactions.state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
        return _internal_topic(
            TRANSACTION_STATE_TOPIC,
            transactions.state_log_partitions,
            (
                transactions.lone_state_log_replication_factor
                if is_alone
                else transactions.state_log_replication_factor
            ),
            configs,
        )

    def _share_states_topic(self) -> CreatableTopic:
        states = self._config.share_states
        is_alone = len(self._image().cluster.brokers) == 1
        configs = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(
                states.lone_topic_min_isr if is_alone else states.topic_min_isr
            ),
            "retention.ms": "-1",
            "segment.bytes": str(states.topic_segment_bytes),
        }
        return _internal_topic(
            SHARE_GROUP_STATE_TOPIC,
            states.topic_partitions,
            states.lone_topic_replication_factor if is_alone else states.topic_replication_factor,
            configs,
        )


def _internal_topic(
    name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


_FACTOR_KEYS = {
    GROUP_METADATA_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}


def _factor_key(name: str) -> str:
    return _FACTOR_KEYS.get(name, "default.replication.factor")
