"""The checker holds the promises to transactional clients, one by one.

A history in which all is well passes, and each forbidden event is named.
"""

from collections.abc import Callable
from itertools import count

import pytest

from log_service.common.types import TopicPartition
from tests.sim import copy_checker as rules
from tests.sim.copy_checker import CopyChecker
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
    copied_value,
)
from tests.sim.node_history import History, SeenRecord

INPUT, ROWS, OTHER_ROWS = (
    TopicPartition("safe", 0),
    TopicPartition("rows", 0),
    TopicPartition("rows", 1),
)
ID, GROUP = "copier-0", "copy"


class Told:
    """Builds a history, and shows every entry to a checker."""

    def __init__(self) -> None:
        times = count()
        self.found: list[str] = []
        self.checker = CopyChecker(lambda rule, _text: self.found.append(rule))
        self.history = History(lambda: float(next(times)))
        self._numbers = count(1)

    def initialize(self, producer: str) -> None:
        self.initialized(self.ask_to_initialize(producer))

    def ask_to_initialize(self, producer: str) -> Initialized:
        taken = Initialized(producer=producer, transactional_id=ID)
        self.checker.note(self.history.add(taken))
        return taken

    def initialized(self, taken: Initialized) -> None:
        self.history.end(taken)
        self.checker.note_ended(taken)

    def begin(self, producer: str, *offsets: int) -> Transact:
        """A copier has copied these offsets of the input, and asks for nothing yet.

        Each is in the partition of its parity.
        """
        transact = Transact(
            producer=producer, transactional_id=ID, number=next(self._numbers), timeout_seconds=100
        )
        self.checker.note(self.history.add(transact))
        for offset in offsets:
            value = copied_value(transact, INPUT, offset)
            transact.rows[value] = (ROWS, OTHER_ROWS)[offset % 2]
            transact.offsets[value] = offset
        if offsets:
            transact.read[INPUT] = (offsets[0], offsets[-1] + 1)
        return transact

    def ask(self, transact: Transact) -> None:
        self.checker.note(self.history.add(AskedToCommit(transact=transact)))

    def end(self, transact: Transact, outcome: Outcome, *, is_fenced: bool = False) -> None:
        transact.outcome, transact.is_fenced = outcome, is_fenced
        self.history.end(transact)
        self.checker.note_ended(transact)

    def commit(self, producer: str, *offsets: int) -> Transact:
        transact = self.begin(producer, *offsets)
        self.ask(transact)
        self.end(transact, Outcome.COMMITTED)
        return transact

    def poll(self, *values: str, partition: TopicPartition = ROWS, is_fresh: bool = False) -> None:
        """A reader of committed records gets values at the offsets that their copies have."""
        records = [SeenRecord(int(value.rpartition("@")[2]), 0, value) for value in values]
        self.checker.note(
            self.history.add(
                CommittedPoll(
                    consumer="reader", partition=partition, records=records, is_fresh=is_fresh
                )
            )
        )

    def resume(self, offset: int) -> None:
        at = self.history.place
        self.checker.note(
            self.history.add(
                Resumed(consumer="copier", partition=INPUT, offset=offset, asked_at=at + 1)
            )
        )

    def tell_stable(self, offset: int) -> None:
        told = StableOffset(partition=INPUT, offset=offset)
        self.checker.note(self.history.add(told))
        self.history.end(told)
        self.checker.note_ended(told)

    def own(self, member_id: str, generation_id: int) -> None:
        self.checker.note(
            self.history.add(
                Owned(
                    group=GROUP,
                    member_id=member_id,
                    generation_id=generation_id,
                    partitions=(INPUT,),
                )
            )
        )

    def finish(self, *values: str, end: int) -> None:
        """Say what there is at last, and judge."""
        for partition, rest in ((ROWS, 0), (OTHER_ROWS, 1)):
            offsets = [(int(value.rpartition("@")[2]), value) for value in values]
            records = [
                SeenRecord(offset, 0, value) for offset, value in offsets if offset % 2 == rest
            ]
            self.checker.note(self.history.add(FinalRows(partition=partition, records=records)))
        self.checker.note(self.history.add(FinalInput(partition=INPUT, end=end)))
        self.checker.end()


def all_is_well(told: Told) -> None:
    told.initialize("a")
    first = told.commit("a", 0, 1, 2)
    told.resume(3)
    aborted = told.begin("a", 3, 4)
    told.end(aborted, Outcome.ABORTED)
    told.resume(3)
    told.poll(*[value for value in first.rows if value.endswith(("0", "2"))], is_fresh=True)
    unknown = told.begin("a", 3, 4)
    told.ask(unknown)
    told.end(unknown, Outcome.UNKNOWN)
    told.initialize("b")
    told.own("m", 1)
    told.own("n", 2)
    told.tell_stable(5)
    told.finish(*first.rows, *unknown.rows, end=5)


def test_what_keeps_its_promises_is_not_named() -> None:
    told = Told()
    all_is_well(told)
    assert not told.found


def dirty_read(told: Told) -> None:
    told.poll(*told.begin("a", 0).rows)


def aborted_read(told: Told) -> None:
    transact = told.begin("a", 0)
    told.end(transact, Outcome.ABORTED)
    told.poll(*transact.rows)


def read_after_an_abort_of_what_was_asked(told: Told) -> None:
    transact = told.begin("a", 0)
    told.ask(transact)
    told.end(transact, Outcome.ABORTED)
    told.poll(*transact.rows)


def torn(told: Told) -> None:
    transact = told.begin("a", 0, 1)
    told.ask(transact)
    told.end(transact, Outcome.UNKNOWN)
    told.finish(next(iter(transact.rows)), end=0)


def lost(told: Told) -> None:
    told.commit("a", 0)
    told.finish(end=0)


def passed_over(told: Told) -> None:
    """The reader goes from offset 0 to 4 and leaves out 2, which is committed."""
    transact = told.commit("a", 0, 2, 4)
    told.poll(*[value for value in transact.rows if not value.endswith("2")])


def copied_twice(told: Told) -> None:
    told.commit("a", 0)
    told.commit("b", 0)


def at_two_offsets(told: Told) -> None:
    value = next(iter(told.commit("a", 0).rows))
    told.poll(value)
    record = SeenRecord(7, 0, value)
    told.checker.note(
        told.history.add(
            CommittedPoll(consumer="other", partition=ROWS, records=[record], is_fresh=True)
        )
    )


def from_nowhere(told: Told) -> None:
    told.poll("someone#1|safe/0@0")


def offsets_without_rows(told: Told) -> None:
    told.end(told.begin("a", 0, 1), Outcome.ABORTED)
    told.resume(2)


def rows_without_offsets(told: Told) -> None:
    told.commit("a", 0, 1)
    told.resume(0)


def stable_offset_of_an_open_transaction(told: Told) -> None:
    told.begin("a", 0, 1)
    told.tell_stable(2)


def left_out(told: Told) -> None:
    told.finish(*told.commit("a", 0).rows, end=2)


def zombie(told: Told) -> None:
    told.initialize("a")
    transact = told.begin("a", 0)
    told.initialize("b")
    told.ask(transact)
    told.end(transact, Outcome.COMMITTED)


def fenced_without_a_reason(told: Told) -> None:
    told.initialize("a")
    told.end(told.begin("a", 0), Outcome.UNKNOWN, is_fenced=True)


def two_owners(told: Told) -> None:
    told.own("m", 1)
    told.own("n", 1)


def out_of_order(told: Told) -> None:
    first = told.commit("a", 2)
    second = told.commit("a", 0)
    told.checker.note(
        told.history.add(
            FinalRows(
                partition=ROWS,
                records=[
                    SeenRecord(number, 0, value)
                    for number, value in enumerate([*first.rows, *second.rows])
                ],
            )
        )
    )
    told.checker.end()


@pytest.mark.parametrize(
    ("story", "rule"),
    [
        (dirty_read, rules.DIRTY),
        (aborted_read, rules.ABORTED),
        (read_after_an_abort_of_what_was_asked, rules.ABORTED),
        (torn, rules.TORN),
        (lost, rules.LOST),
        (passed_over, rules.LOST),
        (copied_twice, rules.TWICE),
        (at_two_offsets, rules.TWICE),
        (from_nowhere, rules.NOWHERE),
        (offsets_without_rows, rules.OFFSETS),
        (rows_without_offsets, rules.OFFSETS),
        (stable_offset_of_an_open_transaction, rules.OFFSETS),
        (left_out, rules.OFFSETS),
        (zombie, rules.ZOMBIE),
        (fenced_without_a_reason, rules.FENCED),
        (two_owners, rules.OWNER),
        (out_of_order, rules.ORDER),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
def test_what_breaks_a_promise_is_named(story: Callable[[Told], None], rule: str) -> None:
    told = Told()
    story(told)
    assert rule in told.found


def test_of_two_that_took_an_id_at_once_either_may_be_the_later_one() -> None:
    told = Told()
    slow = told.ask_to_initialize("a")
    told.initialize("b")
    told.initialized(slow)
    told.commit("a", 0)
    assert told.found == []


def test_a_client_whose_successor_has_taken_its_id_is_fenced_with_a_reason() -> None:
    told = Told()
    told.initialize("a")
    transact = told.begin("a", 0)
    told.initialize("b")
    told.end(transact, Outcome.UNKNOWN, is_fenced=True)
    assert not told.found


def test_a_coordinator_that_is_cut_off_may_tell_what_it_knew_but_nothing_that_never_was() -> None:
    told = Told()
    told.commit("a", 0, 1)
    told.checker.note(
        told.history.add(
            Resumed(
                consumer="b",
                partition=INPUT,
                offset=0,
                asked_at=told.history.place + 1,
                is_split=True,
            )
        )
    )
    assert not told.found
    told.checker.note(
        told.history.add(
            Resumed(
                consumer="b",
                partition=INPUT,
                offset=1,
                asked_at=told.history.place + 1,
                is_split=True,
            )
        )
    )
    assert told.found == [rules.OFFSETS]
