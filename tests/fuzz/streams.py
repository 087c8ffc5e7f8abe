"""Heartbeats and stored records of streams groups get behind the first checks.

Those that are drawn field by field are refused at once. Decides values only. A heartbeat leaves the
fields empty that no broker takes, and begins as a join in half of all cases; its topology names
topics that may exist, and points at them from copartition groups, now and then at nothing.
"""

from random import Random
from typing import Any

from log_service.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    RequestEndpoint,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from log_service.protocol.stored import streams_group_records as stored
from log_service.protocol.stored.serde import encode_key, encode_versioned
from tests.fuzz.shapes import Vocabulary, draw_message

MEMBERS = ("process-1", "process-2", "process-3")
GROUPS = ("streams", "group", "streams-2")
RECORDS: tuple[tuple[type[Any], type[Any]], ...] = (
    (stored.StreamsGroupMetadataKey, stored.StreamsGroupMetadataValue),
    (stored.StreamsGroupMemberMetadataKey, stored.StreamsGroupMemberMetadataValue),
    (
        stored.StreamsGroupTargetAssignmentMetadataKey,
        stored.StreamsGroupTargetAssignmentMetadataValue,
    ),
    (stored.StreamsGroupTargetAssignmentMemberKey, stored.StreamsGroupTargetAssignmentMemberValue),
    (
        stored.StreamsGroupCurrentMemberAssignmentKey,
        stored.StreamsGroupCurrentMemberAssignmentValue,
    ),
    (stored.StreamsGroupTopologyKey, stored.StreamsGroupTopologyValue),
)


def draw_heartbeat(rng: Random, vocabulary: Vocabulary) -> StreamsGroupHeartbeatRequest:
    """A heartbeat of one of a few members."""
    is_joining = rng.random() < 0.5
    tasks: list[Any] = (
        [[], [], []]
        if is_joining
        else rng.choice([[None] * 3, [[_tasks(rng)], [], []], [[_tasks(rng)], [_tasks(rng)], []]])
    )
    return StreamsGroupHeartbeatRequest(
        group_id=rng.choice(GROUPS),
        member_id=rng.choice(MEMBERS),
        member_epoch=0
        if is_joining
        else rng.choice((1, 1, 2, 3, -1, vocabulary.number(rng, "int32"))),
        endpoint_information_epoch=rng.choice((-1, 0, 1, vocabulary.number(rng, "int32"))),
        rebalance_timeout_ms=rng.choice((0, 1_000, 60_000, 2**31 - 1)) if is_joining else -1,
        topology=_topology(rng, vocabulary) if is_joining else None,
        active_tasks=tasks[0],
        standby_tasks=tasks[1],
        warmup_tasks=tasks[2],
        process_id=rng.choice((None, "", *MEMBERS)),
        user_endpoint=rng.choice(
            (None, RequestEndpoint(host=vocabulary.name(rng), port=rng.choice((0, 1, 65_535))))
        ),
        shutdown_application=rng.random() < 0.1,
    )


def draw_stored(rng: Random, vocabulary: Vocabulary, payload: Any) -> tuple[bytes, bytes]:
    """Key and value of a record as ``__consumer_offsets`` holds them."""
    key, value = rng.choice(RECORDS)
    return encode_key(draw_message(rng, key, 0, vocabulary, payload)), encode_versioned(
        draw_message(rng, value, 0, vocabulary, payload), 0
    )


def _topology(rng: Random, vocabulary: Vocabulary) -> Topology:
    subtopologies = [
        _subtopology(rng, vocabulary, number) for number in range(rng.choice((0, 1, 1, 2, 5)))
    ]
    return Topology(epoch=rng.choice((0, 0, 0, 0, 0, 0, 1, -1)), subtopologies=subtopologies)


def _subtopology(rng: Random, vocabulary: Vocabulary, number: int) -> Subtopology:
    names = ("plain", "compact", "short", "plain", "absent", "synced", _rarely(rng, vocabulary))
    sources = [rng.choice(names) for _ in range(rng.choice((0, 1, 2)))]
    repartitioned = [_internal(rng, vocabulary) for _ in range(rng.choice((0, 0, 1, 2)))]
    indexes = [rng.choice((0, 0, 0, 1, 7, -1)) for _ in range(rng.choice((0, 0, 0, 0, 1, 2)))]
    return Subtopology(
        subtopology_id=str(number if rng.random() < 0.9 else 0),
        source_topics=sources,
        repartition_source_topics=repartitioned,
        repartition_sink_topics=[topic.name for topic in repartitioned if rng.random() < 0.5],
        state_changelog_topics=[_internal(rng, vocabulary)] if rng.random() < 0.3 else [],
        copartition_groups=[
            CopartitionGroup(source_topics=indexes, repartition_source_topics=indexes[:1])
        ]
        if indexes
        else [],
    )


def _internal(rng: Random, vocabulary: Vocabulary) -> TopicInfo:
    name = rng.choice(
        ("plain", "streams-store-changelog", "streams-key-repartition", _rarely(rng, vocabulary))
    )
    return TopicInfo(
        name=name, partitions=rng.choice((0, 0, 1, 3, -1)), replication_factor=rng.choice((0, 1))
    )


def _rarely(rng: Random, vocabulary: Vocabulary) -> str:
    return vocabulary.name(rng) if rng.random() < 0.3 else "plain"


def _tasks(rng: Random) -> RequestTaskIds:
    return RequestTaskIds(
        subtopology_id=rng.choice(("0", "1", "7")), partitions=[rng.choice((0, 1, -1, 2**31 - 1))]
    )
