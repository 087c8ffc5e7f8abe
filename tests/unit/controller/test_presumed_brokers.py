"""A new controller knows from the metadata which brokers were there. It elects one once it has
heard of it, and not before.

So it is with a broker that any controller suspects, for its connection has ended and its addresses
refuse others.
"""

import pytest

from log_service.common.types import BrokerEpoch, NodeId
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from tests.unit.controller.context import (
    FIRST,
    SECOND,
    SESSION_MS,
    ControllerContext,
    cluster,
    epoch_of,
    new_topic,
    sets,
)

PREFERRED, UNCLEAN = 0, 1
BOTH = pytest.mark.parametrize("elr", [True, False], ids=["with eligible leaders", "without"])


def declare_dead(context: ControllerContext, node_id: int) -> None:
    """Have the controller find out that the process of a broker is gone."""
    epoch = BrokerEpoch(epoch_of(context, node_id))
    context.perform(
        lambda decision: context.controller.declare_dead(NodeId(node_id), epoch, decision)
    )


def suspect(context: ControllerContext, node_id: int) -> None:
    """Have the connection of a broker end, and its addresses refuse others."""
    epoch = BrokerEpoch(epoch_of(context, node_id))
    context.perform(lambda decision: context.controller.suspect(NodeId(node_id), epoch, decision))


def restart(context: ControllerContext, node_id: int, *, has_lost_nothing: bool = True) -> None:
    """Register the next process of a broker."""
    context.register(
        node_id,
        incarnation=2,
        previous_broker_epoch=epoch_of(context, node_id) if has_lost_nothing else -1,
    )


def elect(context: ControllerContext, election_type: int) -> str | None:
    """Have an operator ask for an election, and return why it was refused."""
    topics = [TopicPartitions(topic="a", partitions=[0])]
    response = context.ask(
        ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout_ms=1_000)
    )
    why: str | None = response.replica_election_results[0].partition_result[0].error_message
    return why


# Who stays eligible (KIP-966)


@pytest.mark.parametrize("replicas", [(1, 2), (2, 1)], ids=["the leader goes", "a follower goes"])
def test_who_goes_and_who_is_only_presumed_to_stay_are_eligible_together(
    replicas: tuple[int, int],
) -> None:
    """The controller cannot tell which of them still has its records: the first that is heard of
    leads.
    """
    context = cluster(*replicas, elr=True).new_epoch()
    restart(context, 1)
    assert sets(context) == (-1, (), (1, 2))
    context.beat(2)
    assert sets(context) == (2, (2,), ())


def test_a_presumed_broker_that_has_lost_its_disk_takes_nothing_from_the_one_that_has_restarted() -> (
    None
):
    """Broker 2 died before the controller did, and broker 1 after it.

    A controller that left 2 alone in sync would elect its empty log.
    """
    context = cluster(1, 2, elr=True).new_epoch()
    restart(context, 1)
    context.pass_ms(SESSION_MS)
    restart(context, 2, has_lost_nothing=False)
    assert sets(context) == (-1, (), (1,))
    context.beat(2)
    assert context.partition("a").leader == -1
    context.beat(1)
    assert sets(context) == (1, (1,), ())


def test_a_broker_that_was_heard_of_stays_in_sync_and_leads() -> None:
    context = cluster(1, 2, elr=True).new_epoch()
    context.beat(2)
    restart(context, 1)
    assert sets(context) == (2, (2,), ())


def test_one_broker_that_was_heard_of_is_enough_for_all_to_stay() -> None:
    context = cluster(2, 1, 3, elr=True).new_epoch()
    context.beat(3)
    declare_dead(context, 1)
    assert sets(context) == (2, (2, 3), ()), (
        "a presumed leader leads on: the change is not about it"
    )


def test_a_replica_that_was_not_in_sync_takes_no_other_out_of_the_set() -> None:
    context = ControllerContext()
    context.register(1, log_dirs=(FIRST, SECOND))
    context.beat(1)
    context.start(2)
    context.create(new_topic("a", assignments={0: (2, 1)}))
    (disk,) = context.controller.image.cluster.brokers[NodeId(2)].log_dirs
    context.write(
        PartitionChangeRecord(
            topic_id=context.topic("a").topic_id, partition_id=0, isr=[2], directories=[disk, FIRST]
        )
    )
    context.new_epoch().beat(1, offline_log_dirs=[FIRST])
    assert sets(context) == (2, (2,), ())


def test_two_brokers_that_die_within_one_grace_stay_eligible_together() -> None:
    """The broker that is found dead first leaves the other, which is dead, too.

    That one has lost its disk, and alone it must not be eligible.
    """
    context = cluster(1, 2, elr=True)
    suspect(context, 1)
    suspect(context, 2)
    declare_dead(context, 1)
    assert sets(context) == (-1, (), (1, 2))
    declare_dead(context, 2)
    assert sets(context) == (-1, (), (1, 2))
    restart(context, 2, has_lost_nothing=False)
    context.beat(2)
    assert context.partition("a").leader == -1
    restart(context, 1)
    context.beat(1)
    assert sets(context) == (1, (1,), ())


# Who is elected


@BOTH
def test_a_suspected_broker_leads_on_and_is_elected_once_it_is_heard_of(elr: bool) -> None:
    context = cluster(1, 2, elr=elr)
    suspect(context, 1)
    assert context.partition("a").leader == 1
    suspect(context, 2)
    declare_dead(context, 1)
    assert context.partition("a").leader == -1
    context.beat(2)
    assert context.partition("a").leader == 2


def test_a_suspicion_of_a_process_that_another_has_followed_means_nothing() -> None:
    context = cluster(1, 2, elr=True)
    before = BrokerEpoch(epoch_of(context, 2))
    declare_dead(context, 2)
    context.start(2, incarnation=2)
    context.write(
        PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2])
    )
    context.perform(lambda decision: context.controller.suspect(NodeId(2), before, decision))
    declare_dead(context, 1)
    assert sets(context) == (2, (2,), ())


@BOTH
def test_the_last_broker_in_sync_leads_when_it_is_heard_of(elr: bool) -> None:
    context = cluster(1, 2, elr=elr).new_epoch()
    declare_dead(context, 1)
    assert context.partition("a").leader == -1
    epoch = context.partition("a").leader_epoch
    context.beat(2)
    assert (context.partition("a").leader, context.partition("a").leader_epoch) == (2, epoch + 1)
    count = len(context.records)
    context.beat(2)
    assert len(context.records) == count


@BOTH
def test_a_broker_that_is_leaving_when_it_is_heard_of_is_not_elected(elr: bool) -> None:
    context = cluster(1, 2, elr=elr).new_epoch()
    declare_dead(context, 1)
    assert context.beat(2, want_shut_down=True).should_shut_down
    assert context.partition("a").leader == -1


@BOTH
def test_a_broker_whose_shutdown_another_controller_has_begun_is_not_elected(elr: bool) -> None:
    context = cluster(1, 2, elr=elr)
    context.write(
        BrokerRegistrationChangeRecord(
            broker_id=2, broker_epoch=epoch_of(context, 2), in_controlled_shutdown=1
        )
    )
    context.new_epoch()
    declare_dead(context, 1)
    context.beat(2)
    assert context.partition("a").leader == -1


@BOTH
def test_the_preferred_leader_has_to_be_heard_of(elr: bool) -> None:
    context = cluster(1, 2, elr=elr)
    context.leave(1)
    context.start(1, incarnation=2)
    context.write(
        PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2])
    )
    context.new_epoch()
    elect(context, PREFERRED)
    assert context.partition("a").leader == 2
    context.beat(1)
    elect(context, PREFERRED)
    assert context.partition("a").leader == 1


@BOTH
@pytest.mark.parametrize("comes_back", [True, False])
def test_no_election_is_unclean_while_a_broker_that_has_every_record_may_be_there(
    elr: bool, comes_back: bool
) -> None:
    context = cluster(1, 2, 3, elr=elr, unclean_leader_election_enable="true")
    context.write(
        PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2])
    )
    context.new_epoch().beat(3)
    declare_dead(context, 1)
    elect(context, UNCLEAN)
    assert context.partition("a").leader == -1
    if comes_back:
        context.beat(2)
        assert sets(context) == (2, (2,), ())
    else:
        declare_dead(context, 2)
        assert sets(context) == (3, (3,), ())


@BOTH
def test_an_operator_is_told_which_broker_an_election_waits_for(elr: bool) -> None:
    """The response said that no broker with a replica is active, and so that there is nothing to
    wait for.
    """
    context = cluster(1, 2, 3, elr=elr)
    context.write(
        PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2])
    )
    context.new_epoch().beat(3)
    declare_dead(context, 1)
    waits = "the controller has not heard of broker 2 yet, or has reason to doubt that it is there: ask again in some seconds"
    assert elect(context, UNCLEAN) == f"{waits}, when it either leads or is fenced"
    declare_dead(context, 2)
    declare_dead(context, 3)
    assert elect(context, UNCLEAN) == "no broker that has a replica is active"


def test_an_operator_is_told_that_the_preferred_leader_is_waited_for() -> None:
    context = cluster(1, 2, elr=True)
    context.leave(1)
    context.start(1, incarnation=2)
    assert elect(context, PREFERRED) == "broker 1, the preferred leader, is not active and in sync"
    context.write(
        PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2])
    )
    context.new_epoch()
    why = elect(context, PREFERRED)
    assert why is not None
    assert why.startswith(
        "the controller has not heard of broker 1 yet, or has reason to doubt that it is there"
    )


def test_an_operator_is_told_of_replicas_that_cannot_lead_though_their_brokers_are_active() -> None:
    context = ControllerContext()
    context.register(1, log_dirs=(FIRST, SECOND))
    context.beat(1)
    context.create(new_topic("a", assignments={0: (1,)}))
    context.write(
        PartitionChangeRecord(
            topic_id=context.topic("a").topic_id, partition_id=0, directories=[FIRST]
        )
    )
    context.beat(1, offline_log_dirs=[FIRST])
    assert context.partition("a").leader == -1
    assert (
        elect(context, UNCLEAN)
        == "no replica can lead: that of broker 1 is on a log directory that has failed, or the broker observes"
    )


def test_a_broker_that_registered_with_this_controller_is_not_presumed() -> None:
    context = cluster(1, 2, elr=True).new_epoch()
    declare_dead(context, 2)
    context.start(2, incarnation=2)
    context.write(
        PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2])
    )
    declare_dead(context, 1)
    assert sets(context) == (2, (2,), ())
