"""What is said of ids that are those of no broker."""

from typing import Any, cast
from uuid import UUID

import pytest

from log_service.client.admin.values import QuorumDescription, QuorumReplica
from log_service.cluster_operations.membership import refuse_unknown_brokers
from log_service.cluster_plans.layout import PlanRefused
from log_service.common.errors import ErrorCode, KafkaError
from tests.unit.cluster_plans.layouts import broker, layout


class Admin:
    """An admin of a cluster with two brokers and a controller apart, 3001; without a leader it does not tell the quorum."""

    def __init__(self, *, has_leader: bool = True) -> None:
        self.has_leader = has_leader

    def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        assert timeout_ms is not None
        if not self.has_leader:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no response")
        controller, observer = (
            QuorumReplica(node_id=node_id, directory_id=UUID(int=0), log_end_offset=5, last_fetch_ms=1, last_caught_up_ms=1)
            for node_id in (3001, 2)
        )
        return QuorumDescription(
            leader_id=3001, leader_epoch=1, high_watermark=5, voters=(controller,), observers=(observer,), endpoints={}
        )


CLUSTER = layout([broker(1), broker(2)], [])


@pytest.mark.parametrize(
    ("broker_ids", "said"),
    [
        ([1, 9], "there is no broker 9; there are 1, 2"),
        ([9, 1, 8, 9], "there are no brokers 9, 8; there are 1, 2"),
        ([3001], "node 3001 is a controller and no broker, so it has no replicas; there are 1, 2"),
        ([3001, 7], "node 3001 is a controller and no broker, so it has no replicas; there is no broker 7; there are 1, 2"),
    ],
)
def test_all_ids_that_are_of_no_broker_are_told_at_once(broker_ids: list[int], said: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        refuse_unknown_brokers(cast("Any", Admin()), CLUSTER, broker_ids)
    assert str(refused.value) == said


def test_ids_are_told_without_a_quorum_too() -> None:
    refuse_unknown_brokers(cast("Any", Admin(has_leader=False)), CLUSTER, [1, 2])
    with pytest.raises(PlanRefused, match="there is no broker 3001; there are 1, 2"):
        refuse_unknown_brokers(cast("Any", Admin(has_leader=False)), CLUSTER, [3001])
