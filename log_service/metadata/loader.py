"""Replays committed records of the metadata log and publishes the resulting images.

The loader publishes one image for each group of batches that it gets, whatever their number. It
reads no files, because the raft driver passes in batches and snapshots.

Invariants:

- Publishers get every image in order, synchronously, each with the delta that led to it.
- An image's offset is that of the last record it contains.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from log_service.common.features import DYNAMIC_QUORUM
from log_service.common.types import LeaderEpoch, NodeId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.errors import MetadataError
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.metadata.snapshot import snapshot_records
from log_service.protocol.stored.control_records import KRaftVersionRecord
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.batches import MetadataBatch
from log_service.raft.snapshots import Snapshot


class Publisher(Protocol):
    """A component that acts on metadata. It must not wait, as it is called on the event loop."""

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Handle the next image, and the changes since the previous one."""


class MetadataLoader:
    """Holds the newest published image."""

    def __init__(self) -> None:
        self.image = EMPTY_IMAGE
        self.last_timestamp_ms = 0
        self._publishers: list[Publisher] = []

    def add_publisher(self, publisher: Publisher) -> None:
        """Publish to ``publisher`` from now on.

        If there is an image already, the publisher gets it at once, with everything in it as
        changed.
        """
        self._publishers.append(publisher)
        if self.image is not EMPTY_IMAGE:
            publisher.on_image(MetadataDelta.between(EMPTY_IMAGE, self.image), self.image)

    def snapshot_records(self) -> Iterator[MetadataRecord] | None:
        """Return all metadata as records.

        Return None inside a metadata transaction, because a snapshot cannot hold half of one.
        """
        return None if self.image.open_transaction is not None else snapshot_records(self.image)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Replace all metadata by the content of a snapshot. Publishers get the differences.

        Raises:
            MetadataError: its records contradict each other.
        """
        delta = MetadataDelta(EMPTY_IMAGE)
        _replay(delta, snapshot.records, 0, f"snapshot {snapshot.id.file_name}, record")
        if snapshot.voters:
            delta.replay_kraft_version(DYNAMIC_QUORUM)
        self.last_timestamp_ms = snapshot.last_contained_timestamp_ms
        image = delta.build(offset=snapshot.id.end_offset - 1, epoch=snapshot.id.epoch)
        self.publish(
            delta if self.image is EMPTY_IMAGE else MetadataDelta.between(self.image, image), image
        )

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        """Replay committed batches in order, and publish the new image.

        Raises:
            MetadataError: the batches contradict those replayed before.
        """
        delta = MetadataDelta(self.image)
        for batch in batches:
            _replay(delta, batch.records, batch.base_offset, "metadata log, offset")
            for value in batch.control:
                if isinstance(value, KRaftVersionRecord):
                    delta.replay_kraft_version(value.kraft_version)
        self.last_timestamp_ms = batches[-1].timestamp_ms
        self.publish(delta, delta.build(offset=batches[-1].last_offset, epoch=batches[-1].epoch))

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Do nothing, because committed metadata is the same under every leader."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Replace the image, and pass it on to every publisher."""
        self.image = image
        for publisher in self._publishers:
            publisher.on_image(delta, image)


def _replay(
    delta: MetadataDelta, records: Sequence[MetadataRecord], first_number: int, where: str
) -> None:
    """Replay records that are numbered from ``first_number`` on.

    An error names ``where`` and the number of the record.
    """
    for number, record in enumerate(records, first_number):
        try:
            delta.replay(record)
        except MetadataError as error:
            kind = type(record).__name__
            raise MetadataError(
                f"{where} {number}, {kind}: {error}; restore the directory from a copy"
            ) from error
