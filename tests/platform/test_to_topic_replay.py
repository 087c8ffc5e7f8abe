"""A replay sends each dead letter of a transform to a topic that fits now once, whenever it is
killed.

The log is in memory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestration.dead_letters.fixes import Fix, Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import CommittedOffset, SenderFencedError
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRange
from orchestration.quality import fail
from orchestration.transforms.ledger import ledger
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed
from orchestration.transforms.to_topic.declarations import TopicTransform
from orchestration.transforms.to_topic.replay import run_letters_replay
from tests.platform.good_orders import GROUP, orders_transform, sending_of
from tests.platform.pipeline import letters_of, order, run_context
from tests.unit.orchestration.memory_log import MemoryLog, MemorySender

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
OF_DEAD_LETTERS = ReplayRequest(is_of_dead_letters=True)
WITHOUT_RULES = orders_transform(rules=())


class Story:
    """A transform that has rejected four of its records: -1 and -2 by a rule, two that are no JSON."""

    def __init__(self, lake_root: Path, spark: Any) -> None:
        self.log, self.lake_root, self.spark = MemoryLog(), lake_root, spark
        self.notes: list[str] = []
        first, second = self.log.add_topic("orders", 2).partitions
        for value in (order("a", 1), order("b", -1), b"nonsense", order("c", 2)):
            first.append(value, headers=[("trace", value[-3:])])
        first.skip(2)
        for value in (order("d", -2), b"more of it", order("e", 3)):
            second.append(value)
        self.run()
        self.log.sent.clear()

    def run(self, transform: TopicTransform | None = None) -> None:
        with self.log.open_sender(GROUP) as sender:
            table, work = sending_of(transform or orders_transform(), sender)
            work.run(table, run_context(self.log, self.lake_root, self.spark))

    def replay(
        self,
        transform: TopicTransform = WITHOUT_RULES,
        request: ReplayRequest = OF_DEAD_LETTERS,
        *,
        size: int = 1 << 20,
        before: Callable[[], None] = lambda: None,
        **context: Any,
    ) -> Replayed:
        replayed = Replayed()
        made = run_context(self.log, self.lake_root, self.spark, run_id="replay", **context)
        with self.log.open_sender(GROUP) as sender:
            before()
            table, work = sending_of(transform, sender, transaction_bytes=size)
            for result in run_letters_replay(work, table, made, request):
                assert not result.failures, result.failures
                replayed.add(result)
        self.notes = made.reporter.notes  # type: ignore[attr-defined]
        return replayed

    def fix(self, partition: int, offset: int, value: bytes) -> None:
        one = Fix(topic_id="id-of-orders", partition=partition, offset=offset, value=value)
        Fixes(Lake(self.lake_root)).put("good_orders", [one])

    def sent(self) -> list[list[bytes | None]]:
        """Return the keys of each transaction."""
        return [[one.key for one in records] for _, records in self.log.sent]

    def letters(self) -> list[tuple[int, int, str]]:
        return [one[:3] for one in letters_of(self.lake_root)]

    def offsets(self) -> dict[int, int]:
        return {
            partition: one.next_offset
            for partition, one in self.log.groups[GROUP, "orders"].items()
        }

    def ledger(self) -> list[tuple[Any, ...]]:
        columns = ["_partition", "start_offset", "end_offset", "records_sent"]
        rows = (
            Lake(self.lake_root)
            .existing("good_orders")
            .dataset()
            .to_table(columns=[*columns, "run_id"])
            .to_pylist()
        )
        return sorted(tuple(row.values())[:4] for row in rows if row["run_id"] == "replay")


@pytest.fixture
def story(lake_root: Path, spark: Any) -> Story:
    return Story(lake_root, spark)


REJECTED = [
    (0, 1, "amount_is_positive"),
    (0, 2, "schema"),
    (1, 0, "amount_is_positive"),
    (1, 1, "schema"),
]
UNREADABLE = [(0, 2, "schema"), (1, 1, "schema")]


def test_what_fits_now_is_sent_and_the_rest_stays_with_its_reason(story: Story) -> None:
    assert story.letters() == REJECTED
    replayed = story.replay()
    assert story.sent() == [[b"b", b"d", b"d"]]
    assert story.letters() == UNREADABLE
    assert (replayed.records, replayed.rows, replayed.dead_letters, replayed.commits) == (
        4,
        3,
        2,
        1,
    )
    assert story.offsets() == {0: 6, 1: 3}
    assert story.ledger() == [(0, 1, 3, 1), (1, 0, 2, 2)]
    assert DeadLetters(Lake(story.lake_root)).pending().count_rows() == 0


def test_sparks_workers_read_just_the_dead_letters_too(story: Story) -> None:
    story.fix(0, 2, order("fixed", 1))
    story.replay(arrow_records=0)
    assert story.sent() == [[b"b", b"fixed", b"d", b"d"]]
    assert story.letters() == [(1, 1, "schema")]


def test_a_replay_that_is_repeated_sends_nothing_again(story: Story) -> None:
    story.replay()
    story.replay()
    story.run()
    assert [records for records in story.sent() if records] == [[b"b", b"d", b"d"]]
    assert story.letters() == UNREADABLE


def test_a_fixed_record_is_sent_as_it_should_have_been_with_its_headers(story: Story) -> None:
    def passed_on(records: Any) -> Any:
        return records.selectExpr(
            "_topic_id", "_partition", "_offset", "_headers", "id", "amount", "0 AS copy"
        )

    story.fix(0, 2, order("fixed", 4))
    wanted = ReplayRequest(ranges=(OffsetRange(partition=0, start=2, end=3),))
    story.replay(orders_transform(function=passed_on, has_headers=True), wanted)
    (one,) = story.log.sent[0][1]
    assert (one.key, one.value, one.headers) == (
        b"fixed",
        b'{"id":"fixed","amount":4,"copy":0}',
        (("trace", b"nse"),),
    )
    assert story.letters() == [one for one in REJECTED if one[:2] != (0, 2)]


def test_records_that_are_sent_again_are_sent_as_they_were_fixed(story: Story) -> None:
    story.fix(0, 2, order("fixed", 3))
    story.log.groups[GROUP, "orders"][0] = CommittedOffset(next_offset=0)
    story.run()
    assert story.sent() == [[b"a", b"fixed", b"c", b"c"]]
    assert story.letters() == [one for one in REJECTED if one[:2] != (0, 2)]


def test_what_takes_several_transactions_is_exact_by_parts(story: Story) -> None:
    replayed = story.replay(size=1)
    assert story.sent() == [[b"b"], [b"d", b"d"]]
    assert (replayed.records, replayed.rows, replayed.dead_letters, replayed.commits) == (
        4,
        3,
        2,
        2,
    )
    assert story.letters() == UNREADABLE


def test_a_replay_takes_the_letters_in_pieces_of_as_many_offsets_as_a_run(story: Story) -> None:
    replayed = story.replay(records_per_run=2)
    assert sorted(key or b"" for keys in story.sent() for key in keys) == [b"b", b"d", b"d"]
    assert replayed.commits == 2
    assert story.letters() == UNREADABLE


STEPS: dict[str, tuple[Any, str]] = {
    "letters": (DeadLetters, "begin_replay"),
    "transaction": (MemorySender, "send"),
    "ledger": (ledger, "write"),
    "tidying": (DeadLetters, "settle_replay"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_replay_that_is_killed_at_any_step_sends_each_record_once(
    story: Story, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    holder, name = STEPS[step]
    done = getattr(holder, name)

    def killed(*arguments: Any, **more: Any) -> None:
        if when == "after":
            done(*arguments, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(holder, name, killed)
        with pytest.raises(KeyboardInterrupt):
            story.replay()
    is_sent = (step, when) not in {
        ("letters", "before"),
        ("letters", "after"),
        ("transaction", "before"),
    }
    story.log.topics["orders"].partitions[0].append(order("later", 5))
    story.run(WITHOUT_RULES)
    assert story.letters() == (UNREADABLE if is_sent else REJECTED)
    story.replay()
    assert [keys for keys in story.sent() if keys and b"later" not in keys] == [[b"b", b"d", b"d"]]
    assert story.letters() == UNREADABLE
    assert DeadLetters(Lake(story.lake_root)).pending().count_rows() == 0


def test_a_replay_that_a_run_overtook_sends_nothing(story: Story) -> None:
    with pytest.raises(SenderFencedError):
        story.replay(before=story.run)
    assert story.sent() == []
    assert story.letters() == REJECTED
    story.replay()
    assert story.letters() == UNREADABLE


def test_a_rule_that_forbids_all_sends_nothing(story: Story) -> None:
    with pytest.raises(AssertionError, match="rule large: 3 rows violate amount > 9"):
        story.replay(orders_transform(rules=(fail("large", "amount > 9"),)))
    assert story.sent() == []
    assert story.letters() == REJECTED


def test_letters_whose_records_are_gone_stay_and_are_told(story: Story) -> None:
    story.log.delete_records("orders", {0: 2})
    del story.log.topics["orders"].partitions[1].records[0]
    story.fix(0, 2, order("fixed", 1))
    story.replay()
    assert story.sent() == [[b"fixed"]]
    assert story.letters() == [one for one in REJECTED if one[:2] != (0, 2)]
    assert [note[:31] for note in story.notes] == ["the record of 1 dead letter of "] * 2


def test_letters_that_the_group_is_going_to_read_again_are_left_to_it(story: Story) -> None:
    story.log.groups[GROUP, "orders"][1] = CommittedOffset(next_offset=0)
    story.replay()
    assert story.sent() == [[b"b"]]
    story.run(WITHOUT_RULES)
    assert story.sent()[1] == [b"d", b"d", b"e"]
    assert story.letters() == UNREADABLE


def test_a_target_that_was_made_anew_is_built_anew_and_not_by_a_replay(story: Story) -> None:
    story.log.add_topic("good_orders", 2, topic_id="another")
    story.replay()
    assert story.sent() == []


def test_nothing_but_dead_letters_is_replayed(story: Story) -> None:
    for request in (
        ReplayRequest(is_everything=True),
        ReplayRequest(from_ms=0),
        ReplayRequest(to_ms=1),
    ):
        with pytest.raises(
            ProgressError,
            match="a topic takes nothing back: only what was rejected can be replayed",
        ):
            story.replay(request=request)
    sent_already = ReplayRequest(
        ranges=(OffsetRange(partition=0, start=0, end=1), OffsetRange(partition=0, start=3, end=6))
    )
    story.replay(request=sent_already)
    assert story.sent() == []
    assert "has no dead letters there" in story.notes[0]
