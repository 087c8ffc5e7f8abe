"""Turns two readings of a cluster into one screen of rates. Plain values in, plain values out.

A rate is unknown (None) for a thing that the earlier reading did not have, and 0 for a count that
became smaller.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from log_service.cli.top_metrics import TopicBytes
from log_service.cli.top_registry import RegistryLook

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLook:
    """A topic at one moment.

    Sums and counts are over its partitions. ``leaders`` has one node id per partition.
    """

    partition_count: int
    under_replicated_count: int
    leaderless_count: int
    end_sum: int
    record_count: int
    size_bytes: int | None
    leaders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """A group at one moment."""

    state: str
    member_count: int
    committed_sum: int
    lag: int
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A cluster at one moment. ``at_s`` is in seconds of the monotonic clock."""

    at_s: float
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, str]
    topics: Mapping[str, TopicLook]
    groups: Mapping[str, GroupLook]
    traffic: Mapping[str, TopicBytes] = field(default_factory=dict)
    registry: RegistryLook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The content of a screen: rows of brokers, topics, groups, and of the schema registry."""

    cluster_id: str
    controller_id: int
    interval_s: float
    brokers: list[Row]
    topics: list[Row]
    groups: list[Row]
    registry: Row | None = None


def screen_of(before: Look, now: Look) -> Screen:
    """Return the screen with the rates between two readings of the cluster."""
    interval_s = max(now.at_s - before.at_s, 1e-9)
    return Screen(
        cluster_id=now.cluster_id,
        controller_id=now.controller_id,
        interval_s=interval_s,
        brokers=[broker_row(now, node_id) for node_id in sorted(now.brokers)],
        topics=[topic_row(before, now, name, interval_s) for name in sorted(now.topics)],
        groups=[group_row(before, now, name, interval_s) for name in sorted(now.groups)],
        registry=(
            None
            if now.registry is None
            else registry_row(before.registry, now.registry, interval_s)
        ),
    )


def rate(before: float | None, now: float, interval_s: float) -> float | None:
    """Return a growth per second. It is None for a new count, and 0 for one that became smaller."""
    return None if before is None else round(max(0.0, now - before) / interval_s, 1)


def broker_row(now: Look, node_id: int) -> Row:
    """Return a broker as a row."""
    return {
        "broker": node_id,
        "address": now.brokers[node_id],
        "controller": node_id == now.controller_id,
        "leads": sum(topic.leaders.count(node_id) for topic in now.topics.values()),
    }


def topic_row(before: Look, now: Look, name: str, interval_s: float) -> Row:
    """Return a topic as a row: records and, if a metrics page has them, bytes per second."""
    topic, then = now.topics[name], before.topics.get(name)
    traffic, traffic_then = now.traffic.get(name), before.traffic.get(name)
    return {
        "topic": name,
        "partitions": topic.partition_count,
        "records": topic.record_count,
        "in": rate(None if then is None else then.end_sum, topic.end_sum, interval_s),
        "bytes_in": (
            None
            if traffic is None or traffic_then is None
            else rate(traffic_then.taken, traffic.taken, interval_s)
        ),
        "bytes_out": (
            None
            if traffic is None or traffic_then is None
            else rate(traffic_then.given, traffic.given, interval_s)
        ),
        "size_bytes": topic.size_bytes,
        "under_replicated": topic.under_replicated_count,
        "leaderless": topic.leaderless_count,
    }


def group_row(before: Look, now: Look, name: str, interval_s: float) -> Row:
    """Return a group as a row. ``out`` is the number of records per second that it commits."""
    group, then = now.groups[name], before.groups.get(name)
    return {
        "group": name,
        "state": group.state,
        "members": group.member_count,
        "topics": list(group.topics),
        "out": rate(None if then is None else then.committed_sum, group.committed_sum, interval_s),
        "lag": group.lag,
    }


def registry_row(before: RegistryLook | None, now: RegistryLook, interval_s: float) -> Row:
    """Return a schema registry as a row. Its figures are None if they could not be read."""
    if now.failure:
        return {"address": now.address, "failure": now.failure}
    is_known = before is not None and not before.failure
    return {
        "address": now.address,
        "subjects": now.subject_count,
        "schemas": now.schema_count,
        "is_writer": now.is_writer,
        "requests": rate(
            before.request_count if is_known and before else None, now.request_count, interval_s
        ),
    }
