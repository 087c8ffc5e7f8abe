"""Replays what the metadata log committed and publishes the images that follow.

Decides when an image is published: once for each group of batches that is handed in, whatever their number; records between a begin and an
end of a metadata transaction (KIP-868) count only once the end is there. Knows nothing of files: batches come from the raft driver.

Invariants: publishers see every image in order, each with the delta that led to it, synchronously; an image's offset is that of the last
record it contains.
"""

from collections.abc import Sequence
from typing import Protocol

from log_service.common.types import LeaderEpoch, NodeId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import KRAFT_VERSION as KRAFT_VERSION_FEATURE
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.protocol.stored.control_records import KRaftVersionRecord
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)
from log_service.raft.batches import KRAFT_VERSION, MetadataBatch
from log_service.raft.snapshots import Snapshot


class Publisher(Protocol):
    """Whoever acts on metadata: called on the event loop, must not wait."""

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take the next image and the changes since the one before."""


class MetadataLoader:
    """Holds the newest published image."""

    def __init__(self) -> None:
        self.image = EMPTY_IMAGE
        self.last_timestamp_ms = 0
        self._publishers: list[Publisher] = []
        self._transaction: list[MetadataRecord] | None = None

    def add_publisher(self, publisher: Publisher) -> None:
        """Publish to ``publisher`` from now on; one that comes late gets the present image first, as a delta from nothing."""
        self._publishers.append(publisher)
        if self.image is not EMPTY_IMAGE:
            publisher.on_image(MetadataDelta.from_nothing(self.image), self.image)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Begin with a snapshot."""
        delta = MetadataDelta(EMPTY_IMAGE)
        for record in snapshot.records:
            delta.replay(record)
        if snapshot.voters:
            delta.replay(_kraft_feature(KRAFT_VERSION))
        self.last_timestamp_ms = snapshot.last_contained_timestamp_ms
        self._publish(delta, snapshot.id.end_offset - 1, snapshot.id.epoch)

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        """Take committed batches, in order.

        Raises:
            MetadataError: they contradict what was replayed before.
        """
        delta = MetadataDelta(self.image)
        for batch in batches:
            for record in batch.records:
                self._replay(delta, record)
            for value in batch.control:
                if isinstance(value, KRaftVersionRecord):
                    delta.replay(_kraft_feature(value.kraft_version))
        self.last_timestamp_ms = batches[-1].timestamp_ms
        self._publish(delta, batches[-1].last_offset, batches[-1].epoch)

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Change nothing: committed metadata is the same under every leader."""

    def _replay(self, delta: MetadataDelta, record: MetadataRecord) -> None:
        match record:
            case BeginTransactionRecord():
                self._transaction = []
            case AbortTransactionRecord():
                self._transaction = None
            case EndTransactionRecord():
                for held in self._transaction or ():
                    delta.replay(held)
                self._transaction = None
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                delta.replay(record)

    def _publish(self, delta: MetadataDelta, offset: int, epoch: int) -> None:
        self.image = delta.build(offset=offset, epoch=epoch)
        for publisher in self._publishers:
            publisher.on_image(delta, self.image)


def _kraft_feature(level: int) -> FeatureLevelRecord:
    """The KRaft version is a control record in the log; the image shows it among the features, as clients are told."""
    return FeatureLevelRecord(name=KRAFT_VERSION_FEATURE, feature_level=level)
