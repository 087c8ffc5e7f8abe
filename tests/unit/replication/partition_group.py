"""A leader as a value, with its followers and a clock: what tests of ``PartitionState`` are told
with.
"""

from collections.abc import Sequence
from typing import Any

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch
from log_service.metadata.partition import PartitionRegistration
from log_service.replication.partition_state import Change, IsrProposal, PartitionState

LEADER, SECOND, THIRD = 1, 2, 3
LAG_MS = 30_000
BROKER_EPOCHS = {LEADER: 101, SECOND: 102, THIRD: 103}


def ids(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def registered(
    *,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] = (1, 2, 3),
    leader: int = LEADER,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=ids(*replicas),
        isr=ids(*isr),
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
    )


class Group:
    """A leader with its followers, and a clock. ``fetch`` is how a follower says how far it is."""

    def __init__(
        self,
        *,
        end: int = 0,
        min_isr: int = 1,
        is_synced_first: bool = False,
        high_watermark: int = 0,
        **metadata: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.state = PartitionState(
            LEADER,
            log_end_offset=end,
            synced_end_offset=end,
            high_watermark=high_watermark,
            min_insync_replicas=min_isr,
            is_synced_first=is_synced_first,
            lag_max_ms=LAG_MS,
        )
        self.state.eligible_brokers = BROKER_EPOCHS
        self.change = self.apply(**metadata)

    def apply(self, *, is_online: bool = True, **metadata: Any) -> Change:
        return self.state.apply(registered(**metadata), is_online=is_online, now_ms=self.now_ms)

    def append(self, count: int = 1) -> bool:
        return self.state.note_append(self.state.log_end_offset + count)

    def fetch(self, broker_id: int, offset: int, *, broker_epoch: int | None = None) -> Change:
        epoch = BROKER_EPOCHS[broker_id] if broker_epoch is None else broker_epoch
        return self.state.note_fetch(
            broker_id, offset, log_start_offset=0, broker_epoch=epoch, now_ms=self.now_ms
        )

    def after(self, ms: int) -> None:
        self.now_ms += ms

    def shrink(self) -> IsrProposal | None:
        return self.state.propose_shrink(self.now_ms)

    def accept(
        self, proposal: IsrProposal, *, partition_epoch: int = 1, leader_epoch: int = 0
    ) -> Change:
        return self.state.accept_isr(
            proposal, proposal.isr, leader_epoch, partition_epoch, self.now_ms
        )

    def refuse(self, proposal: IsrProposal, code: ErrorCode) -> Change:
        return self.state.refuse_isr(proposal, code, self.now_ms)

    @property
    def high_watermark(self) -> int:
        return self.state.high_watermark
