"""Decides the changes in the target cluster that make its topics like those of the source.

Topics are created, partitions are added, and configs are set or reset. No topic loses partitions,
and no topic is deleted. The target retains topics that the source deletes. This module sends no
request, because the present topics are arguments.

Invariant: only configs set for the topic itself are compared, because each cluster has its own
defaults.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from log_service.client.admin.values import ConfigEntry, NewTopic, TopicListing
from log_service.common.regexes import is_match
from log_service.mirror.settings import FlowSettings, loop_of, mixed_with

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]+")
SET_FOR_THE_TOPIC = "DYNAMIC_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanges:
    """Changes of the target: topics to create, partition counts to raise, and configs to change.

    ``grow`` has the new partition count by topic. ``alter`` has the new config values by topic and
    key, and None resets a config.
    """

    create: tuple[NewTopic, ...]
    grow: Mapping[str, int]
    alter: Mapping[str, Mapping[str, str | None]]


def mirrored_topics(
    flows: Sequence[FlowSettings], flow: FlowSettings, topics: Iterable[str]
) -> tuple[list[str], dict[str, str]]:
    """Return the topics that a flow mirrors, and the topics that it must not mirror.

    A topic must not be mirrored if it would come back to its own cluster, or share a target topic
    with another source. Each refused topic maps to a sentence with the reason. Whether the other
    source has the topic is not known here.
    """
    mirrored: list[str] = []
    refused: dict[str, str] = {}
    for topic in sorted(topics):
        if not flow.selects_topic(topic):
            continue
        if path := loop_of(flows, flow, topic):
            refused[topic] = (
                f"the topic {topic} is not mirrored: {' and '.join(path)} would carry it round in a"
                " circle"
            )
        elif others := mixed_with(flows, flow, topic):
            sources = " and ".join(others)
            refused[topic] = (
                f"the topic {topic} is not mirrored: {sources} may write records of another source"
                " into the same one"
            )
        else:
            mirrored.append(topic)
    return mirrored, refused


def missing_topics(flow: FlowSettings, topics: Iterable[str]) -> list[str]:
    """Return the topics that a flow names without a pattern, and that are not among ``topics``.

    ``topics`` are those of the source.
    """
    there = set(topics)
    return [
        name
        for name in flow.topics
        if TOPIC_NAME.fullmatch(name) and not any(is_match(name, topic) for topic in there)
    ]


def own_configs(flow: FlowSettings, entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Return the configs to copy: those that are set for a topic itself and selected by the flow.

    Secret values cannot be read, and are left out.
    """
    return {
        key: entry.value
        for key, entry in entries.items()
        if entry.source == SET_FOR_THE_TOPIC
        and entry.value is not None
        and not entry.is_sensitive
        and flow.selects_config(key)
    }


def plan_topics(
    flow: FlowSettings,
    source: Mapping[str, TopicListing],
    target: Mapping[str, TopicListing],
    source_configs: Mapping[str, Mapping[str, str]],
    target_configs: Mapping[str, Mapping[str, str]],
) -> TopicChanges:
    """Return the changes in the target for the topics in ``source``, which the flow mirrors.

    ``target`` and ``target_configs`` are keyed by the names in the target. If the configs of a
    topic in the source are unknown, its target topic is not created, and the configs of an existing
    target topic are left alone.
    """
    create: list[NewTopic] = []
    grow: dict[str, int] = {}
    alter: dict[str, Mapping[str, str | None]] = {}
    for name, topic in source.items():
        remote, wanted = flow.remote_topic(name), source_configs.get(name)
        there = target.get(remote)
        if there is None and wanted is None:
            continue
        if there is None:
            create.append(
                NewTopic(
                    name=remote,
                    partition_count=topic.partition_count,
                    replication_factor=flow.replication_factor,
                    configs=dict(wanted or {}),
                )
            )
            continue
        if there.partition_count < topic.partition_count:
            grow[remote] = topic.partition_count
        if not flow.is_syncing_configs or wanted is None or remote not in target_configs:
            continue
        if changes := _config_changes(wanted, target_configs[remote]):
            alter[remote] = changes
    return TopicChanges(create=tuple(create), grow=grow, alter=alter)


def _config_changes(wanted: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {
        key: value for key, value in wanted.items() if there.get(key) != value
    }
    return changes | dict.fromkeys(key for key in there if key not in wanted)
