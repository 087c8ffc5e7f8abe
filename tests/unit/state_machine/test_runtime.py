"""One machine decides over one log.

Its reply leaves in order, and a refused decision leaves nothing.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import INTERVAL_MS
from log_service.common.timers import TimerQueue
from log_service.state_machine.decision import Decision, ReplayContext
from log_service.state_machine.runtime import RETRY_MS, Runtime

REFUSED = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "refused")
CLOSED = KafkaError(ErrorCode.NOT_COORDINATOR, "the epoch is over")


@dataclass
class Clock:
    now_ms: int = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


@dataclass
class Log:
    batches: list[list[str]] = field(default_factory=list)
    high_watermark: int = 0
    failures: list[KafkaError | None] = field(default_factory=list)

    def append(self, records: Sequence[str], wall_ms: int) -> int:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.batches.append(list(records))
        return sum(map(len, self.batches))


@dataclass(slots=True)
class Soft:
    """State that no log holds."""

    members: set[str] = field(default_factory=set)
    leader: str = ""


@dataclass
class Machine:
    """Appends what it is asked to, and notes what it replays."""

    soft: Soft = field(default_factory=Soft)
    replayed: list[tuple[int, str]] = field(default_factory=list)
    fired: list[tuple[Hashable, int]] = field(default_factory=list)

    def replay(self, record: str, context: ReplayContext) -> None:
        self.replayed.append((context.offset, record))

    def on_timer(self, key: Hashable, decision: Decision[str]) -> None:
        self.fired.append((key, decision.now_ms))
        decision.append(f"timer {key}")

    def write(self, names: Sequence[str], decision: Decision[str], reply_to: Hashable) -> None:
        decision.stage(self.soft)
        for name in names:
            self.soft.members.add(name)
            self.soft.leader = self.soft.leader or name
            decision.append(name)
        decision.reply(reply_to, len(names))


class Stage:
    def __init__(self, **options: Any) -> None:
        self.clock, self.timers, self.log, self.machine = Clock(), TimerQueue(), Log(), Machine()
        self.runtime: Runtime[str] = Runtime(
            self.machine, self.log, clock=self.clock, timers=self.timers, appended_end=0, **options
        )
        self.heard: list[Any] = []

    def write(self, *names: str) -> Hashable:
        return self.runtime.ask(
            partial(self.machine.write, names), self.heard.append, lambda error: error.code
        )

    def set_timer(self, key: str, deadline_ms: int) -> None:
        self.runtime.decide_alone(lambda decision: decision.set_timer(key, deadline_ms))

    def fire(self, now_ms: int) -> None:
        self.clock.now_ms = now_ms
        self.timers.fire_due(now_ms)

    def commit_below(self, offset: int) -> None:
        self.log.high_watermark = offset
        self.runtime.on_high_watermark()


def test_a_decision_is_one_batch_and_is_replayed_at_its_offsets() -> None:
    stage = Stage()
    stage.write("a", "b")
    stage.write("c")
    assert stage.log.batches == [["a", "b"], ["c"]]
    assert stage.machine.replayed == [(0, "a"), (1, "b"), (2, "c")]


def test_replies_wait_for_all_that_was_appended_and_leave_in_order() -> None:
    stage = Stage()
    stage.write("a", "b")
    stage.write()
    stage.write("c")
    stage.commit_below(1)
    assert stage.heard == []
    stage.commit_below(2)
    assert stage.heard == [2, 0], "a read waits for what it saw, and for no more"
    stage.commit_below(3)
    assert stage.heard == [2, 0, 1]


def test_a_refused_append_takes_soft_state_back_and_is_told_at_once() -> None:
    stage = Stage()
    stage.write("a")
    stage.log.failures = [REFUSED]
    stage.write("b")
    assert stage.heard == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert (stage.machine.soft.members, stage.machine.soft.leader) == ({"a"}, "a")
    stage.write("c")
    stage.commit_below(2)
    assert stage.heard[1:] == [1, 1]
    assert stage.machine.replayed == [(0, "a"), (1, "c")]


def test_a_record_that_cannot_be_replayed_ends_the_node_because_the_machine_is_behind_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()

    def fail(_record: str, _context: ReplayContext) -> None:
        raise LookupError("no such group")

    with monkeypatch.context() as broken:
        broken.setattr(stage.machine, "replay", fail)
        with pytest.raises(LookupError):
            stage.write("a")
    assert stage.log.batches == [["a"]]
    with pytest.raises(LookupError, match="no such group"):
        stage.fire(0)


@pytest.mark.parametrize("is_announced", [False, True])
def test_a_reply_that_its_receiver_cannot_take_ends_the_node_and_not_the_request_that_is_decided_on(
    *, is_announced: bool
) -> None:
    def fail(_told: object) -> None:
        raise LookupError("no such room")

    def announce(decision: Decision[str]) -> None:
        decision.append("a")
        decision.announce("a")

    stage = Stage(on_announcement=fail)
    if is_announced:
        stage.runtime.decide_alone(announce)
    else:
        stage.runtime.ask(partial(stage.machine.write, ["a"]), fail, lambda error: error.code)
    stage.log.high_watermark = 1
    stage.write("b")
    stage.commit_below(2)
    assert (stage.log.batches, stage.heard) == ([["a"], ["b"]], [1])
    with pytest.raises(LookupError, match="no such room"):
        stage.fire(0)


def test_a_decision_that_is_refused_by_its_machine_changes_nothing_either() -> None:
    stage = Stage()

    def decide(decision: Decision[str], reply_to: Hashable) -> None:
        stage.machine.write(["a"], decision, reply_to)
        raise KafkaError(ErrorCode.INVALID_REQUEST, "on second thoughts")

    stage.runtime.ask(decide, stage.heard.append, lambda error: error.code)
    assert stage.heard == [ErrorCode.INVALID_REQUEST]
    assert (stage.log.batches, stage.machine.soft.members) == ([], set())


def test_a_bug_of_the_machine_leaves_no_soft_state_and_no_request_behind() -> None:
    stage = Stage()

    def decide(decision: Decision[str], reply_to: Hashable) -> None:
        stage.machine.write(["a"], decision, reply_to)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stage.runtime.ask(decide, stage.heard.append, lambda error: error.code)
    assert stage.machine.soft.members == set()
    stage.runtime.close(CLOSED)
    assert stage.heard == []


def test_what_no_request_waits_for_raises_when_it_is_refused() -> None:
    stage = Stage()
    stage.log.failures = [REFUSED]
    with pytest.raises(KafkaError):
        stage.runtime.decide_alone(lambda decision: decision.append("a"))
    assert stage.machine.replayed == []


def test_a_timer_whose_decision_is_refused_fires_again() -> None:
    stage = Stage()
    stage.set_timer("t", 100)
    stage.log.failures = [REFUSED, REFUSED]
    for now_ms in (100, 100 + RETRY_MS, 100 + 2 * RETRY_MS, 100 + 3 * RETRY_MS):
        stage.fire(now_ms)
    assert stage.machine.fired == [("t", 100), ("t", 100 + RETRY_MS), ("t", 100 + 2 * RETRY_MS)]
    assert stage.log.batches == [["timer t"]]


def test_refused_timers_are_told_of_when_it_begins_then_seldom_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It used to be a line a second for each of them, for as long as too few replicas were in sync."""
    caplog.set_level(logging.INFO)
    stage, tries = Stage(), 2 * INTERVAL_MS // RETRY_MS
    for key in ("t", "u", "v"):
        stage.set_timer(key, 0)
    stage.log.failures = [REFUSED for _ in range(3 * tries)]
    for turn in range(tries):
        stage.fire(turn * RETRY_MS)
    stage.runtime.decide_alone(lambda decision: decision.cancel_timer("v"))
    first, second = caplog.messages
    assert "the state machine could not act on t" in first
    assert "could not act on t" in second
    assert f"(and {3 * INTERVAL_MS // RETRY_MS - 1} times more before)" in second
    stage.fire(tries * RETRY_MS)
    (over,) = caplog.messages[2:]
    assert "has acted on all that was refused before" in over


def test_timers_of_a_refused_decision_are_not_set() -> None:
    stage = Stage()
    stage.set_timer("t", 100)
    stage.log.failures = [REFUSED]

    def decide(decision: Decision[str]) -> None:
        decision.append("a")
        decision.cancel_timer("t")
        decision.set_timer("u", 50)

    with pytest.raises(KafkaError):
        stage.runtime.decide_alone(decide)
    stage.fire(100)
    assert [key for key, _ in stage.machine.fired] == ["t"]


def test_what_is_due_can_be_done_before_the_next_request() -> None:
    stage = Stage()
    stage.set_timer("now", 0)
    stage.set_timer("later", 1)
    stage.runtime.fire_due()
    assert stage.machine.fired == [("now", 0)]
    stage.fire(1)
    assert stage.machine.fired == [("now", 0), ("later", 1)]


def test_the_end_of_the_epoch_refuses_what_waits_and_fires_nothing_more() -> None:
    stage = Stage()
    stage.write("a")
    stage.set_timer("t", 100)
    stage.runtime.close(CLOSED)
    assert stage.heard == [ErrorCode.NOT_COORDINATOR]
    stage.commit_below(1)
    stage.fire(100)
    assert (stage.heard, stage.machine.fired, len(stage.timers)) == (
        [ErrorCode.NOT_COORDINATOR],
        [],
        0,
    )


def test_an_epoch_that_ends_inside_an_append_leaves_no_timer_and_no_second_reply() -> None:
    stage = Stage()

    def close_and_append(append: Callable[..., int], records: Sequence[str], wall_ms: int) -> int:
        stage.runtime.close(CLOSED)
        return append(records, wall_ms)

    stage.log.append = partial(close_and_append, stage.log.append)  # type: ignore[method-assign]

    def decide(decision: Decision[str], reply_to: Hashable) -> None:
        stage.machine.write(["a"], decision, reply_to)
        decision.set_timer("t", 100)

    stage.runtime.ask(decide, stage.heard.append, lambda error: error.code)
    stage.commit_below(1)
    assert (stage.heard, len(stage.timers)) == ([ErrorCode.NOT_COORDINATOR], 0)


def test_a_sender_that_gave_up_hears_nothing() -> None:
    stage = Stage()
    token = stage.write("a")
    stage.runtime.forget(token)
    stage.commit_below(1)
    assert stage.heard == []
    assert stage.machine.replayed == [(0, "a")]


def test_records_that_stand_for_themselves_may_be_several_batches() -> None:
    stage = Stage(split=lambda records: (records[:2], records[2:]))
    stage.log.failures = [None, REFUSED]
    stage.write("a", "b", "c")
    assert stage.log.batches == [["a", "b"]]
    assert stage.machine.replayed == [(0, "a"), (1, "b")], (
        "what was appended is replayed, whatever comes of the rest"
    )
    assert stage.heard == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_reply_that_waits_too_long_is_refused_and_those_behind_it_have_time_of_their_own() -> (
    None
):
    stage = Stage(reply_timeout_ms=100)
    stage.write("a")
    stage.clock.now_ms = 60
    stage.write("b")
    stage.fire(100)
    assert stage.heard == [ErrorCode.REQUEST_TIMED_OUT]
    stage.commit_below(2)
    assert stage.heard == [ErrorCode.REQUEST_TIMED_OUT, 1]
    stage.fire(160)
    stage.write("c")
    stage.fire(259)
    assert len(stage.heard) == 2
    stage.fire(260)
    assert stage.heard[2:] == [ErrorCode.REQUEST_TIMED_OUT]
    assert stage.machine.replayed == [(0, "a"), (1, "b"), (2, "c")], "what was appended stays"


def test_a_closed_runtime_refuses_nothing_a_second_time() -> None:
    stage = Stage(reply_timeout_ms=100)
    stage.write("a")
    stage.runtime.close(CLOSED)
    stage.fire(200)
    assert stage.heard == [ErrorCode.NOT_COORDINATOR]


def test_an_announcement_waits_for_the_high_watermark_without_a_bound_and_is_lost_with_the_epoch() -> (
    None
):
    announced: list[object] = []
    stage = Stage(reply_timeout_ms=100, on_announcement=announced.append)

    def decide(decision: Decision[str]) -> None:
        decision.append("a")
        decision.announce("a is safe")

    stage.runtime.decide_alone(decide)
    stage.fire(1_000)
    assert announced == []
    stage.commit_below(1)
    assert announced == ["a is safe"]
    stage.runtime.decide_alone(decide)
    stage.runtime.close(CLOSED)
    stage.commit_below(2)
    assert announced == ["a is safe"]


def test_a_refused_decision_announces_nothing() -> None:
    announced: list[object] = []
    stage = Stage(on_announcement=announced.append)

    def decide(decision: Decision[str]) -> None:
        decision.append("a")
        decision.announce("a is safe")

    stage.log.failures = [REFUSED]
    with pytest.raises(KafkaError):
        stage.runtime.decide_alone(decide)
    stage.commit_below(1)
    assert announced == []
