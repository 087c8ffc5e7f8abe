"""A fetch of one member of a share group: acquires records now, or waits for enough of them.

The wait ends in three cases. ``min_bytes`` can be read from the group's next offsets in its
partitions, a partition cannot be read, or this node no longer leads one. A partition at its limit
of records in flight gives nothing, and the fetch waits for an acknowledgement. At its deadline the
fetch takes the available records. With each fetch another partition is read first, because the
first may use up the limits.

Reading and acquiring is one uninterrupted step, so no lock has to keep two members from the same
records. Only acquired records are read. A fetch acquires nothing once its connection or its session
has gone, or its client has to pause. Otherwise records would be locked for a member that never
receives them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from log_service.broker.requests.call import Deferred
from log_service.broker.share.led_share_partition import LedSharePartition
from log_service.broker.share.log_reads import ReadBatches, read_batches
from log_service.common.env import FileSlice
from log_service.common.errors import ErrorCode, KafkaError, kept
from log_service.coordinator.share.acquiring import AcquiredRange, AcquireRequest
from log_service.coordinator.share.record_states import AcquireMode
from log_service.coordinator.share.share_state import ShareKey
from log_service.coordinator.share.window import WindowState
from log_service.replication.partition_state import Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The limits of a fetch. Those on bytes and records are for all its partitions together."""

    member_id: str
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode
    isolation: Isolation


@dataclass(slots=True)
class Fetched:
    """The result of one partition: acquired records, or an error, or neither."""

    led: LedSharePartition
    error: KafkaError | None = None
    records: FileSlice | None = None
    acquired: Sequence[AcquiredRange] = ()
    undo: WindowState | None = None

    def release(self) -> None:
        """Release the lease on the records without sending them.

        They stay acquired until their member is gone or their lock expires.
        """
        if self.records is not None:
            self.records.release()

    def give_back(self) -> None:
        """Release the records and undo their acquisition.

        Nothing else may have happened to the share partition since.
        """
        self.release()
        if self.undo is not None:
            self.led.undo_acquisition(self.undo)


def acquirable(all_led: Iterable[LedSharePartition]) -> list[tuple[LedSharePartition, int]]:
    """Return the partitions from which records can be acquired, with the offsets to read from."""
    found = ((led, led.next_fetch_offset) for led in all_led)
    return [(led, offset) for led, offset in found if offset is not None]


def has_enough(all_led: Sequence[LedSharePartition], wanted: Wanted) -> bool:
    """Return whether a fetch need not wait, because it has enough bytes or a partition was lost."""
    if any(led.is_lost and led.core is not None for led in all_led):
        return True
    candidates = acquirable(all_led)
    if not candidates:
        return False
    left = wanted.min_bytes
    for led, offset in candidates:
        readable = _readable_bytes(
            led, offset, wanted.isolation, wanted.max_bytes // len(candidates)
        )
        if readable is None:
            return True
        left -= readable
    return left <= 0


def _readable_bytes(
    led: LedSharePartition, offset: int, isolation: Isolation, most: int
) -> int | None:
    """Return how many bytes can be read from an offset, at most ``most``.

    Return None if the fetch need not wait, because the partition cannot be read or the offset is in
    an older segment.
    """
    partition = led.partition
    end_offset = partition.state.read_limit(isolation)
    if partition.is_offline or not partition.is_leader or offset < partition.log_start_offset:
        return None
    if offset >= end_offset:
        return 0
    place = partition.place_of(offset)
    readable = None if place is None else partition.readable_bytes(place, end_offset)
    return None if readable is None else min(readable, most)


def fetch_all(
    all_led: Sequence[LedSharePartition], wanted: Wanted, *, can_undo: bool
) -> list[Fetched]:
    """Read and acquire the available records.

    With ``can_undo`` the state for ``Fetched.give_back`` is kept.
    """
    results = [Fetched(led, error=led.error) for led in all_led if led.error is not None]
    candidates = acquirable(all_led)
    record_count, left_bytes = wanted.max_records, wanted.max_bytes
    is_first = True
    for led, offset in candidates:
        if record_count <= 0 or left_bytes <= 0:
            break
        max_bytes = min(wanted.max_bytes // len(candidates), left_bytes)
        began_ns = led.now_ns()
        fetched = _fetch_one(
            led, offset, wanted, record_count, max_bytes, is_first=is_first, can_undo=can_undo
        )
        led.fetch_times.note(began_ns, led.now_ns())
        results.append(fetched)
        if fetched.records is not None:
            is_first = False
            left_bytes -= len(fetched.records)
            record_count -= sum(each.count for each in fetched.acquired)
    return results


def _fetch_one(
    led: LedSharePartition,
    offset: int,
    wanted: Wanted,
    record_count: int,
    max_bytes: int,
    *,
    is_first: bool,
    can_undo: bool,
) -> Fetched:
    try:
        batches = read_batches(
            led.partition,
            offset,
            isolation=wanted.isolation,
            max_bytes=max_bytes,
            until_offset=max(led.end_offset, offset) + record_count - 1,
            is_one_batch_guaranteed=is_first,
        )
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return Fetched(led, error=kept(error))
        # Retention was faster than the group. The next fetch begins after it.
        led.follow_log_start()
        return Fetched(led)
    return (
        Fetched(led)
        if batches is None
        else _acquire(led, batches, wanted, record_count, can_undo=can_undo)
    )


def _acquire(
    led: LedSharePartition,
    batches: ReadBatches,
    wanted: Wanted,
    record_count: int,
    *,
    can_undo: bool,
) -> Fetched:
    request = AcquireRequest(
        member_id=wanted.member_id,
        max_records=record_count,
        batch_size=max(1, wanted.batch_size),
        mode=wanted.mode,
    )
    undo = led.state() if can_undo else None
    try:
        acquired = led.acquire(request, batches)
        if not acquired:
            batches.release()
            return Fetched(led)
        records = batches.take(acquired[0].first_offset, acquired[-1].last_offset)
    except BaseException:
        batches.release()
        raise
    return Fetched(led, records=records, acquired=acquired, undo=undo)


class DelayedShareFetch:
    """A fetch that waits for records in any of its partitions.

    ``respond`` acquires records and sends the response. ``expire`` does so at the deadline.
    """

    __slots__ = ("_by_key", "_deferred", "_expire", "_respond", "_wanted")

    def __init__(
        self,
        by_key: Mapping[ShareKey, LedSharePartition],
        wanted: Wanted,
        deferred: Deferred,
        respond: Callable[[], None],
        expire: Callable[[], None],
    ) -> None:
        self._by_key = by_key
        self._wanted = wanted
        self._deferred = deferred
        self._respond = respond
        self._expire = expire

    def is_ready(self, _key: ShareKey) -> bool:
        """Whether the fetch need not wait any longer."""
        try:
            return has_enough(tuple(self._by_key.values()), self._wanted)
        except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
            self._deferred.fail(error)
            return True

    def on_ready(self) -> None:
        """Acquire and respond."""
        self._try(self._respond)

    def on_expired(self) -> None:
        """Acquire the available records and respond."""
        self._try(self._expire)

    def _try(self, respond: Callable[[], None]) -> None:
        try:
            respond()
        except Exception as error:  # noqa: BLE001 - as above
            self._deferred.fail(error)
