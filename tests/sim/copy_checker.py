"""Judges transactional clients, in the manner of Jepsen's checkers.

Some things no reader of committed records and no copier may ever see.

``CopyChecker`` is told each entry of a history as it comes and reports a broken promise at once;
``end`` judges the whole. It knows nothing but what clients asked and were told. The promises:

* no dirty read: a row of a transaction whose commit nobody has asked for;
* no aborted read: a row of a transaction that was aborted;
* no torn transaction: all rows of a transaction are there in the end, or none; a reader that got
  past a committed row got it;
* nothing committed is lost, nothing is there twice, every record of the input is copied once, in
  order;
* the group's offsets and the rows go together: it resumes where a transaction ended that was or may
  be committed, and behind each one that was acknowledged before it asked, unless nodes are split,
  so that a coordinator may be left that knows nothing of its successor;
* a client whose place another has taken commits no more; no client is fenced without a reason;
* one owner per partition and generation.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable

from log_service.common.types import TopicPartition
from tests.sim.copy_history import (
    AskedToCommit,
    CommittedPoll,
    FinalInput,
    FinalRows,
    Initialized,
    Outcome,
    Owned,
    Resumed,
    StableOffset,
    Transact,
    source_of,
)
from tests.sim.node_history import NEVER, Entry, SeenRecord

Report = Callable[[str, str], None]
Source = tuple[TopicPartition, int]

DIRTY, ABORTED, TORN, LOST = (
    "no dirty read",
    "no aborted read",
    "no torn transaction",
    "committed rows are there",
)
TWICE, NOWHERE, OFFSETS = "copied once", "rows come from somewhere", "offsets go with rows"
ZOMBIE, FENCED, OWNER, ORDER = (
    "zombies are fenced",
    "fenced with a reason",
    "one owner",
    "rows keep their order",
)


class CopyChecker:
    """The transactions of one run. ``slack_seconds`` is how much the clocks of coordinators may
    differ from each other.
    """

    def __init__(self, report: Report, slack_seconds: float = 0.0) -> None:
        self._report = report
        self._slack_seconds = slack_seconds
        self.transactions: list[Transact] = []
        self._by_value: dict[str, Transact] = {}
        self._lives: dict[str, list[Initialized]] = defaultdict(list)
        """Everyone who asked for a transactional id."""
        self._committed: dict[Transact, int] = {}
        """Transactions that are known to be committed, with the place from which on that is known.
        """
        self._copied: dict[Source, Transact] = {}
        self._places: dict[tuple[TopicPartition, str], int] = {}
        self._values: dict[tuple[TopicPartition, int], str] = {}
        self._positions: dict[tuple[str, TopicPartition], int] = {}
        self._finals: list[FinalRows] = []
        self._inputs: list[FinalInput] = []
        self._ranges: list[tuple[str, TopicPartition, int, list[SeenRecord]]] = []
        self._rows_at: dict[TopicPartition, list[int]] = defaultdict(list)
        """Offsets of the rows of transactions that are known to be committed, in order."""
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}

    # What comes

    def note(self, entry: Entry) -> None:
        """Take an entry that has just been added to the history."""
        match entry:
            case Transact():
                self.transactions.append(entry)
            case Initialized():
                self._lives[entry.transactional_id].append(entry)
            case AskedToCommit(transact=transact):
                transact.asked_at = entry.at
                self._by_value.update(dict.fromkeys(transact.rows, transact))
            case CommittedPoll():
                self._take_poll(entry)
            case Resumed():
                span = (entry.asked_at, entry.at)
                self._take_position(
                    entry.consumer, entry.partition, entry.offset, span, is_stale=entry.is_split
                )
            case Owned():
                self._take_owner(entry)
            case FinalRows():
                self._finals.append(entry)
            case FinalInput():
                self._inputs.append(entry)

    def note_ended(self, operation: Entry) -> None:
        """Take an operation that has just ended."""
        match operation:
            case Transact():
                self._take_end(operation)
            case StableOffset() if operation.is_ok:
                span = (operation.at, operation.ended_at)
                self._take_position(
                    "the watcher",
                    operation.partition,
                    max(0, operation.offset),
                    span,
                    is_stale=operation.is_split,
                )

    def _take_end(self, transact: Transact) -> None:
        if transact.outcome is Outcome.COMMITTED:
            self._check_not_usurped(transact)
            self._note_committed(transact, transact.ended_at)
        elif transact.is_fenced:
            self._check_fence(transact)

    def _check_not_usurped(self, transact: Transact) -> None:
        """Return whether another life has the id for certain.

        It must have asked for it after this one had been given it. Of two at once either is later.
        """
        lives = self._lives[transact.transactional_id]
        given_at = next(
            (each.ended_at for each in lives if each.producer == transact.producer), transact.at
        )
        for other in lives:
            is_later = other.producer != transact.producer and other.is_ok and other.at > given_at
            if is_later and other.ended_at < transact.asked_at:
                self._report(
                    ZOMBIE,
                    f"{transact} was committed, though {other.producer} has had the id since {other.ended_at}",
                )

    def _check_fence(self, transact: Transact) -> None:
        """A client is fenced by another life of its id, or because its transaction takes too long."""
        begun_at, others = self._begin_of(transact), self._lives[transact.transactional_id]
        is_usurped = any(
            other.producer != transact.producer and other.ended_at > begun_at for other in others
        )
        seconds = transact.ended_time - transact.time
        if not is_usurped and seconds + self._slack_seconds < transact.timeout_seconds:
            self._report(
                FENCED,
                f"{transact}: alone, and after {seconds:.1f} s of {transact.timeout_seconds:.0f} s",
            )

    def _begin_of(self, transact: Transact) -> int:
        """Return from where on the client's life may have had the id."""
        return next(
            (
                each.at
                for each in self._lives[transact.transactional_id]
                if each.producer == transact.producer
            ),
            transact.at,
        )

    # What is known to be committed

    def _note_committed(self, transact: Transact, at: int) -> None:
        """Note that a transaction is committed.

        Its client was told so, or its rows or offsets were seen.
        """
        if transact in self._committed:
            return
        self._committed[transact] = at
        for value in transact.rows:
            source = source_of(value)
            if source is None:
                continue
            first = self._copied.setdefault(source, transact)
            if first is not transact:
                self._report(TWICE, f"{source} was copied by {first} and by {transact}")
        for value, offset in transact.offsets.items():
            insort(self._rows_at[transact.rows[value]], offset)
            self._values.setdefault((transact.rows[value], offset), value)

    # What readers see

    def _take_poll(self, poll: CommittedPoll) -> None:
        key = (poll.consumer, poll.partition)
        offsets = [record.offset for record in poll.records]
        position = offsets[0] if poll.is_fresh else self._positions.get(key, offsets[0])
        if offsets != sorted(set(offsets)) or offsets[0] < position:
            self._report(
                ORDER, f"{poll.consumer} got {offsets} of {poll.partition} where {position} was due"
            )
        for record in poll.records:
            self._check_row(poll, record)
        rows = self._rows_at[poll.partition]
        passed = rows[bisect_left(rows, position) : bisect_right(rows, offsets[-1])]
        missed = sorted(set(passed) - set(offsets))
        if missed:
            value = self._values.get((poll.partition, missed[0]))
            self._report(
                LOST,
                f"{poll.consumer} read {poll.partition} from {position} to {offsets[-1]} without {value} at {missed[0]}",
            )
        self._ranges.append((poll.consumer, poll.partition, position, poll.records))
        self._positions[key] = offsets[-1] + 1

    def _check_row(self, poll: CommittedPoll, record: SeenRecord) -> None:
        transact, where = (
            self._by_value.get(record.value),
            f"{poll.consumer} read {record} in {poll.partition}",
        )
        if transact is None:
            known = self._find_unasked(record.value)
            if known is None:
                self._report(NOWHERE, where)
            else:
                self._report(
                    ABORTED if known.outcome is Outcome.ABORTED else DIRTY, f"{where}, of {known}"
                )
            return
        if transact.outcome is Outcome.ABORTED:
            self._report(ABORTED, f"{where}, of {transact}")
        elif transact.rows[record.value] != poll.partition:
            self._report(NOWHERE, f"{where}, which was sent to {transact.rows[record.value]}")
        else:
            self._note_committed(transact, poll.at)
        first = self._places.setdefault((poll.partition, record.value), record.offset)
        if first != record.offset:
            self._report(TWICE, f"{where}, which was at {first} before")

    def _find_unasked(self, value: str) -> Transact | None:
        return next((transact for transact in self.transactions if value in transact.rows), None)

    # Where the group is

    def _take_position(
        self,
        who: str,
        partition: TopicPartition,
        offset: int,
        span: tuple[int, int],
        *,
        is_stale: bool,
    ) -> None:
        """Judge the position of the group.

        It is at the end of a transaction that may be committed, and behind each that was
        acknowledged before it was asked.
        """
        asked_at, told_at = span
        ends = [
            (transact, transact.read[partition][1])
            for transact in self.transactions
            if partition in transact.read
        ]
        known = max(
            (end for transact, end in ends if self._committed.get(transact, NEVER) < asked_at),
            default=0,
        )
        if offset < known and not is_stale:
            self._report(
                OFFSETS,
                f"{who} is told {offset} of {partition}, and a transaction that ends at {known} was committed before",
            )
        if offset == 0:
            return
        of_end = [transact for transact, end in ends if end == offset]
        found = [
            each
            for each in of_end
            if each.asked_at < told_at and each.outcome is not Outcome.ABORTED
        ]
        if not found:
            text = (
                f"where no transaction ended that may be committed: {', '.join(map(str, of_end))}"
            )
            self._report(OFFSETS, f"{who} is told {offset} of {partition}, {text}")
        elif len(found) == 1:
            self._note_committed(found[0], told_at)

    def _take_owner(self, owned: Owned) -> None:
        for partition in owned.partitions:
            first = self._owners.setdefault(
                (owned.group, owned.generation_id, partition), owned.member_id
            )
            if first != owned.member_id:
                text = f"{partition} belongs to {first} and to {owned.member_id} in generation {owned.generation_id} of {owned.group}"
                self._report(OWNER, text)

    # The whole

    def end(self) -> None:
        """Judge what is there once all is calm."""
        finals = {final.partition: final.records for final in self._finals}
        if not finals:
            return
        places: dict[str, list[int]] = defaultdict(list)
        for records in finals.values():
            for record in records:
                places[record.value].append(record.offset)
        for transact in self.transactions:
            self._judge(transact, places)
        for value, offsets in places.items():
            if len(offsets) > 1:
                self._report(TWICE, f"{value} is at {offsets}")
            if self._find_unasked(value) is None:
                self._report(NOWHERE, f"{value} at {offsets}")
        self._judge_input(places)
        for partition, records in finals.items():
            self._judge_order(partition, records)
        self._judge_readers(finals)

    def _judge(self, transact: Transact, places: dict[str, list[int]]) -> None:
        present = [value for value in transact.rows if value in places]
        missing = [value for value in transact.rows if value not in places]
        is_committed = transact in self._committed
        if present and (transact.outcome is Outcome.ABORTED or transact.asked_at == NEVER):
            self._report(
                ABORTED if transact.outcome is Outcome.ABORTED else DIRTY,
                f"{present[0]} is there at last, of {transact}",
            )
        elif present and missing:
            self._report(
                TORN,
                f"{transact} has {len(present)} rows, and not {missing[0]} in {transact.rows[missing[0]]}",
            )
        elif missing and is_committed:
            self._report(LOST, f"{transact}: none of its rows is there")
        elif present:
            self._note_committed(transact, NEVER - 1)
        for value, offset in transact.offsets.items():
            if value in places and offset not in places[value]:
                self._report(
                    LOST, f"{value} was acknowledged at {offset} and is at {places[value]}"
                )

    def _judge_input(self, places: dict[str, list[int]]) -> None:
        copied: dict[TopicPartition, set[int]] = defaultdict(set)
        for value in places:
            source = source_of(value)
            if source is not None:
                copied[source[0]].add(source[1])
        for final in self._inputs:
            missing = sorted(set(range(final.end)) - copied[final.partition])
            if missing:
                self._report(
                    OFFSETS,
                    f"{len(missing)} of {final.end} records of {final.partition} were passed over, first {missing[0]}",
                )

    def _judge_order(self, partition: TopicPartition, records: list[SeenRecord]) -> None:
        last: dict[TopicPartition, int] = {}
        for record in records:
            source = source_of(record.value)
            if source is None:
                continue
            if source[1] <= last.get(source[0], -1):
                self._report(
                    ORDER, f"{partition} has {source} at {record.offset}, behind {last[source[0]]}"
                )
            last[source[0]] = source[1]

    def _judge_readers(self, finals: dict[TopicPartition, list[SeenRecord]]) -> None:
        """A reader gets all that is committed between where it begins and where it is."""
        offsets_of = {
            partition: [record.offset for record in records]
            for partition, records in finals.items()
        }
        for consumer, partition, position, records in self._ranges:
            rows = offsets_of.get(partition, [])
            due = rows[bisect_left(rows, position) : bisect_right(rows, records[-1].offset)]
            missed = sorted(set(due) - {record.offset for record in records})
            if missed:
                self._report(
                    LOST,
                    f"{consumer} read {partition} from {position} to {records[-1].offset} without {missed[0]}",
                )
