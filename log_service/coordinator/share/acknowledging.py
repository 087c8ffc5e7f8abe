"""Apply acknowledgements to the records that a member has acquired (KIP-932, KIP-1222).

This file decides whether a member may acknowledge its ranges, and the next state of each record.
All ranges of a request are accepted or refused together. A range that ends below the start offset
of the share partition is accepted without effect, because its records are no longer delivered.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.share.acquiring import ShareSettings
from log_service.coordinator.share.in_flight import (
    BatchState,
    DeadLetterRange,
    Delivery,
    InFlightBatch,
    Run,
)
from log_service.coordinator.share.record_states import (
    STATE_AFTER,
    AcknowledgeType,
    ArchiveReason,
    RecordState,
)
from log_service.coordinator.share.window import DeliveryWindow

_ARCHIVE_REASONS = {
    AcknowledgeType.REJECT: ArchiveReason.REJECTED,
    AcknowledgeType.RELEASE: ArchiveReason.DELIVERED_TOO_OFTEN,
}
KNOWN_TYPES = frozenset(each.value for each in AcknowledgeType)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedRange:
    """Acknowledged offsets from ``first_offset`` to ``last_offset`` (inclusive).

    ``types`` holds one type for all offsets, or one type for each offset.
    """

    first_offset: int
    last_offset: int
    types: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Offsets of a range that have the same acknowledge type."""

    first: int
    last: int
    type: AcknowledgeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledging:
    """One acknowledgement request of one member.

    ``write_id`` identifies the write that stores its changes. ``dead_letters`` collects the
    archived records, if the group has dead letters.
    """

    window: DeliveryWindow
    settings: ShareSettings
    member_id: str
    now_ms: int
    write_id: int
    dead_letters: list[DeadLetterRange] = field(default_factory=list)

    def run(self, ranges: Sequence[AcknowledgedRange]) -> list[Run]:
        """Change the acknowledged records tentatively, and return the runs that must be stored.

        A renewed lock takes effect at once and is not stored.

        Raises:
            KafkaError: nothing was changed. INVALID_REQUEST, an invalid range or type, or offsets
                past the acquired ones. INVALID_RECORD_STATE, the member does not hold some of the
                records.
        """
        untouched: dict[int, BatchState] = {}
        try:
            return [run for each in ranges for run in self._acknowledge(each, untouched)]
        except KafkaError:
            for state in untouched.values():
                state[0].restore(state)
            raise

    def _acknowledge(self, each: AcknowledgedRange, untouched: dict[int, BatchState]) -> list[Run]:
        parts = list(_parts(each))
        if each.last_offset < self.window.start_offset:
            return []
        to_store: list[Run] = []
        for batch in self._batches_of(each):
            untouched.setdefault(batch.first, batch.state)
            for part in parts:
                first, last = (
                    max(part.first, self.window.start_offset, batch.first),
                    min(part.last, batch.last),
                )
                if first <= last:
                    self.change_state(batch, first, last, part.type)
                    changed = (
                        [] if part.type is AcknowledgeType.RENEW else batch.runs_in(first, last)
                    )
                    to_store += changed
                    self.note_dead_letters(part.type, changed)
        return to_store

    def note_dead_letters(self, of_type: AcknowledgeType, changed: Sequence[Run]) -> None:
        """Collect archived records as dead letters, if the group has dead letters.

        A gap holds no record and is not collected.
        """
        if self.settings.has_dead_letters and of_type in _ARCHIVE_REASONS:
            self.dead_letters.extend(
                dead_letter_range(run, _ARCHIVE_REASONS[of_type])
                for run in changed
                if run.delivery.state is RecordState.ARCHIVED
            )

    def _batches_of(self, each: AcknowledgedRange) -> list[InFlightBatch]:
        """Return the batches that cover a range.

        Every offset of the range must have been acquired.

        Raises:
            KafkaError: INVALID_RECORD_STATE or INVALID_REQUEST, offsets were not acquired.
        """
        batches = self.window.batches
        begin = each.first_offset
        if batches.floor(begin) is None and begin < self.window.start_offset:
            begin = self.window.start_offset
        if batches.floor(begin) is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                f"no record from offset {each.first_offset} on is acquired",
            )
        in_flight = batches.overlapping(begin, each.last_offset)
        if not in_flight or in_flight[-1].last < each.last_offset:
            text = (
                f"offsets {each.first_offset} to {each.last_offset} are not all acquired:"
                " acknowledge only what was acquired"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return in_flight

    def change_state(
        self, batch: InFlightBatch, first: int, last: int, of_type: AcknowledgeType
    ) -> None:
        """Change the state of the records from ``first`` to ``last`` as the member requests.

        Raises:
            KafkaError: INVALID_RECORD_STATE, the member has not acquired one of them.
        """
        for run in batch.runs_in(first, last):
            delivery = run.delivery
            if delivery.state is not RecordState.ACQUIRED or delivery.member_id != self.member_id:
                text = (
                    f"member {self.member_id} does not hold offsets {run.first} to {run.last},"
                    f" which are {delivery.state.name.lower()}"
                )
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, text)
        batch.change(
            first,
            last,
            (
                self._renewed
                if of_type is AcknowledgeType.RENEW
                else self._ended(STATE_AFTER[of_type])
            ),
        )

    def _renewed(self, run: Run) -> Run:
        if not self.settings.is_renew_enabled:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, "this group does not renew acquisition locks"
            )
        delivery = Delivery(
            state=RecordState.ACQUIRED,
            delivery_count=run.delivery.delivery_count,
            member_id=self.member_id,
            lock_deadline_ms=self.now_ms + self.settings.record_lock_duration_ms,
        )
        return run.changed(delivery)

    def _ended(self, state: RecordState) -> Callable[[Run], Run]:
        limit, write_id = self.settings.delivery_count_limit, self.write_id
        if state is RecordState.AVAILABLE:
            return lambda run: run.tentatively(given_back(run.delivery, limit), write_id)
        return lambda run: run.tentatively(
            run.delivery.followed_by(state, run.delivery.delivery_count), write_id
        )


def given_back(delivery: Delivery, delivery_count_limit: int) -> Delivery:
    """Return the delivery state of a record after its member has given it back.

    The record is archived if its delivery count has reached the limit.
    """
    is_used_up = delivery.delivery_count >= delivery_count_limit
    return delivery.followed_by(
        RecordState.ARCHIVED if is_used_up else RecordState.AVAILABLE, delivery.delivery_count
    )


def dead_letter_range(run: Run, reason: ArchiveReason) -> DeadLetterRange:
    """Return the dead letter range of an archived run."""
    return DeadLetterRange(
        first_offset=run.first,
        last_offset=run.last,
        delivery_count=run.delivery.delivery_count,
        reason=reason,
    )


def _parts(each: AcknowledgedRange) -> Iterator[_Part]:
    """Split a range into parts whose offsets have the same acknowledge type.

    The number of types must fit the number of offsets.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    types = each.types
    if each.first_offset > each.last_offset or len(types) not in {
        1,
        each.last_offset - each.first_offset + 1,
    }:
        text = (
            f"{len(types)} types for offsets {each.first_offset} to {each.last_offset}: send one"
            " type for all, or one for each"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    if not KNOWN_TYPES.issuperset(types):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"acknowledge types {sorted(set(types) - KNOWN_TYPES)} are not known: send 0 to 4",
        )
    if len(types) == 1:
        yield _Part(first=each.first_offset, last=each.last_offset, type=AcknowledgeType(types[0]))
        return
    begin = 0
    for index in range(1, len(types) + 1):
        if index == len(types) or types[index] != types[begin]:
            yield _Part(
                first=each.first_offset + begin,
                last=each.first_offset + index - 1,
                type=AcknowledgeType(types[begin]),
            )
            begin = index
