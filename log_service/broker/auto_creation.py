"""Topics that are created because a client asked for them: user topics by Metadata, the offsets topic by FindCoordinator.

Decides which names may become topics and how such a topic is configured; the controller decides everything else.
"""

import re

from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse

CREATE_TIMEOUT_MS = 30_000

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_IS_THERE_NOW = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS})


def is_valid_topic_name(name: str) -> bool:
    """Whether a topic may have that name; it is a directory's name too."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


async def create_missing_topics(node: Node, names: list[str]) -> dict[str, ErrorCode]:
    """Create topics with the broker's defaults and return what went wrong, by name. One that exists by now went well."""
    request = CreateTopicsRequest(topics=[_topic(node, name) for name in names], timeout_ms=CREATE_TIMEOUT_MS)
    try:
        response = await node.controller.request(request, CreateTopicsResponse)
    except KafkaError as error:
        return dict.fromkeys(names, error.code)
    codes = {topic.name: ErrorCode.of(topic.error_code) for topic in response.topics}
    return {name: code for name, code in codes.items() if code not in _IS_THERE_NOW}


def _topic(node: Node, name: str) -> CreatableTopic:
    if name == GROUP_METADATA_TOPIC:
        return _offsets_topic(node)
    defaults = node.config.topics
    return CreatableTopic(name=name, num_partitions=defaults.partition_count, replication_factor=defaults.replication_factor)


def _offsets_topic(node: Node) -> CreatableTopic:
    groups = node.config.groups
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(groups.offsets_topic_segment_bytes),
        "compression.type": "producer",
    }
    return CreatableTopic(
        name=GROUP_METADATA_TOPIC,
        num_partitions=groups.offsets_topic_partitions,
        replication_factor=groups.offsets_topic_replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
