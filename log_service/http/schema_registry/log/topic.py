"""Creates the registry's topic if it is missing, and checks it if it exists.

It has one partition, because the meaning of records depends on their order. It is only compacted,
because retention would delete schemas that are in use.
"""

import logging
from collections.abc import Mapping

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, ItemsFailed, NewTopic
from log_service.common.errors import ConfigError, ErrorCode, KafkaError

logger = logging.getLogger(__name__)

DEFAULT_TOPIC = "_schemas"
MOST_REPLICAS = 3
IN_SYNC_REPLICAS = 2
"""Replicas that have an acknowledged record, if the topic has at least three."""
POLICY = "cleanup.policy"
COMPACT = "compact"


def new_topic(name: str, broker_count: int, replication_factor: int | None = None) -> NewTopic:
    """Return the topic to create. By default it has three replicas, or fewer with fewer brokers."""
    replicas = (
        min(MOST_REPLICAS, broker_count) if replication_factor is None else replication_factor
    )
    configs = {POLICY: COMPACT}
    if replicas > IN_SYNC_REPLICAS:
        configs["min.insync.replicas"] = str(IN_SYNC_REPLICAS)
    return NewTopic(name=name, partition_count=1, replication_factor=replicas, configs=configs)


def topic_fault(name: str, partition_count: int, policy: str | None) -> str | None:
    """Return a sentence that says why a topic cannot hold schemas, or None if it can.

    None as ``policy`` means that the cleanup policy is unknown.
    """
    if partition_count != 1:
        text = "the registry needs exactly one, because the order of all records counts"
        return (
            f"topic {name!r} has {partition_count} partitions: {text}. Name another topic, or"
            " delete this one"
        )
    if policy is not None and [part.strip() for part in policy.split(",")] != [COMPACT]:
        text = f"the brokers would delete schemas. Set {POLICY}={COMPACT} on the topic"
        return f"topic {name!r} has {POLICY}={policy}: {text}"
    return None


async def ensure_topic(admin: Admin, name: str, replication_factor: int | None = None) -> None:
    """Create the topic if it is missing, and check it.

    Raises:
        ConfigError: the topic exists and cannot hold schemas.
        KafkaError: the cluster cannot be reached, or refuses to create or describe the topic.
    """
    if not await _is_there(admin, name):
        broker_count = len((await admin.describe_cluster()).nodes)
        await _create(admin, new_topic(name, broker_count, replication_factor))
    found = await admin.cluster.topic(name, admin.config.default_api_timeout_ms)
    fault = topic_fault(name, found.partition_count, await _policy_of(admin, name))
    if fault is not None:
        raise ConfigError(fault)


async def _is_there(admin: Admin, name: str) -> bool:
    try:
        await admin.describe_topics([name])
    except ItemsFailed as failed:
        if failed.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        raise
    return True


async def _create(admin: Admin, topic: NewTopic) -> None:
    try:
        await admin.create_topics([topic])
    except ItemsFailed as failed:
        if failed.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another instance was faster
            raise
    else:
        logger.info(
            "created topic %s with %d replicas and %s",
            topic.name,
            topic.replication_factor,
            _shown(topic.configs),
        )


async def _policy_of(admin: Admin, name: str) -> str | None:
    """Return the cleanup policy, or None if this user may not see it."""
    resource = ConfigResource.topic(name)
    try:
        entries = (await admin.describe_configs([resource]))[resource]
    except KafkaError as error:
        logger.warning("whether topic %s is compacted is not known: %s", name, error)
        return None
    return entries[POLICY].value


def _shown(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in configs.items())
