"""Reads the positions of a log's batches, up to the offsets that a share group may have.

Decides which batches one attempt to acquire looks at, and which of their bytes go to the member.
These are whole batches, from the first to the last with an acquired record. Only batch headers are
read. Records go from the file to the socket.
"""

from log_service.common.env import FileSlice
from log_service.coordinator.share.aborted import aborted_ranges
from log_service.coordinator.share.acquiring import FetchedRecords
from log_service.records.batch import BatchHeader
from log_service.replication.partition import Partition
from log_service.replication.partition_state import Isolation
from log_service.storage.log_reader import LogSlice
from log_service.storage.segment import Segment

ANY_EPOCH = -1
Offsets = tuple[int, int]
Place = tuple[int, BatchHeader]
"""The position of a batch in its segment's file, and its header."""


class ReadBatches:
    """Batches that were read, leased until ``take`` or ``release``."""

    __slots__ = ("_places", "_segment", "_slice", "fetched")

    def __init__(
        self, segment: Segment, file_slice: FileSlice, places: list[Place], fetched: FetchedRecords
    ) -> None:
        self._segment = segment
        self._slice = file_slice
        self._places = places
        self.fetched = fetched

    def take(self, first_offset: int, last_offset: int) -> FileSlice:
        """Return a slice of the whole batches that hold the given offsets. Release the rest."""
        wanted = [
            place
            for place in self._places
            if place[1].last_offset >= first_offset and place[1].base_offset <= last_offset
        ]
        position = wanted[0][0]
        size_bytes = wanted[-1][0] + wanted[-1][1].size_bytes - position
        if position == self._places[0][0] and size_bytes == len(self._slice):
            return self._slice
        try:
            return self._segment.slice(position, size_bytes)
        finally:
            self.release()

    def release(self) -> None:
        """Release the lease on the batches."""
        self._slice.release()


def read_batches(
    partition: Partition,
    fetch_offset: int,
    *,
    isolation: Isolation,
    max_bytes: int,
    until_offset: int,
    is_one_batch_guaranteed: bool,
) -> ReadBatches | None:
    """Return whole batches, from the one with ``fetch_offset`` to the one with ``until_offset``.

    Return None if there are none.

    Raises:
        KafkaError: as ``Partition.read``.
    """
    found = partition.read(
        fetch_offset,
        isolation=isolation,
        max_bytes=max_bytes,
        current_leader_epoch=ANY_EPOCH,
        is_one_batch_guaranteed=is_one_batch_guaranteed,
    )
    if found is None or found.file_slice is None:
        return None
    try:
        places = _places(partition, found, until_offset)
        if not places:
            found.file_slice.release()
            return None
        aborted = (
            _aborted(partition, found, fetch_offset, places)
            if isolation is Isolation.READ_COMMITTED
            else ()
        )
    except OSError as error:
        found.file_slice.release()
        raise partition.served_log().home.note_error(error) from error
    except BaseException:
        found.file_slice.release()
        raise
    batches = [(header.base_offset, header.last_offset) for _, header in places]
    fetched = FetchedRecords(fetch_offset=fetch_offset, batches=batches, aborted=aborted)
    return ReadBatches(_segment_of(partition, found), found.file_slice, places, fetched)


def _segment_of(partition: Partition, found: LogSlice) -> Segment:
    return next(partition.served_log().segments.from_offset(found.segment_base_offset))


def _places(partition: Partition, found: LogSlice, until_offset: int) -> list[Place]:
    """Return positions and headers of whole batches, up to the one with ``until_offset``."""
    end = found.position + found.size_bytes
    places: list[Place] = []
    for position, header in _segment_of(partition, found).headers(found.position):
        if position + header.size_bytes > end:
            break
        places.append((position, header))
        if header.last_offset >= until_offset:
            break
    return places


def _aborted(
    partition: Partition, found: LogSlice, fetch_offset: int, places: list[Place]
) -> list[Offsets]:
    transactions = [
        (first_offset, producer_id)
        for producer_id, first_offset in partition.aborted_in(fetch_offset, found)
    ]
    return aborted_ranges([header for _, header in places], transactions) if transactions else []
