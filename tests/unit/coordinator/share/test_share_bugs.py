"""The model finds each easy mistake with share groups that is planted into the share partition."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from log_service.coordinator.share import acknowledging, share_partition
from log_service.coordinator.share.acknowledging import Acknowledging
from log_service.coordinator.share.acquiring import Acquisition, ShareSettings
from log_service.coordinator.share.in_flight import Delivery, InFlightBatch, Run
from log_service.coordinator.share.record_states import RecordState
from log_service.coordinator.share.share_partition import SharePartition
from log_service.coordinator.share.window import DeliveryWindow
from tests.unit.coordinator.share.share_group_model import ShareGroupModel

MAX_EXAMPLES = 3_000
"""How many stories the model may take to find a bug."""
SEEDS = {
    "lose_the_gaps_of_an_earlier_leader": 8,
    "deliver_what_is_being_stored": 3,
    "keep_what_was_not_stored": 1,
}
"""Seeds that find these bugs within sixty stories; the others are found as soon with any."""

Plant = Callable[[pytest.MonkeyPatch], None]


def deliver_what_is_being_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver a released record before its release is stored.

    If the write fails, two members hold it.
    """
    monkeypatch.setattr(
        Run, "is_acquirable", property(lambda run: run.delivery.state is RecordState.AVAILABLE)
    )


def pass_over_what_is_being_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the start offset over a record whose acknowledgement is not stored yet.

    If the write fails, the record is lost.
    """
    monkeypatch.setattr(Run, "is_settled_final", property(lambda run: run.delivery.is_final))


def forget_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is delivered again counts as delivered once."""
    locked = Acquisition.locked_delivery
    monkeypatch.setattr(Acquisition, "locked_delivery", lambda one, _count: locked(one, 1))


def count_when_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count is raised on release too, so that records are given up after half the attempts."""
    given_back = acknowledging.given_back

    def raised(delivery: Delivery, limit: int) -> Delivery:
        return given_back(replace(delivery, delivery_count=delivery.delivery_count + 1), limit)

    monkeypatch.setattr(acknowledging, "given_back", raised)
    monkeypatch.setattr(share_partition, "given_back", raised)


def deliver_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make released records available however often they were delivered."""

    def given_back(delivery: Delivery, _limit: int) -> Delivery:
        return delivery.followed_by(RecordState.AVAILABLE, delivery.delivery_count)

    monkeypatch.setattr(acknowledging, "given_back", given_back)
    monkeypatch.setattr(share_partition, "given_back", given_back)


def keep_what_was_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that failed counts all the same."""
    monkeypatch.setattr(Run, "settled", lambda run, *, is_written: run.changed(run.delivery))


def hold_locks_a_little_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock outlives its deadline."""
    expire_locks = SharePartition.expire_locks
    monkeypatch.setattr(
        SharePartition, "expire_locks", lambda one, now_ms: expire_locks(one, now_ms - 1)
    )


def let_anyone_acknowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any member acknowledge a record."""
    change = Acknowledging.change_state

    def anyone(
        one: Acknowledging, batch: InFlightBatch, first: int, last: int, of_type: Any
    ) -> None:
        for run in batch.runs_in(first, last):
            change(
                replace(one, member_id=run.delivery.member_id), batch, run.first, run.last, of_type
            )

    monkeypatch.setattr(Acknowledging, "change_state", anyone)


def acknowledge_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the changes of a request before the part of it that is refused."""
    monkeypatch.setattr(InFlightBatch, "restore", lambda *_: None)


def lose_the_gaps_of_an_earlier_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver no gaps of an earlier leader again.

    They are records that were acquired between others and never acknowledged.
    """
    monkeypatch.setattr(DeliveryWindow, "gap_start", property(lambda _window: None))


def release_one_record_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that has ended gives back the first run that its member held, and no other."""
    give_back = SharePartition.give_back

    def first_alone(one: SharePartition, runs: Any, change: Any) -> Any:
        return give_back(one, list(runs)[:1], change)

    monkeypatch.setattr(SharePartition, "give_back", first_alone)


def give_up_before_the_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a record whose last lock expires at once.

    Its dead letter should be written before.
    """
    monkeypatch.setattr(SharePartition, "needs_dead_letter", lambda *_: False)


def send_rejected_records_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is rejected has no dead letter."""
    monkeypatch.setattr(Acknowledging, "note_dead_letters", lambda *_: None)


def begin_behind_what_was_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin at a new leader behind records that no member has acknowledged.

    The stored start is the end.
    """
    write = SharePartition.state_write

    def far(one: SharePartition, runs: Any, dead: Any = ()) -> Any:
        written = write(one, runs, dead)
        return None if written is None else replace(written, start_offset=one.end_offset)

    monkeypatch.setattr(SharePartition, "state_write", far)


def take_too_many_by_the_limit_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-1206's limit of records is as soft as the other."""
    add_strictly = Acquisition.add_strictly
    monkeypatch.setattr(
        Acquisition,
        "add_strictly",
        lambda one, first, last, remaining: add_strictly(one, first, last, remaining + 1),
    )


def throttle_nothing_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that fails again and again takes its neighbours down with it."""
    monkeypatch.setattr(ShareSettings, "throttled_from_count", property(lambda _settings: 1_000))


BUGS = (
    deliver_what_is_being_stored,
    pass_over_what_is_being_stored,
    forget_to_count,
    count_when_given_back,
    deliver_without_limit,
    keep_what_was_not_stored,
    hold_locks_a_little_longer,
    let_anyone_acknowledge,
    acknowledge_in_part,
    lose_the_gaps_of_an_earlier_leader,
    release_one_record_of_a_session,
    give_up_before_the_letter,
    send_rejected_records_nowhere,
    begin_behind_what_was_acquired,
    take_too_many_by_the_limit_of_records,
    throttle_nothing_ever,
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda bug: bug.__name__)
def test_the_model_finds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    class Seeded(ShareGroupModel):
        """The model, playing the stories of one seed."""

    seed(SEEDS.get(plant.__name__, 0))(Seeded)
    quick = settings(
        max_examples=MAX_EXAMPLES,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(Exception):  # noqa: B017, PT011 - what it breaks is the bug's own business
        run_state_machine_as_test(Seeded, settings=quick)
