"""The log's records of streams groups equal those of Apache Kafka 4.3.1, byte for byte.

Any values come back. ``streams_written_by_kafka.json`` holds keys and values, as hexadecimal
digits, of three groups on a node of Kafka 4.3.1: one with standby tasks, one that counts through a
repartition topic, and one whose first member said everything that it can say.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.coordinator.group.records.codec import decode, encode
from log_service.coordinator.group.records.streams import (
    STREAMS_GROUP_RECORDS,
    StreamsAssignmentRecord,
    StreamsEpoch,
    StreamsEpochRecord,
    StreamsGroupRecord,
    StreamsMemberRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    TopologyRecord,
)
from log_service.coordinator.group.streams.group import (
    StreamsGroup,
    StreamsGroupState,
    streams_tombstones,
)
from log_service.coordinator.group.values.epochs import TargetEpoch
from log_service.coordinator.group.values.streams_tasks import (
    HeldTasks,
    StreamsMetadata,
    TaskAssignment,
    Tasks,
    TaskState,
)
from log_service.coordinator.group.values.streams_topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
)
from log_service.protocol.stored.serde import encode_versioned
from log_service.protocol.stored.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
)

Pairs = list[tuple[bytes, bytes | None]]

WRITTEN: dict[str, Pairs] = {
    group: [
        (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
        for key, value in pairs
    ]
    for group, pairs in json.loads(
        (Path(__file__).parent / "streams_written_by_kafka.json").read_text()
    ).items()
}
KINDS = {17, 19, 20, 21, 22, 23}


def of_streams(key: bytes, value: bytes | None) -> StreamsGroupRecord:
    record = decode(key, value)
    assert isinstance(record, STREAMS_GROUP_RECORDS)
    return record


@pytest.mark.parametrize("group", WRITTEN)
def test_what_kafka_wrote_is_written_again_byte_for_byte(group: str) -> None:
    pairs = [(key, value) for key, value in WRITTEN[group] if int.from_bytes(key[:2]) in KINDS]
    assert {int.from_bytes(key[:2]) for key, _ in pairs} == KINDS
    assert [encode(of_streams(key, value)) for key, value in pairs] == pairs


def test_a_group_that_kafka_wrote_is_taken_over() -> None:
    group = StreamsGroup("rich")
    for key, value in WRITTEN["rich"]:
        group.replay(of_streams(key, value))
    assert sorted(group.members) == ["a", "b"]
    metadata = group.members["a"].metadata
    assert (metadata.rack_id, metadata.endpoint) == ("rack-1", ("one.example", 8080))
    assert metadata.client_tags == (("c", "2"), ("z", "1"))
    assert group.state is StreamsGroupState.RECONCILING
    assert group.members["a"].current.state is TaskState.UNREVOKED_TASKS
    assert group.readers == {"orders": "0"}
    assert group.epoch.assignment_configs == {"num.standby.replicas": "0"}


def test_a_group_is_taken_back_as_a_whole() -> None:
    group = StreamsGroup("rich")
    for key, value in WRITTEN["rich"]:
        group.replay(of_streams(key, value))
    assert [int.from_bytes(encode(record)[0][:2]) for record in streams_tombstones(group)] == [
        22,
        22,
        21,
        21,
        20,
        19,
        19,
        17,
        23,
    ]


def test_an_older_record_without_epochs_has_its_members() -> None:
    """Kafka 4.1 wrote no epochs of active tasks: each counts as assigned in the epoch of its
    member.
    """
    key, _ = encode(StreamsAssignmentRecord(group_id="g", member_id="m", content=None))
    for epochs in ([], [3], None):
        tasks = StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id="0", partitions=[1, 2], assignment_epochs=epochs
        )
        value = encode_versioned(
            StreamsGroupCurrentMemberAssignmentValue(member_epoch=7, state=1, active_tasks=[tasks]),
            0,
        )
        record = of_streams(key, value)
        assert isinstance(record.content, TaskAssignment)
        assert record.content.assigned.active == {"0": {1: 7, 2: 7}}


def test_a_state_of_newer_software_is_told_apart() -> None:
    key, _ = encode(StreamsAssignmentRecord(group_id="g", member_id="m", content=None))
    record = of_streams(
        key, encode_versioned(StreamsGroupCurrentMemberAssignmentValue(state=99), 0)
    )
    assert isinstance(record.content, TaskAssignment)
    assert record.content.state is TaskState.UNKNOWN


names = st.text(st.characters(codec="utf-8"), max_size=8)
numbers = st.integers(0, 2**31 - 1)
task_sets = st.dictionaries(names, st.frozensets(st.integers(0, 50), min_size=1), max_size=3)
active_tasks = st.dictionaries(
    names, st.dictionaries(st.integers(0, 50), numbers, min_size=1), max_size=3
)
held_tasks = st.builds(HeldTasks, active=active_tasks, standby=task_sets, warmup=task_sets)
pairs_of_names = st.dictionaries(names, names, max_size=3).map(
    lambda found: tuple(sorted(found.items()))
)
internal_topics = st.lists(
    st.builds(
        InternalTopic,
        name=names,
        partitions=numbers,
        replication_factor=st.integers(0, 9),
        configs=pairs_of_names,
    ),
    max_size=2,
).map(tuple)
places = st.lists(st.integers(0, 9), max_size=3).map(tuple)
subtopologies = st.builds(
    Subtopology,
    subtopology_id=names,
    source_topics=st.lists(names, max_size=2).map(tuple),
    source_topic_regex=st.lists(names, max_size=2).map(tuple),
    state_changelog_topics=internal_topics,
    repartition_sink_topics=st.lists(names, max_size=2).map(tuple),
    repartition_source_topics=internal_topics,
    copartition_groups=st.lists(
        st.builds(
            CopartitionGroup,
            source_topics=places,
            source_topic_regex=places,
            repartition_source_topics=places,
        ),
        max_size=2,
    ).map(tuple),
)
metadata = st.builds(
    StreamsMetadata,
    instance_id=st.none() | names,
    rack_id=st.none() | names,
    client_id=names,
    client_host=names,
    rebalance_timeout_ms=numbers,
    topology_epoch=numbers,
    process_id=names,
    endpoint=st.none() | st.tuples(names, st.integers(0, 65_535)),
    client_tags=pairs_of_names,
)
epochs = st.builds(
    StreamsEpoch,
    epoch=numbers,
    metadata_hash=st.integers(-(2**63), 2**63 - 1),
    validated_topology_epoch=st.integers(-1, 9),
    assignment_configs=st.dictionaries(names, names, max_size=2),
)
assignments = st.builds(
    TaskAssignment,
    epoch=numbers,
    previous_epoch=numbers,
    state=st.sampled_from(TaskState),
    assigned=held_tasks,
    pending_revocation=held_tasks,
)
records = st.one_of(
    st.builds(StreamsEpochRecord, group_id=names, content=st.none() | epochs),
    st.builds(StreamsMemberRecord, group_id=names, member_id=names, content=st.none() | metadata),
    st.builds(
        StreamsTargetEpochRecord,
        group_id=names,
        content=st.none() | st.builds(TargetEpoch, epoch=numbers, computed_ms=numbers),
    ),
    st.builds(
        StreamsTargetRecord,
        group_id=names,
        member_id=names,
        content=st.none() | st.builds(Tasks, active=task_sets, standby=task_sets, warmup=task_sets),
    ),
    st.builds(
        StreamsAssignmentRecord, group_id=names, member_id=names, content=st.none() | assignments
    ),
    st.builds(
        TopologyRecord,
        group_id=names,
        content=st.none()
        | st.builds(
            Topology, epoch=numbers, subtopologies=st.lists(subtopologies, max_size=2).map(tuple)
        ),
    ),
)


@settings(max_examples=150, deadline=None)
@given(record=records)
def test_any_record_comes_back(record: StreamsGroupRecord) -> None:
    assert decode(*encode(record)) == record
