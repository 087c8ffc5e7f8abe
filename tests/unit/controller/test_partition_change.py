"""One change of a partition decides its leader, its ISR and its ELR (KIP-455, KIP-841, KIP-966)."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch
from log_service.controller.rules.partition_change import (
    Election,
    PartitionPolicy,
    change_of,
    finished_if_done,
    unchanged,
)
from log_service.metadata.partition import PartitionRegistration, changed_partition
from log_service.protocol.stored.metadata_records import PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1
NOBODY = -1


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def partition_on(
    *replicas: int, isr: tuple[int, ...] | None = None, leader: int | None = None, **fields: Any
) -> PartitionRegistration:
    members = replicas if isr is None else isr
    led_by = leader if leader is not None else members[0] if members else NOBODY
    lists: dict[str, Any] = {
        name: nodes(*value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
    return PartitionRegistration(
        replicas=nodes(*replicas),
        isr=nodes(*members),
        leader=NodeId(led_by),
        leader_epoch=LeaderEpoch(10),
        partition_epoch=PartitionEpoch(100),
        directories=tuple(UUID(int=1000 + node_id) for node_id in replicas),
        **lists,
    )


def after(
    partition: PartitionRegistration,
    *,
    active: tuple[int, ...],
    min_isr: int = 2,
    elr: bool = True,
    election: Election = Election.CLEAN,
    **target: Any,
) -> PartitionRegistration:
    """The partition after one change; the same one where nothing changed."""
    wanted = {
        name: nodes(*value) if isinstance(value, tuple) else value for name, value in target.items()
    }
    record = change_of(
        partition,
        unchanged(partition, **wanted),
        PartitionPolicy(min_isr=min_isr, keeps_eligible=elr, election=election),
        may_lead=lambda node_id: node_id in active,
        default_directory=lambda node_id: UUID(int=2000 + node_id),
    )
    return partition if record is None else changed_partition(partition, record)


def sets(
    partition: PartitionRegistration,
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return (
        partition.leader,
        partition.isr,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
    )


# Epochs


def test_a_smaller_in_sync_set_raises_the_partition_epoch_alone() -> None:
    changed = after(partition_on(1, 2, 3), active=(1, 2, 3), isr=(1, 2))
    assert (changed.leader_epoch, changed.partition_epoch) == (10, 101)


def test_a_new_leader_and_a_lost_one_raise_both_epochs() -> None:
    moved = after(partition_on(1, 2, 3), active=(2, 3), isr=(2, 3))
    assert (moved.leader, moved.leader_epoch, moved.partition_epoch) == (2, 11, 101)
    lost = after(partition_on(1, isr=(1,)), active=(), min_isr=1, isr=())
    assert (lost.leader, lost.leader_epoch, lost.partition_epoch) == (NOBODY, 11, 101)


def test_a_replica_that_leaves_the_partition_begins_a_leader_epoch() -> None:
    changed = after(partition_on(1, 2, 3), active=(1, 2, 3), replicas=(1, 2), isr=(1, 2))
    assert (changed.leader, changed.leader_epoch) == (1, 11)


def test_what_is_so_already_changes_nothing() -> None:
    partition = partition_on(1, 2, 3)
    assert after(partition, active=(1, 2, 3)) is partition


# Eligible leader replicas


def test_members_that_leave_a_set_that_becomes_too_small_are_eligible_until_it_is_large_enough() -> (
    None
):
    small = after(partition_on(1, 2, 3, isr=(1, 2)), active=(1, 3), isr=(1,))
    assert sets(small) == (1, (1,), (2,), ())
    assert sets(after(small, active=(1, 3), isr=(1, 3))) == (1, (1, 3), (), ())


def test_a_set_that_stays_large_enough_makes_no_one_eligible() -> None:
    assert sets(after(partition_on(1, 2, 3), active=(1, 2), isr=(1, 2))) == (1, (1, 2), (), ())


def test_a_set_that_is_too_small_and_not_alone_is_not_eligible_too() -> None:
    assert sets(after(partition_on(1, 2, 3, 4), active=(1, 2, 3, 4), min_isr=3, isr=(1, 2))) == (
        1,
        (1, 2),
        (3, 4),
        (),
    )


def test_the_last_member_is_eligible_when_it_goes_and_leads_when_it_is_back() -> None:
    gone = after(partition_on(1, 2, isr=(1,), eligible_leader_replicas=(2,)), active=(), isr=())
    assert sets(gone) == (NOBODY, (), (1, 2), (1,))
    back = after(gone, active=(2,))
    assert sets(back) == (2, (2,), (1,), ())
    assert (back.leader_recovery_state, back.leader_epoch) == (RECOVERED, 12)


def test_a_broker_that_stopped_uncleanly_is_not_eligible() -> None:
    partition = partition_on(1, 2, 3, isr=(1, 2), eligible_leader_replicas=())
    assert sets(after(partition, active=(2,), isr=(2,), unclean_shutdown=NodeId(1))) == (
        2,
        (2,),
        (),
        (),
    )
    gone = partition_on(
        1, 2, 3, isr=(), leader=NOBODY, eligible_leader_replicas=(1, 2), last_known_elr=(1,)
    )
    assert sets(after(gone, active=(3,), unclean_shutdown=NodeId(1))) == (NOBODY, (), (2,), (1,))


def test_where_no_one_is_eligible_the_last_known_leader_leads_uncleanly() -> None:
    gone = partition_on(1, 2, isr=(), leader=NOBODY, last_known_elr=(2,))
    assert after(gone, active=(1,)) is gone, "another one would have to be allowed"
    back = after(gone, active=(1, 2))
    assert sets(back) == (2, (2,), (), ())
    assert back.leader_recovery_state == RECOVERING


@pytest.mark.parametrize(
    "complete",
    [{"isr": (2,)}, {"isr": (), "eligible_leader_replicas": (2,)}],
    ids=["in sync", "eligible"],
)
def test_the_last_known_leader_waits_for_one_that_has_every_record(
    complete: dict[str, tuple[int, ...]],
) -> None:
    """Broker 1 led last and has less than broker 2, which is down."""
    gone = partition_on(1, 2, leader=NOBODY, last_known_elr=(1,), **complete)
    assert after(gone, active=(1,)) is gone
    assert after(gone, active=(1, 2)).leader == 2


def test_a_last_known_leader_is_no_reason_for_an_unclean_election_where_elr_are_kept_no_more() -> (
    None
):
    gone = partition_on(1, 2, isr=(), leader=NOBODY, last_known_elr=(1,))
    assert after(gone, active=(1,), elr=False) is gone


def test_broker_zero_leads_as_any_other() -> None:
    gone = partition_on(
        0, 1, isr=(), leader=NOBODY, eligible_leader_replicas=(0,), last_known_elr=(0,)
    )
    assert sets(after(gone, active=(0,))) == (0, (0,), (), ())


def test_a_change_says_nothing_of_what_stays() -> None:
    """Nodes of an earlier metadata version may not know all of its fields."""
    record = change_of(
        partition_on(1, 2, 3),
        unchanged(partition_on(1, 2, 3), isr=nodes(2, 3)),
        PartitionPolicy(min_isr=2, keeps_eligible=True),
        may_lead=lambda node_id: node_id != 1,
        default_directory=lambda node_id: UUID(int=2000 + node_id),
    )
    assert record == PartitionChangeRecord(leader=NodeId(2), isr=[NodeId(2), NodeId(3)])


def test_a_last_leader_is_known_only_while_there_is_none() -> None:
    lost = after(partition_on(1, 2, isr=(2,)), active=(), min_isr=1, isr=())
    assert lost.last_known_elr == (2,)
    again = after(lost, active=(2,))
    assert (again.leader, again.last_known_elr) == (2, ())


def test_without_elr_the_last_member_stays_in_sync_without_leading() -> None:
    lost = after(partition_on(1, 2, isr=(2,)), active=(1,), elr=False, isr=())
    assert sets(lost) == (NOBODY, (2,), (), ())
    assert sets(after(lost, active=(1, 2), elr=False)) == (2, (2,), (), ())


def test_elr_that_are_kept_no_more_are_forgotten() -> None:
    partition = partition_on(1, 2, isr=(1,), eligible_leader_replicas=(2,))
    assert sets(after(partition, active=(1, 2), elr=False)) == (1, (1,), (), ())


# Elections


def test_the_present_leader_stays_while_it_may() -> None:
    assert after(partition_on(1, 2, 3, leader=3), active=(1, 2, 3), isr=(2, 3)).leader == 3


def test_a_preferred_election_takes_the_first_replica_that_is_in_sync() -> None:
    partition = partition_on(1, 2, 3, leader=3)
    assert after(partition, active=(1, 2, 3), election=Election.PREFERRED).leader == 1
    assert after(partition, active=(2, 3), election=Election.PREFERRED) is partition


def test_an_unclean_election_takes_any_active_replica_and_keeps_it_alone() -> None:
    partition = partition_on(
        1, 2, 3, isr=(), leader=NOBODY, eligible_leader_replicas=(1,), last_known_elr=(1,)
    )
    led = after(partition, active=(3,), election=Election.UNCLEAN)
    assert sets(led) == (3, (3,), (), ())
    assert led.leader_recovery_state == RECOVERING
    clean = after(partition, active=(1, 3), election=Election.UNCLEAN)
    assert (clean.leader, clean.leader_recovery_state) == (1, RECOVERED), (
        "one that has every record goes first"
    )


# Reassignments


def test_a_move_ends_inside_a_change_that_has_another_reason() -> None:
    partition = partition_on(
        1, 2, 3, 4, isr=(1, 2, 3, 4), adding_replicas=(4,), removing_replicas=(1,)
    )
    changed = after(partition, active=(1, 2, 3, 4), isr=(1, 3, 4))
    assert (changed.replicas, changed.isr, changed.adding_replicas, changed.removing_replicas) == (
        (2, 3, 4),
        (3, 4),
        (),
        (),
    )
    assert (changed.leader, changed.leader_epoch) == (3, 11)
    assert changed.directories == tuple(UUID(int=1000 + node_id) for node_id in (2, 3, 4))


def test_a_move_to_other_brokers_alone_ends_once_all_of_them_are_in_sync() -> None:
    moving = partition_on(3, 4, 1, 2, isr=(1, 2), adding_replicas=(3, 4), removing_replicas=(1, 2))
    waiting = after(moving, active=(1, 2, 3, 4), isr=(1, 2, 3))
    assert waiting.replicas == (3, 4, 1, 2)
    done = after(waiting, active=(1, 2, 3, 4), isr=(1, 2, 3, 4))
    assert (done.replicas, done.isr, done.leader, done.adding_replicas, done.removing_replicas) == (
        (3, 4),
        (3, 4),
        3,
        (),
        (),
    )


def test_a_move_to_observers_alone_never_ends_for_none_of_them_could_lead() -> None:
    """A move that waits for no observer would end at once.

    The partition would have no replica in sync.
    """
    target = unchanged(
        partition_on(3, 4, 1, 2, isr=(1, 2)), adding=nodes(3, 4), removing=nodes(1, 2)
    )
    assert finished_if_done(target, frozenset({3, 4})) is target
    assert finished_if_done(target, frozenset()) is target


def test_a_move_to_fewer_replicas_does_not_wait_for_observers_that_stay() -> None:
    target = unchanged(partition_on(1, 3, 2, isr=(1, 2)), removing=nodes(2))
    done = finished_if_done(target, frozenset({3}))
    assert (done.replicas, done.isr, done.removing) == ((1, 3), (1,), ())
    assert finished_if_done(target) is target, "one that is no observer is waited for"


def test_a_move_to_fewer_replicas_waits_for_all_that_stay() -> None:
    """Kafka's own example: [0, 1, 2, 3, 4] becomes [2, 3, 4, 5] while only 0, 1 and 5 are in sync."""
    partition = partition_on(
        2, 3, 4, 5, 0, 1, isr=(0, 1), adding_replicas=(5,), removing_replicas=(0, 1)
    )
    waiting = after(partition, active=(0, 1, 5), isr=(0, 1, 5))
    assert (waiting.isr, waiting.removing_replicas) == ((0, 1, 5), (0, 1))
    done = after(waiting, active=(0, 1, 2, 3, 4, 5), isr=(0, 1, 2, 3, 4, 5))
    assert (done.replicas, done.isr) == ((2, 3, 4, 5), (2, 3, 4, 5))


def test_a_new_replica_goes_to_the_directory_of_its_broker() -> None:
    partition = partition_on(1, 2)
    changed = after(partition, active=(1, 2, 3), replicas=(1, 3, 2), adding=(3,), removing=(2,))
    assert changed.directories == (UUID(int=1001), UUID(int=2003), UUID(int=1002))


def test_a_partition_of_before_directories_had_ids_gets_them_with_its_next_change() -> None:
    old = partition_on(1, 2)._replace(directories=())
    assert after(old, active=(1, 2), isr=(1,)).directories == (UUID(int=2001), UUID(int=2002))


# The invariant that elections rest on


EVENTS = ("stop", "stop_two", "crash", "come_back", "join", "drop", "write", "prefer", "move")


class Model:
    """A partition on brokers 1 to 4, and what each of them holds. A record is committed once every
    member of an in-sync set that is large enough has it. A broker that crashes loses everything:
    KIP-966 has it leave both sets before it may come back.
    """

    def __init__(self, min_isr: int) -> None:
        self.min_isr = min_isr
        self.partition = partition_on(1, 2, 3)
        self.alive = {1, 2, 3, 4}
        self.held = dict.fromkeys(range(1, 5), 0)
        self.committed = 0

    def change(self, **target: Any) -> None:
        self.partition = after(
            self.partition, active=tuple(self.alive), min_isr=self.required, **target
        )

    @property
    def required(self) -> int:
        return min(self.min_isr, len(self.partition.replicas))

    def without(self, node_id: int) -> tuple[NodeId, ...]:
        return tuple(member for member in self.partition.isr if member != node_id)

    def stop(self, node_id: int) -> None:
        self.alive.discard(node_id)
        self.change(isr=self.without(node_id))

    def stop_two(self, node_id: int) -> None:
        gone = {node_id, node_id % 4 + 1}
        self.alive -= gone
        self.change(isr=tuple(member for member in self.partition.isr if member not in gone))

    def crash(self, node_id: int) -> None:
        self.stop(node_id)
        self.held[node_id] = 0
        self.change(unclean_shutdown=NodeId(node_id))

    def come_back(self, node_id: int) -> None:
        self.alive.add(node_id)
        self.change()

    def join(self, node_id: int) -> None:
        if (
            self.partition.has_leader
            and node_id in self.alive
            and node_id in self.partition.replicas
        ):
            self.held[node_id] = self.held[self.partition.leader]
            self.change(isr=(*self.without(node_id), node_id), recovery_state=RECOVERED)

    def drop(self, node_id: int) -> None:
        if self.partition.has_leader and self.partition.leader != node_id:
            self.change(isr=self.without(node_id))

    def write(self, _node_id: int) -> None:
        if not self.partition.has_leader:
            return
        self.held[self.partition.leader] += 1
        for follower in self.partition.isr:
            self.held[follower] = self.held[self.partition.leader]
        if len(self.partition.isr) >= self.required:
            self.committed = self.held[self.partition.leader]

    def prefer(self, _node_id: int) -> None:
        self.change(election=Election.PREFERRED)

    def move(self, node_id: int) -> None:
        replicas = self.partition.replicas
        if not self.partition.adding_replicas and node_id not in replicas:
            self.change(replicas=(node_id, *replicas), adding=(node_id,), removing=(replicas[-1],))

    def check(self) -> None:
        partition = self.partition
        if partition.leader_recovery_state == RECOVERING and partition.has_leader:
            # What an unclean election loses, it has told.
            self.committed = min(self.committed, self.held[partition.leader])
        assert not set(partition.isr) & set(partition.eligible_leader_replicas)
        assert {*partition.isr, *partition.eligible_leader_replicas} <= set(partition.replicas)
        assert not partition.has_leader or partition.leader in partition.isr
        complete = (*partition.isr, *partition.eligible_leader_replicas)
        assert all(self.held[member] >= self.committed for member in complete), (
            partition,
            self.held,
            self.committed,
        )


@pytest.mark.parametrize("min_isr", [1, 2, 3])
@example(history=[("drop", 3), ("stop_two", 1), ("come_back", 1), ("write", 1)])
@given(history=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 4)), max_size=40))
def test_every_replica_that_may_be_elected_holds_all_that_is_committed(
    min_isr: int, history: list[tuple[str, int]]
) -> None:
    model = Model(min_isr)
    for event, node_id in history:
        getattr(model, event)(node_id)
        model.check()
