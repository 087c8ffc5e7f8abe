"""Committed batches in, images out; snapshots and restarts lead to equal images."""

from hypothesis import given
from hypothesis import strategies as st

from log_service.common.types import LeaderEpoch
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.metadata.loader import MetadataLoader
from log_service.metadata.snapshot import snapshot_records
from log_service.protocol.stored.control_records import KRaftVersionRecord
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
)
from log_service.raft.batches import MetadataBatch, Voter
from log_service.raft.snapshots import Snapshot, SnapshotId
from tests.unit.metadata.records import DIRECTORY, broker, image_of, topic, topic_id


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


def test_an_aborted_metadata_transaction_never_happened() -> None:
    loader = MetadataLoader()
    loader.on_batches([batch(0, BeginTransactionRecord(), *topic("orders", 1), AbortTransactionRecord(), *topic("planes", 2))])
    assert list(loader.image.topics.by_name) == ["planes"]


def test_a_snapshot_begins_anew() -> None:
    loader = MetadataLoader()
    voter = Voter(node_id=1, directory_id=DIRECTORY, listener_name="C", host="h", port=1)  # type: ignore[arg-type]
    records = tuple(snapshot_records(image_of(broker(), *topic("orders", 1))))
    loader.on_snapshot(Snapshot(SnapshotId(40, 3), records, (voter,), 77))
    assert (loader.image.offset, loader.image.epoch, loader.last_timestamp_ms) == (39, 3, 77)
    assert list(loader.image.topics.by_name) == ["orders"]
    assert loader.image.features["kraft.version"] == 1


RECORDS = st.lists(
    st.one_of(
        st.builds(lambda number, count: topic(f"topic{number}", number, count), st.integers(0, 6), st.integers(1, 3)),
        st.builds(lambda number: [RemoveTopicRecord(topic_id=topic_id(number))], st.integers(0, 6)),
        st.builds(
            lambda number, leader: [PartitionChangeRecord(topic_id=topic_id(number), partition_id=0, leader=leader)],
            st.integers(0, 6),
            st.sampled_from([-1, 1]),
        ),
        st.builds(
            lambda number, value: [ConfigRecord(resource_type=2, resource_name=f"topic{number}", name="retention.ms", value=value)],
            st.integers(0, 6),
            st.sampled_from([None, "1", "2"]),
        ),
        st.builds(lambda epoch: [broker(1, epoch=epoch)], st.integers(1, 9)),
        st.builds(lambda block: [ProducerIdsRecord(next_producer_id=block * 1000)], st.integers(1, 9)),
        st.builds(lambda level: [FeatureLevelRecord(name="metadata.version", feature_level=level)], st.integers(29, 30)),
    ),
    max_size=30,
)


def possible(groups: list[list[MetadataRecord]]) -> list[list[MetadataRecord]]:
    """Drop what a controller would never write: changes of topics that are not there, names that are."""
    kept, there = [], set()
    for records in groups:
        first = records[0]
        match first:
            case RemoveTopicRecord() | PartitionChangeRecord():
                if first.topic_id not in there:
                    continue
                if isinstance(first, RemoveTopicRecord):
                    there.discard(first.topic_id)
            case ConfigRecord():
                pass
            case _ if hasattr(first, "topic_id"):
                if first.topic_id in there:
                    continue
                there.add(first.topic_id)
        kept.append(records)
    return kept


def without_position(image: MetadataImage) -> tuple[object, ...]:
    return image.cluster, image.topics, image.configs, image.features, image.next_producer_id


@given(RECORDS, st.integers(1, 5))
def test_however_the_log_is_cut_into_groups_the_image_is_the_same_and_its_snapshot_gives_it_back(
    groups: list[list[MetadataRecord]], group_size: int
) -> None:
    batches = [batch(offset, *records) for offset, records in enumerate(possible(groups))]
    whole, in_pieces = MetadataLoader(), MetadataLoader()
    if batches:
        whole.on_batches(batches)
    for start in range(0, len(batches), group_size):
        in_pieces.on_batches(batches[start : start + group_size])
    assert without_position(whole.image) == without_position(in_pieces.image)
    again = image_of(*snapshot_records(whole.image), base=EMPTY_IMAGE)
    assert without_position(again) == without_position(whole.image)
