"""Decides which client pushes which metrics, and how often, by ``client-metrics`` resources.

These resources are part of the cluster's configuration (KIP-714). Each resource names prefixes of
metrics, an interval, and the clients that it applies to, by regular expressions of their
attributes. A client pushes the metrics of all resources that match it, at the shortest of their
intervals.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID
from zlib import crc32

from log_service.common.errors import KafkaError
from log_service.common.regexes import is_match, validate_regex

logger = logging.getLogger(__name__)

DEFAULT_INTERVAL_MS = 300_000
ALL_METRICS = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAttributes:
    """Attributes of a client as texts, which the patterns of resources have to match."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One ``client-metrics`` resource.

    ``patterns`` are regular expressions by attribute; all have to match the whole value.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, str], ...]

    def is_for(self, client: ClientAttributes) -> bool:
        """Whether the resource applies to a client."""
        return all(
            is_match(pattern, getattr(client, attribute)) for attribute, pattern in self.patterns
        )


def resource(name: str, configs: Mapping[str, str]) -> Resource | None:
    """Return the resource that a configuration describes, or None if it is not usable.

    An unusable one is logged. Apache Kafka accepts Java's syntax, so a metadata log of Apache Kafka
    may have expressions that RE2 does not accept.
    """
    patterns = []
    for item in _items(configs.get("match", "")):
        attribute, _, pattern = item.partition("=")
        patterns.append((attribute.strip(), pattern.strip()))
    try:
        for _, pattern in patterns:
            validate_regex(pattern)
    except KafkaError as error:
        logger.warning(
            "client metrics %s are for no client: %s; give it another match", name, error
        )
        return None
    interval_ms = int(configs.get("interval.ms", DEFAULT_INTERVAL_MS))
    return Resource(
        metrics=tuple(_items(configs.get("metrics", ""))),
        interval_ms=interval_ms,
        patterns=tuple(patterns),
    )


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The metrics that one client pushes, by prefix.

    ``metrics`` is empty if the client pushes nothing. The id changes with the metrics and the
    interval, so that the client notices a change.
    """

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


def subscription_of(
    instance_id: UUID, client: ClientAttributes, resources: Iterable[Resource]
) -> Subscription:
    """Return the metrics and the interval of a client, by all resources that match it.

    The id also depends on ``instance_id``.
    """
    interval_ms, prefixes = DEFAULT_INTERVAL_MS, set[str]()
    for each in resources:
        if each.is_for(client):
            interval_ms = min(interval_ms, each.interval_ms)
            prefixes.update(each.metrics)
    metrics = (ALL_METRICS,) if ALL_METRICS in prefixes else tuple(sorted(prefixes))
    number = crc32("\n".join((*metrics, str(interval_ms))).encode(), crc32(instance_id.bytes))
    return Subscription(
        subscription_id=number - (1 << 31), metrics=metrics, interval_ms=interval_ms
    )
