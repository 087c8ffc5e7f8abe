"""A new controller knows from the metadata which brokers were there. It elects one once it has heard of it, and not before."""

import pytest

from log_service.common.types import BrokerEpoch, NodeId
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from log_service.protocol.stored.metadata_records import PartitionChangeRecord
from tests.unit.controller.context import ControllerContext, cluster, epoch_of, sets

PREFERRED, UNCLEAN = 0, 1
BOTH = pytest.mark.parametrize("elr", [True, False], ids=["with eligible leaders", "without"])


def declare_dead(context: ControllerContext, node_id: int) -> None:
    """Have the controller find out that the process of a broker is gone."""
    epoch = BrokerEpoch(epoch_of(context, node_id))
    context.perform(lambda decision: context.controller.declare_dead(NodeId(node_id), epoch, decision))


def elect(context: ControllerContext, election_type: int) -> None:
    """Have an operator ask for an election."""
    topics = [TopicPartitions(topic="a", partitions=[0])]
    context.ask(ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout_ms=1_000))


# Who is elected


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
def test_the_preferred_leader_has_to_be_heard_of(elr: bool) -> None:
    context = cluster(1, 2, elr=elr)
    context.leave(1)
    context.start(1, incarnation=2)
    context.write(PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2]))
    context.new_epoch()
    elect(context, PREFERRED)
    assert context.partition("a").leader == 2
    context.beat(1)
    elect(context, PREFERRED)
    assert context.partition("a").leader == 1


@BOTH
@pytest.mark.parametrize("comes_back", [True, False])
def test_no_election_is_unclean_while_a_broker_that_has_every_record_may_be_there(elr: bool, comes_back: bool) -> None:
    context = cluster(1, 2, 3, elr=elr, unclean_leader_election_enable="true")
    context.write(PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2]))
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


def test_a_broker_that_registered_with_this_controller_is_not_presumed() -> None:
    context = cluster(1, 2, elr=True).new_epoch()
    declare_dead(context, 2)
    context.start(2, incarnation=2)
    context.write(PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2]))
    declare_dead(context, 1)
    assert sets(context) == (2, (2,), ())
