"""Committed batches in, images out; snapshots and restarts lead to equal images."""

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from log_service.common.types import LeaderEpoch
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.metadata.loader import MetadataLoader
from log_service.metadata.snapshot import snapshot_records
from log_service.protocol.stored.control_records import KRaftVersionRecord
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
)
from log_service.raft.batches import MetadataBatch
from log_service.raft.log_view import SnapshotId
from log_service.raft.snapshots import Snapshot
from log_service.raft.voters import Voter, VoterEndpoint
from tests.unit.metadata.records import (
    DIRECTORY,
    acl,
    broker,
    credential,
    image_of,
    quota,
    token,
    topic,
    topic_id,
)


class Recorder:
    """A publisher that keeps what it was told."""

    def __init__(self) -> None:
        self.images: list[MetadataImage] = []
        self.deltas: list[MetadataDelta] = []

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.deltas.append(delta)
        self.images.append(image)


def batch(base_offset: int, *records: MetadataRecord) -> MetadataBatch:
    return MetadataBatch(
        base_offset=base_offset,
        last_offset=base_offset + len(records) - 1,
        epoch=LeaderEpoch(1),
        timestamp_ms=1000 + base_offset,
        size_bytes=100,
        records=records,
    )


def control(base_offset: int) -> MetadataBatch:
    return MetadataBatch(
        base_offset=base_offset,
        last_offset=base_offset,
        epoch=LeaderEpoch(1),
        timestamp_ms=1000,
        size_bytes=70,
        control=(KRaftVersionRecord(kraft_version=1),),
    )


def test_a_group_of_batches_is_published_once() -> None:
    loader, recorder = MetadataLoader(), Recorder()
    loader.add_publisher(recorder)
    loader.on_batches([batch(0, *topic("orders", 1)), batch(2, *topic("planes", 2))])
    (image,) = recorder.images
    assert sorted(image.topics.by_name) == ["orders", "planes"]
    assert image.offset == 3
    assert loader.last_timestamp_ms == 1002
    assert sorted(recorder.deltas[0].changed_topics) == [topic_id(1), topic_id(2)]


def test_control_batches_move_the_offset_and_tell_the_kraft_version() -> None:
    loader = MetadataLoader()
    loader.on_batches([control(0)])
    assert (loader.image.offset, dict(loader.image.features)) == (0, {"kraft.version": 1})


def test_a_publisher_that_comes_late_gets_all_there_is() -> None:
    loader, recorder = MetadataLoader(), Recorder()
    loader.on_batches([batch(0, broker(), *topic("orders", 1))])
    loader.add_publisher(recorder)
    assert recorder.images == [loader.image]
    assert recorder.deltas[0].changed_topics[topic_id(1)].is_new


def test_a_publisher_that_comes_first_is_told_nothing_yet() -> None:
    recorder = Recorder()
    MetadataLoader().add_publisher(recorder)
    assert recorder.images == []


def test_a_metadata_transaction_counts_once_it_has_ended() -> None:
    loader = MetadataLoader()
    loader.on_batches([batch(0, BeginTransactionRecord(), *topic("orders", 1))])
    assert loader.image.topics.by_name == {}
    loader.on_batches([batch(3, *topic("planes", 2), EndTransactionRecord())])
    assert sorted(loader.image.topics.by_name) == ["orders", "planes"]


def test_there_is_no_snapshot_inside_a_metadata_transaction() -> None:
    loader = MetadataLoader()
    loader.on_batches([batch(0, *topic("orders", 1), BeginTransactionRecord())])
    assert loader.snapshot_records() is None
    loader.on_batches([batch(3, EndTransactionRecord())])
    records = loader.snapshot_records()
    assert records is not None
    assert list(records) == topic("orders", 1)


def test_an_aborted_metadata_transaction_never_happened() -> None:
    loader = MetadataLoader()
    loader.on_batches(
        [
            batch(
                0,
                BeginTransactionRecord(),
                *topic("orders", 1),
                AbortTransactionRecord(),
                *topic("planes", 2),
            )
        ]
    )
    assert list(loader.image.topics.by_name) == ["planes"]


def test_a_snapshot_begins_anew() -> None:
    loader = MetadataLoader()
    voter = Voter(node_id=1, directory_id=DIRECTORY, endpoints=(VoterEndpoint("C", "h", 1),))  # type: ignore[arg-type]
    records = tuple(snapshot_records(image_of(broker(), *topic("orders", 1))))
    loader.on_snapshot(Snapshot(SnapshotId(40, 3), records, (voter,), 77))
    assert (loader.image.offset, loader.image.epoch, loader.last_timestamp_ms) == (39, 3, 77)
    assert list(loader.image.topics.by_name) == ["orders"]
    assert loader.image.features["kraft.version"] == 1


NUMBERS = st.integers(0, 6)
CHANGES = st.one_of(
    st.builds(
        lambda number, count: topic(f"topic{number}", number, count), NUMBERS, st.integers(1, 3)
    ),
    st.builds(lambda number: [RemoveTopicRecord(topic_id=topic_id(number))], NUMBERS),
    st.builds(
        lambda number, leader, eligible: [
            PartitionChangeRecord(
                topic_id=topic_id(number),
                partition_id=0,
                leader=leader,
                eligible_leader_replicas=eligible,
            )
        ],
        NUMBERS,
        st.sampled_from([-2, -1, 1]),
        st.sampled_from([None, [], [2, 3]]),
    ),
    st.just([ClearElrRecord()]),
    st.builds(
        lambda kind, number, value: [
            ConfigRecord(
                resource_type=kind, resource_name=f"topic{number}", name="retention.ms", value=value
            )
        ],
        st.sampled_from(list(ResourceType)),
        NUMBERS,
        st.sampled_from([None, "1", "2"]),
    ),
    st.builds(
        lambda node_id, epoch: [broker(node_id, epoch=epoch)], st.integers(1, 3), st.integers(1, 9)
    ),
    st.builds(lambda node_id: [RegisterControllerRecord(controller_id=node_id)], NUMBERS),
    st.builds(lambda block: [ProducerIdsRecord(next_producer_id=block * 1000)], st.integers(1, 9)),
    st.builds(
        lambda name, level: [FeatureLevelRecord(name=name, feature_level=level)],
        st.sampled_from(["metadata.version", "a.version", "z.version"]),
        st.integers(0, 3),
    ),
    st.builds(lambda number: [acl(number)], NUMBERS),
    st.builds(lambda number: [RemoveAccessControlEntryRecord(id=UUID(int=number))], NUMBERS),
    st.builds(
        lambda user, mechanism: [credential(user, mechanism)],
        st.sampled_from("abc"),
        st.integers(1, 2),
    ),
    st.builds(
        lambda user, mechanism: [RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)],
        st.sampled_from("abc"),
        st.integers(1, 2),
    ),
    st.builds(
        lambda token_id, expiration: [token(token_id, expiration)], st.sampled_from("abc"), NUMBERS
    ),
    st.builds(
        lambda token_id: [RemoveDelegationTokenRecord(token_id=token_id)], st.sampled_from("abc")
    ),
    st.builds(
        lambda value, key, user: [quota(value, key, user=user)],
        st.sampled_from([None, 1.0, 2.0]),
        st.sampled_from(["producer_byte_rate", "request_percentage"]),
        st.sampled_from([None, "", "alice"]),
    ),
    st.builds(lambda: [NoOpRecord()]),
)
END = st.sampled_from([EndTransactionRecord(), AbortTransactionRecord()])
TRANSACTIONS = st.builds(
    lambda groups, end: [[BeginTransactionRecord()], *possible(groups), [end]],
    st.lists(CHANGES, max_size=3),
    END,
)
RECORDS = st.lists(
    st.one_of(CHANGES.map(lambda records: [records]), TRANSACTIONS), max_size=30
).map(lambda drawn: possible([records for groups in drawn for records in groups]))


class There:
    """The topics and ACLs that exist while records are looked at.

    Those from before a metadata transaction are kept, too.
    """

    def __init__(self) -> None:
        self.keys: set[object] = set()
        self.before: set[object] | None = None

    def allows(self, record: MetadataRecord) -> bool:
        """Whether a controller would write the record now; if so, count it."""
        match record:
            case BeginTransactionRecord():
                self.before = set(self.keys)
            case AbortTransactionRecord():
                self.keys = self.before or set()
            case TopicRecord(topic_id=key) if key in self.keys:
                return False
            case TopicRecord(topic_id=key) | AccessControlEntryRecord(id=key):
                self.keys.add(key)
            case PartitionChangeRecord(topic_id=key):
                return key in self.keys
            case RemoveTopicRecord(topic_id=key) | RemoveAccessControlEntryRecord(id=key):
                if key not in self.keys:
                    return False
                self.keys.discard(key)
        return True


def possible(groups: list[list[MetadataRecord]]) -> list[list[MetadataRecord]]:
    """Drop records that a controller would never write.

    They change topics and ACLs that are not there, or make a topic whose name is.
    """
    there = There()
    return [records for records in groups if there.allows(records[0])]


def without_position(image: MetadataImage) -> MetadataImage:
    return replace(image, offset=0, epoch=LeaderEpoch(0))


def loaded(batches: list[MetadataBatch], loader: MetadataLoader | None = None) -> MetadataLoader:
    loader = loader or MetadataLoader()
    if batches:
        loader.on_batches(batches)
    return loader


@given(RECORDS, st.integers(1, 5))
def test_however_the_log_is_cut_into_groups_the_image_is_the_same(
    groups: list[list[MetadataRecord]], group_size: int
) -> None:
    batches = [batch(offset, *records) for offset, records in enumerate(groups)]
    whole, in_pieces = loaded(batches), MetadataLoader()
    for start in range(0, len(batches), group_size):
        in_pieces.on_batches(batches[start : start + group_size])
    assert whole.image == in_pieces.image
    assert repr(whole.image) == repr(in_pieces.image)
    assert [*whole.image.topics.by_id] == [*in_pieces.image.topics.by_id]


@given(RECORDS, st.data())
def test_a_snapshot_at_any_offset_and_the_rest_of_the_log_lead_to_the_same_image(
    groups: list[list[MetadataRecord]], data: st.DataObject
) -> None:
    batches = [batch(offset, *records) for offset, records in enumerate(groups)]
    cut = data.draw(st.integers(0, len(batches)))
    while loaded(batches[:cut]).image.open_transaction is not None:
        cut += 1
    recorder, restarted = Recorder(), MetadataLoader()
    restarted.add_publisher(recorder)
    restarted.on_snapshot(
        Snapshot(SnapshotId(cut, 1), tuple(snapshot_records(loaded(batches[:cut]).image)), (), 0)
    )
    loaded(batches[cut:], restarted)
    assert without_position(restarted.image) == without_position(loaded(batches).image)
    assert list(snapshot_records(restarted.image)) == list(snapshot_records(loaded(batches).image))
    for delta, image in zip(recorder.deltas, recorder.images, strict=True):
        check_that_a_delta_names_all(delta, image)


def check_that_a_delta_names_all(delta: MetadataDelta, image: MetadataImage) -> None:
    expected = MetadataDelta.between(delta.base, image)
    assert expected.changed_topics.keys() <= delta.changed_topics.keys()
    assert expected.deleted_topics == delta.deleted_topics
    assert expected.changed_configs.keys() <= delta.changed_configs.keys()
    assert expected.changed_acls.keys() <= delta.changed_acls.keys()
    assert expected.changed_scram_credentials.keys() <= delta.changed_scram_credentials.keys()
    assert expected.changed_delegation_tokens.keys() <= delta.changed_delegation_tokens.keys()
    assert expected.changed_client_quotas.keys() <= delta.changed_client_quotas.keys()


def test_a_snapshot_that_comes_later_names_what_it_changes() -> None:
    loader, recorder = MetadataLoader(), Recorder()
    loader.on_batches([batch(0, *topic("orders", 1), *topic("gone", 2))])
    loader.add_publisher(recorder)
    records = tuple(snapshot_records(image_of(*topic("orders", 1), *topic("planes", 3))))
    loader.on_snapshot(Snapshot(SnapshotId(40, 3), records, (), 77))
    delta = recorder.deltas[-1]
    assert list(delta.changed_topics) == [topic_id(3)]
    assert list(delta.deleted_topics) == [topic_id(2)]
