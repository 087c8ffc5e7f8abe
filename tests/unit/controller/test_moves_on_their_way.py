"""Other requests change moves that are under way.

Moves are taken back, and they are listed (KIP-455).
"""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.controller.rules.reassignments import list_partition_reassignments
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from log_service.protocol.stored.metadata_records import PartitionChangeRecord
from tests.unit.controller.context import ControllerContext, new_topic

RECOVERING = 1


def cluster(**configs: str) -> ControllerContext:
    """Brokers 1 to 4, and a topic ``a`` of one partition on 1 and 2, which are in sync."""
    context = ControllerContext().start(1, 2, 3, 4)
    named = {key.replace("_", "."): value for key, value in configs.items()}
    (result,) = context.create(new_topic("a", assignments={0: (1, 2)}, configs=named))
    assert result.error_code == ErrorCode.NONE, result
    return context


def move(context: ControllerContext, *replicas: int, topic: str = "a") -> ErrorCode:
    """Move the partition, or take its move back where no replicas are named."""
    wanted = ReassignablePartition(partition_index=0, replicas=list(replicas) or None)
    response = context.ask(
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[wanted])]
        )
    )
    return ErrorCode(response.responses[0].partitions[0].error_code)


def in_sync(context: ControllerContext, *isr: int, **fields: Any) -> None:
    topic_id = context.topic("a").topic_id
    context.write(PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=list(isr), **fields))


def placed(context: ControllerContext) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = context.partition("a")
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def listed(context: ControllerContext, *indexes: int, topic: str = "a") -> list[int]:
    asked = ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(indexes))
    response = list_partition_reassignments(
        context.controller.image, ListPartitionReassignmentsRequest(topics=[asked])
    )
    return [
        partition.partition_index for topic in response.topics for partition in topic.partitions
    ]


def test_another_move_waits_for_what_the_first_one_adds_and_it_wants_too() -> None:
    """Broker 3 has not caught up when the second request comes: it may not count as there."""
    context = cluster()
    assert move(context, 1, 3) is ErrorCode.NONE
    assert move(context, 3, 4) is ErrorCode.NONE
    assert placed(context) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert move(context, 3) is ErrorCode.NONE
    assert placed(context) == ((3, 1, 2, 4), (3,), (1, 2, 4)), (
        "nothing has left before broker 3 is in sync"
    )


def test_a_move_that_only_adds_and_one_that_only_removes_are_taken_back() -> None:
    adding = cluster()
    assert move(adding, 1, 2, 3) is ErrorCode.NONE
    assert listed(adding, 0) == [0]
    assert move(adding) is ErrorCode.NONE
    assert placed(adding) == ((1, 2), (), ())
    removing = cluster()
    in_sync(removing, 1)
    assert move(removing, 2) is ErrorCode.NONE
    assert placed(removing) == ((2, 1), (), (1,)), "it waits for broker 2 to come back in sync"
    assert listed(removing, 0) == [0]
    assert move(removing) is ErrorCode.NONE
    assert placed(removing) == ((2, 1), (), ())


def test_a_move_that_is_taken_back_keeps_who_is_in_sync() -> None:
    context = cluster()
    move(context, 3)
    in_sync(context, 2, leader=2)
    assert move(context) is ErrorCode.NONE
    partition = context.partition("a")
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2), (
        "and not the first of the replicas"
    )


@pytest.mark.parametrize("is_allowed", [False, True])
def test_only_an_unclean_election_takes_a_move_back_to_replicas_that_lack_records(
    *, is_allowed: bool
) -> None:
    context = cluster(unclean_leader_election_enable=str(is_allowed).lower())
    move(context, 3)
    in_sync(context, 3, leader=3)
    before = context.partition("a")
    code = move(context)
    partition = context.partition("a")
    if not is_allowed:
        assert (code, partition) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, before)
        return
    assert code is ErrorCode.NONE
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (1,), 1)


def test_moves_of_what_is_not_there_are_not_listed() -> None:
    context = cluster()
    move(context, 3)
    assert listed(context, 0, 7) == [0]
    assert listed(context, 0, topic="b") == []
    assert move(context, 3, topic="b") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("replicas", "told"), [((9,), "unknown"), ((3, 3), "twice")], ids=["unknown", "twice"]
)
def test_a_move_to_brokers_that_cannot_be_is_refused_and_the_one_under_way_goes_on(
    replicas: tuple[int, ...], told: str
) -> None:
    context = cluster()
    move(context, 3)
    before = context.partition("a")
    assert move(context, *replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT, told
    assert context.partition("a") == before
