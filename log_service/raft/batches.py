"""Convert records of the metadata log to batches and back.

This file decides which version of each record is written (the one of metadata.version 4.3-IV0), and
which records a reader of batches gets: an unknown control record is skipped, and an unknown
metadata record is an error. The caller passes in offsets and opens files.

Invariants: The caller writes the records of one controller decision as one batch, so that an
incomplete write never leaves half of a decision. A control record holds no metadata, but takes an
offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from log_service.common.errors import KafkaError, ProtocolError, StorageError
from log_service.common.types import Buffer, LeaderEpoch, NodeId
from log_service.protocol.codec import decode, encode
from log_service.protocol.stored.control_records import Endpoint as StoredEndpoint
from log_service.protocol.stored.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersVoter,
)
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from log_service.protocol.stored.serde import (
    decode_metadata_record,
    encode_metadata_record,
    highest_version,
)
from log_service.raft.voters import Voter, VoterChange, VoterEndpoint, VoterSet
from log_service.records.batch import (
    BatchHeader,
    batch_view,
    is_crc_valid,
    iterate_headers,
    iterate_records,
)
from log_service.records.builder import build_batch
from log_service.records.control import ControlType, build_control_batch, iterate_control_records
from log_service.records.record import Record

RECORD_VERSIONS: Mapping[type, int] = {
    RegisterBrokerRecord: 4,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
    BrokerRegistrationChangeRecord: 3,
}
"""The versions that metadata.version 4.3-IV0 writes. Every other record has version 0."""

ControlValue = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)
CONTROL_CLASSES: Mapping[ControlType, type[ControlValue]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBatch:
    """One batch of the metadata log.

    ``records`` is empty for a control batch, and ``control`` is empty for any other batch.
    ``last_offset`` is inclusive.
    """

    base_offset: int
    last_offset: int
    epoch: LeaderEpoch
    timestamp_ms: int
    size_bytes: int
    records: tuple[MetadataRecord, ...] = ()
    control: tuple[ControlValue, ...] = ()


def encode_records(
    records: Sequence[MetadataRecord], *, base_offset: int, epoch: int, timestamp_ms: int
) -> bytes:
    """Return one batch of at least one metadata record.

    Raises:
        ProtocolError: a record holds a value that its version cannot represent.
    """
    values = [
        encode_metadata_record(record, RECORD_VERSIONS.get(type(record), 0)) for record in records
    ]
    return build_batch(
        [(timestamp_ms, None, value) for value in values],
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def encode_control(
    values: Sequence[tuple[ControlType, ControlValue]],
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
) -> bytes:
    """Return one control batch of at least one control record."""
    encoded = [(control_type, encode(value, 0)) for control_type, value in values]
    return build_control_batch(
        encoded, base_offset=base_offset, leader_epoch=epoch, timestamp_ms=timestamp_ms
    )


def leader_change(
    node_id: NodeId, voter_ids: Sequence[NodeId], granting_ids: Sequence[NodeId]
) -> tuple[ControlType, ControlValue]:
    """Return the record that begins an epoch: its leader, its voters, and the granting voters."""
    known = [LeaderChangeMessageVoter(voter_id=voter_id) for voter_id in voter_ids]
    granting = [LeaderChangeMessageVoter(voter_id=voter_id) for voter_id in granting_ids]
    return ControlType.LEADER_CHANGE, LeaderChangeMessage(
        version=0, leader_id=node_id, voters=known, granting_voters=granting
    )


def kraft_version(level: int) -> tuple[ControlType, ControlValue]:
    """Return the record of kraft.version, which decides whether voters are records (KIP-853)."""
    return ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=level)


def voters_record(voters: Iterable[Voter]) -> tuple[ControlType, ControlValue]:
    """Return the control record that lists the voters."""
    listed = [
        VotersVoter(
            voter_id=voter.node_id,
            voter_directory_id=voter.directory_id,
            endpoints=[
                StoredEndpoint(name=each.name, host=each.host, port=each.port)
                for each in voter.endpoints
            ],
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=voter.min_kraft_version,
                max_supported_version=voter.max_kraft_version,
            ),
        )
        for voter in voters
    ]
    return ControlType.KRAFT_VOTERS, VotersRecord(version=0, voters=listed)


def voters_of(record: VotersRecord) -> tuple[Voter, ...]:
    """Return the voters that a record names."""
    return tuple(
        Voter(
            node_id=NodeId(voter.voter_id),
            directory_id=voter.voter_directory_id,
            endpoints=tuple(
                VoterEndpoint(each.name, each.host, each.port) for each in voter.endpoints
            ),
            min_kraft_version=voter.kraft_version_feature.min_supported_version,
            max_kraft_version=voter.kraft_version_feature.max_supported_version,
        )
        for voter in record.voters
    )


def voter_changes(batches: Iterable[MetadataBatch]) -> tuple[VoterChange, ...]:
    """Return the changes of voters in the control batches among ``batches``."""
    return tuple(change for batch in batches for change in _changes_in(batch))


def _changes_in(batch: MetadataBatch) -> Iterator[VoterChange]:
    for offset, value in enumerate(batch.control, batch.base_offset):
        if isinstance(value, KRaftVersionRecord):
            yield VoterChange(offset=offset, kraft_version=value.kraft_version)
        elif isinstance(value, VotersRecord):
            yield VoterChange(
                offset=offset,
                voters=VoterSet(tuple(sorted(voters_of(value), key=lambda voter: voter.node_id))),
            )


def decode_batches(buffer: Buffer, where: str) -> Iterator[MetadataBatch]:
    """Yield the batches in ``buffer``. ``where`` names the file in error texts.

    Raises:
        StorageError: bytes that are not batches, a wrong checksum, or a record of a newer version.
    """
    try:
        for position, header in iterate_headers(buffer):
            if not is_crc_valid(batch_view(buffer, position)):
                raise StorageError(
                    f"{where}: the checksum of the batch of base offset {header.base_offset} does"
                    " not hold; restore it"
                )
            yield _decode_batch(buffer, position, header)
    except (KafkaError, ProtocolError) as error:
        raise StorageError(
            f"{where}: {error}; restore it, or start it with the version that wrote it"
        ) from error


def _decode_batch(buffer: Buffer, position: int, header: BatchHeader) -> MetadataBatch:
    records: tuple[MetadataRecord, ...] = ()
    control: tuple[ControlValue, ...] = ()
    if header.is_control:
        control = tuple(_control_values(buffer, position))
    else:
        records = tuple(_decode_record(record) for record in iterate_records(buffer, position))
    return MetadataBatch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        epoch=LeaderEpoch(header.partition_leader_epoch),
        timestamp_ms=header.max_timestamp,
        size_bytes=header.size_bytes,
        records=records,
        control=control,
    )


def _decode_record(record: Record) -> MetadataRecord:
    """Decode a metadata record.

    An unknown record is not skipped, because the next snapshot would lack it, and the snapshot
    replaces the log.

    Raises:
        ProtocolError: the bytes are not a record, or have an unknown kind or version. The text
            names the offset.
    """
    try:
        return decode_metadata_record(record.value or b"")
    except ProtocolError as error:
        raise ProtocolError(f"offset {record.offset}: {error}") from error


def _control_values(buffer: Buffer, position: int) -> Iterator[ControlValue]:
    for record in iterate_control_records(buffer, position):
        cls = CONTROL_CLASSES.get(record.type) if record.type is not None else None
        if cls is not None:
            yield _decode_control(cls, record.value)


def _decode_control(cls: type[ControlValue], value: bytes) -> ControlValue:
    """Decode a control value. Its first field is its version.

    Newer versions may add fields, but do not change the known ones.
    """
    version = int.from_bytes(value[:2], "big")
    decoded, _ = decode(cls, min(version, highest_version(cls)), value)
    return decoded
