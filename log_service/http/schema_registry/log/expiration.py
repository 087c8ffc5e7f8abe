"""Checks that the brokers remember producer epochs for as long as fencing a writer needs them.

A broker that forgets producers earlier than ``freshness`` assumes may accept a batch of a
superseded writer. Such a cluster is not refused, because it does harm only if a writer is paused
for that long. Instead, the instance that takes over logs a warning.
"""

import logging
from collections.abc import Mapping

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigEntry, ConfigResource
from log_service.common.errors import KafkaError
from log_service.http.schema_registry.log.freshness import REFUSED_AFTER_MS

logger = logging.getLogger(__name__)

KEYS = ("producer.id.expiration.ms", "transactional.id.expiration.ms")
"""The broker keys of these times: the first for the partition's replicas, the second for the
coordinator.
"""
PATIENCE_S = 5.0


def expiration_faults(broker: str, values: Mapping[str, str | None]) -> list[str]:
    """Return a sentence for each expiration time of a broker that is too short.

    Unknown times are not reported.
    """
    return [
        f"broker {broker} has {key}={value}, and may take a write of a registry that was paused"
        f" for longer than that and replaced. Set {key} to {REFUSED_AFTER_MS} or more"
        for key in KEYS
        if (value := values.get(key)) is not None and int(value) < REFUSED_AFTER_MS
    ]


async def warn_of_short_expiration(admin: Admin) -> None:
    """Log a warning for each broker that forgets a writer too early.

    Brokers whose configs this user may not read are skipped. The call never fails, and takes at
    most ``PATIENCE_S``.
    """
    with trio.move_on_after(PATIENCE_S):
        try:
            nodes = (await admin.describe_cluster()).nodes
            brokers = [ConfigResource.broker(each.node_id) for each in nodes]
            found = await admin.describe_configs(brokers)
        except KafkaError as error:
            text = "whether brokers remember writers for long enough is not known: %s"
            logger.info(text, error)
            return
        for broker, entries in found.items():
            for fault in expiration_faults(broker.name, _values(entries)):
                logger.warning("%s", fault)


def _values(entries: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    return {key: entries[key].value for key in KEYS if key in entries}
