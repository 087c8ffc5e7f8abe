"""A leader's view of its partition agrees with a model of the truth.

The truth is the followers' logs, and the ISR that the controller has committed. The promise of
replication: every in-sync replica, which the controller may elect, holds every record below the
high watermark.
"""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch
from log_service.metadata.partition import PartitionRegistration
from log_service.replication.partition_state import Isolation, IsrProposal, PartitionState

LEADER = 1
FOLLOWERS = (2, 3)
LAG_MS = 1_000


class Replication:
    """One leader, two followers, and a controller whose responses and whose metadata come late or
    never.
    """

    def __init__(self, isr: set[int], min_isr: int, *, is_synced_first: bool) -> None:
        self.now_ms = 0
        self.held = dict.fromkeys(FOLLOWERS, 0)
        self.eligible = {2: 20, 3: 30}
        self.isr = (LEADER, *sorted(isr))
        self.leader_epoch = self.partition_epoch = 0
        self.sent: IsrProposal | None = None
        self.published: list[PartitionRegistration] = []
        self.state = PartitionState(
            LEADER, min_insync_replicas=min_isr, is_synced_first=is_synced_first, lag_max_ms=LAG_MS
        )
        self.state.eligible_brokers = dict(self.eligible)
        self.shown = 0
        self.publish()
        self.receive_metadata(0)

    def publish(self) -> None:
        self.published.append(
            PartitionRegistration(
                replicas=(NodeId(1), NodeId(2), NodeId(3)),
                isr=tuple(map(NodeId, self.isr)),
                leader=NodeId(LEADER),
                leader_epoch=LeaderEpoch(self.leader_epoch),
                partition_epoch=PartitionEpoch(self.partition_epoch),
            )
        )

    # What may happen next; each step gets a number to draw from, and does nothing where it makes no
    # sense.

    def append(self, number: int) -> None:
        self.state.note_append(self.state.log_end_offset + 1 + number)

    def sync(self, number: int) -> None:
        self.state.note_sync(
            max(self.state.synced_end_offset, self.state.log_end_offset - number % 2)
        )

    def fetch(self, number: int) -> None:
        """Fetch from the leader.

        A fetch tells how far the follower is, and may make it a member; the next one tells its
        records.
        """
        broker_id, is_whole = FOLLOWERS[number % 2], number >= 2
        epoch = self.eligible.get(broker_id, 0)
        self.state.note_fetch(
            broker_id,
            self.held[broker_id],
            log_start_offset=0,
            broker_epoch=epoch,
            now_ms=self.now_ms,
        )
        self.sent = self.state.propose_expansion(broker_id) or self.sent
        self.held[broker_id] = (
            self.state.log_end_offset
            if is_whole
            else min(self.held[broker_id] + 1, self.state.log_end_offset)
        )

    def let_time_pass(self, number: int) -> None:
        self.now_ms += 1 if number < 2 else LAG_MS + 1
        self.state.look_again(self.now_ms)
        self.sent = self.state.propose_shrink(self.now_ms) or self.sent

    def fence_or_unfence(self, number: int) -> None:
        broker_id = FOLLOWERS[number % 2]
        if self.eligible.pop(broker_id, None) is None:
            self.eligible[broker_id] = broker_id * 10
        elif number >= 2 and broker_id in self.isr:
            self.isr, self.partition_epoch = (
                tuple(each for each in self.isr if each != broker_id),
                self.partition_epoch + 1,
            )
            self.publish()
        self.state.eligible_brokers = dict(self.eligible)

    def controller_decides(self, number: int) -> None:
        """The controller takes a proposal that fits its epochs. Its response may get lost, but its
        metadata comes some time.
        """
        proposal, self.sent = self.sent, None
        if proposal is None:
            return
        if (proposal.leader_epoch, proposal.partition_epoch) != (
            self.leader_epoch,
            self.partition_epoch,
        ):
            self.state.refuse_isr(proposal, ErrorCode.INVALID_UPDATE_VERSION, self.now_ms)
            return
        self.isr, self.partition_epoch = proposal.isr, self.partition_epoch + 1
        self.publish()
        if number < 2:
            self.state.accept_isr(
                proposal, self.isr, self.leader_epoch, self.partition_epoch, self.now_ms
            )

    def controller_refuses(self, number: int) -> None:
        if self.sent is not None:
            self.state.refuse_isr(
                self.sent,
                ErrorCode.INELIGIBLE_REPLICA if number < 2 else ErrorCode.NOT_CONTROLLER,
                self.now_ms,
            )
            self.sent = None if number < 2 else self.sent

    def controller_elects_the_same_leader(self, _number: int) -> None:
        self.leader_epoch, self.partition_epoch = self.leader_epoch + 1, self.partition_epoch + 1
        self.publish()

    def receive_metadata(self, _number: int) -> None:
        if self.published:
            self.state.apply(self.published.pop(0), is_online=True, now_ms=self.now_ms)

    # What has to hold after each

    def check(self) -> None:
        state = self.state
        for broker_id in self.isr:
            assert broker_id == LEADER or self.held[broker_id] >= state.high_watermark, (
                "a replica that may be elected lacks records"
            )
        assert self.shown <= state.high_watermark <= state.own_end_offset <= state.log_end_offset
        assert (
            state.last_stable_offset
            == state.read_limit(Isolation.READ_COMMITTED)
            <= state.high_watermark
        )
        self.shown = state.high_watermark
        if state.is_safe_at_once:
            assert state.maximal_isr == {LEADER}
            assert not state.is_synced_first
            assert not state.is_under_min_isr


Step = Callable[[Replication, int], None]
OFTEN: tuple[Step, ...] = (
    Replication.append,
    Replication.fetch,
    Replication.controller_decides,
    Replication.receive_metadata,
)
SELDOM: tuple[Step, ...] = (
    Replication.sync,
    Replication.let_time_pass,
    Replication.fence_or_unfence,
    Replication.controller_refuses,
    Replication.controller_elects_the_same_leader,
)
steps = st.tuples(st.sampled_from((*OFTEN, *OFTEN, *OFTEN, *SELDOM)), st.integers(0, 3))


@settings(max_examples=400, deadline=None)
@given(
    st.sets(st.sampled_from(FOLLOWERS)),
    st.integers(1, 2),
    st.booleans(),
    st.lists(steps, min_size=20, max_size=60),
)
def test_every_replica_that_may_be_elected_holds_what_is_safe(
    isr: set[int], min_isr: int, is_synced_first: bool, story: list[tuple[Step, int]]
) -> None:
    replication = Replication(isr, min_isr, is_synced_first=is_synced_first)
    replication.check()
    for step, number in story:
        step(replication, number)
        replication.check()
