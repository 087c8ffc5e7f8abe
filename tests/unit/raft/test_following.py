"""A follower takes response after response. The leader says as the test has it."""

from dataclasses import replace

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.events import SnapshotInstalled, Synced
from log_service.raft.log_view import SnapshotId
from log_service.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from log_service.raft.voters import NO_DIRECTORY, VoterSet
from tests.unit.raft.quorum import CONFIG, Entry, Message, Process, endpoint, first_disk, voter

LEADER, OWN = 1, 2
VOTERS = VoterSet(tuple(voter(each) for each in (1, 2, 3)))
STATIC = VoterSet(tuple(replace(each, directory_id=NO_DIRECTORY) for each in VOTERS))
SNAPSHOT = SnapshotId(8, 1)
CONTENT = (Entry(1, "a"), Entry(1, "b"))


class Following:
    """Node 2, or another, which follows node 1 in epoch 1. ``asked`` is the request that it sent
    last, with whom it asked.
    """

    def __init__(self, *, own: int = OWN, static: VoterSet | None = None) -> None:
        self.now_ms = 0
        self.sent: list[Message] = []
        self.process = Process(
            own,
            first_disk(own, None if static else VOTERS),
            static_voters=static or VoterSet(),
            bootstrap_ids=(3,),
            draw=lambda _count: 0,
            post=self.sent.append,
            watch=lambda _process, _event, _effects: None,
        )
        self.process.start(0)
        began = BeginQuorumEpochRequest(
            voter=None,
            leader_id=NodeId(LEADER),
            epoch=LeaderEpoch(1),
            leader_endpoints=(endpoint(LEADER),),
        )
        self.process.ask("began", began, 0)
        assert self.role_name == ("follower" if own == OWN else "observer")

    @property
    def role_name(self) -> str:
        return self.process.core.role_name

    @property
    def asked(self) -> tuple[int, Request]:
        return self.sent[-1].receiver, self.sent[-1].request

    def hear(self, response: Response) -> None:
        """Have the last request responded to by the leader of epoch 1."""
        told = replace(response, leader_id=NodeId(LEADER), epoch=LeaderEpoch(1))
        asked = self.sent[-1]
        self.process.receive(
            replace(
                asked,
                sender=asked.receiver,
                receiver=self.process.node_id,
                response=told,
                is_response=True,
            ),
            self.now_ms,
        )

    def fail(self, *, is_refused: bool) -> None:
        asked = self.sent[-1]
        failed = replace(
            asked, sender=asked.receiver, receiver=OWN, is_response=True, is_refused=is_refused
        )
        self.process.receive(failed, self.now_ms)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.process.tick(self.now_ms)


def fetching_a_snapshot() -> Following:
    following = Following()
    following.hear(FetchResponse(snapshot_id=SNAPSHOT))
    assert isinstance(following.asked[1], FetchSnapshotRequest)
    return following


def slice_of(
    content: tuple[Entry, ...], *, position: int = 0, snapshot_id: SnapshotId = SNAPSHOT
) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        snapshot_id=snapshot_id, size_bytes=2, position=position, content=content
    )


def test_a_snapshot_comes_slice_by_slice_and_the_log_goes_on_behind_it() -> None:
    following = fetching_a_snapshot()
    following.hear(slice_of(CONTENT[:1]))
    _, request = following.asked
    assert isinstance(request, FetchSnapshotRequest)
    assert (request.snapshot_id, request.position) == (SNAPSHOT, 1)
    following.hear(slice_of(CONTENT[1:], position=1))
    _, request = following.asked
    assert isinstance(request, FetchRequest)
    assert request.fetch_offset == SNAPSHOT.end_offset
    assert following.process.disk.log.snapshots == {SNAPSHOT: CONTENT}


@pytest.mark.parametrize(
    "other",
    [slice_of(CONTENT, position=1), slice_of(CONTENT, snapshot_id=SnapshotId(9, 1)), slice_of(())],
    ids=["another-position", "another-snapshot", "nothing"],
)
def test_a_slice_that_was_not_asked_for_is_not_stored(other: FetchSnapshotResponse) -> None:
    following = fetching_a_snapshot()
    following.hear(other)
    assert SNAPSHOT not in following.process.disk.log.snapshots
    following.pass_time(CONFIG.retry_backoff_ms)
    assert isinstance(following.asked[1], FetchRequest), (
        "the leader says again what this replica needs"
    )


def test_a_snapshot_that_is_installed_after_the_leader_was_lost_is_taken_over() -> None:
    following = fetching_a_snapshot()
    following.pass_time(CONFIG.fetch_timeout_ms)
    assert following.role_name == "prospective"
    following.process.disk.log.install(SNAPSHOT, CONTENT)
    following.process.step(SnapshotInstalled(snapshot_id=SNAPSHOT, change=None), following.now_ms)
    assert following.process.core.high_watermark == SNAPSHOT.end_offset


def test_a_static_voter_tells_its_leader_of_itself_until_the_leader_has_taken_that() -> None:
    """A leader whose epoch has committed nothing yet asks to be told again."""
    following = Following(static=STATIC)

    def is_told() -> bool:
        for _ in range(2):
            following.pass_time(CONFIG.fetch_timeout_ms // 2)
            following.hear(FetchResponse())
        return isinstance(following.asked[1], UpdateVoterRequest)

    assert is_told()
    following.hear(UpdateVoterResponse(error=ErrorCode.REQUEST_TIMED_OUT))
    following.pass_time(CONFIG.retry_backoff_ms)
    assert is_told()
    following.hear(UpdateVoterResponse())
    assert not is_told()


def test_a_follower_stands_soon_where_its_leader_refuses_and_not_where_another_server_does() -> (
    None
):
    following = Following()
    following.hear(FetchResponse(error=ErrorCode.UNKNOWN_SERVER_ERROR))
    assert following.asked[0] != LEADER, "it asks another server while the leader rests"
    following.fail(is_refused=True)
    following.pass_time(CONFIG.death_grace_ms)
    assert following.role_name == "follower"
    assert following.asked[0] == LEADER
    following.fail(is_refused=True)
    following.pass_time(CONFIG.death_grace_ms)
    assert following.role_name == "prospective"


def test_a_leader_whose_response_was_lost_is_fetched_from_again() -> None:
    """A broker stands for no election: it would ask other controllers for ever."""
    following = Following(own=4)
    assert following.asked[0] == LEADER
    following.pass_time(CONFIG.request_timeout_ms)
    assert following.asked[0] != LEADER
    following.hear(FetchResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert following.asked[0] == LEADER


def test_the_time_that_the_own_disk_takes_is_not_the_leaders_silence() -> None:
    following = Following()
    following.hear(FetchResponse(records=CONTENT))
    following.process.step(Synced(end_offset=1), following.now_ms)
    following.pass_time(CONFIG.fetch_timeout_ms)
    assert following.role_name == "follower", "one of the two records is not durable yet"
    following.process.sync(following.now_ms)
    following.pass_time(CONFIG.fetch_timeout_ms - 1)
    assert following.role_name == "follower"
    following.pass_time(1)
    assert following.role_name == "prospective"


def test_a_leader_whose_records_cannot_be_appended_rests_before_it_is_asked_again() -> None:
    following = Following()
    following.hear(FetchResponse(records=CONTENT))
    following.process.sync(following.now_ms)
    assert following.asked[0] == LEADER, "what was appended is no reason to wait"
    following.hear(FetchResponse(records=(Entry(2, "of an epoch that is not known"),)))
    assert following.asked[0] != LEADER
    following.hear(FetchResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    following.pass_time(CONFIG.retry_backoff_ms)
    assert following.asked[0] == LEADER
    following.hear(FetchResponse())
    following.pass_time(CONFIG.fetch_timeout_ms)
    assert following.role_name == "prospective", (
        "nothing waits for the disk, so the silence that follows is the leader's"
    )
