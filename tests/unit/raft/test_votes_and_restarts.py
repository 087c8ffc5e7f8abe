"""A replica begins after a restart, gives its vote, believes a leader, and takes late events."""

from dataclasses import replace

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.events import RequestArrived, ResignAsked, Synced
from log_service.raft.leader import Leader, PendingVoterChange
from log_service.raft.messages import (
    NO_LEADER,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Request,
    VoteRequest,
    VoteResponse,
)
from log_service.raft.roles import ElectionState
from log_service.raft.voters import ReplicaKey, VoterEndpoint
from tests.unit.raft.quorum import Entry, Message, Process, directory, endpoint, voter
from tests.unit.raft.script import Script

OWN, OTHER, THIRD = (ReplicaKey(NodeId(each), directory(each)) for each in (1, 2, 3))
VOTED_FOR_ITSELF = ElectionState(
    NO_LEADER, LeaderEpoch(3), voted_id=OWN.node_id, voted_directory_id=OWN.directory_id
)


def script_of(*commands: str) -> Script:
    script = Script()
    for command in commands:
        script.perform(command)
    return script


def restarted(
    state: ElectionState, *, voters: str = "1 2 3", started: str = "", log: tuple[Entry, ...] = ()
) -> Script:
    """Return a quorum of which node 1 has started, with this on its disk, after those of
    ``started``.
    """
    script = script_of(f"voters {voters}")
    if "1" not in voters:
        script.perform("observer 1")
        script.perform("crash 1")
    script.disks[1].state = state
    script.disks[1].log.entries[:] = log
    script.disks[1].log.synced_end_offset = len(log)
    script.perform(f"start {started}")
    script.perform("restart 1")
    return script


def stands(process: Process) -> tuple[str, int]:
    return process.core.role_name, process.core.epoch


# Restarts


def test_a_candidate_goes_on_with_the_vote_that_it_gave_itself() -> None:
    assert stands(restarted(VOTED_FOR_ITSELF).processes[1]) == ("candidate", 3)
    assert stands(restarted(VOTED_FOR_ITSELF, started="2").processes[1]) == ("leader", 3), (
        "one other vote is a majority of three"
    )


def test_the_only_voter_that_had_voted_for_itself_leads_at_once() -> None:
    assert stands(restarted(VOTED_FOR_ITSELF, voters="1").processes[1]) == ("leader", 3)


def test_a_candidate_that_is_no_voter_any_more_does_not_stand() -> None:
    assert stands(restarted(VOTED_FOR_ITSELF, voters="2 3").processes[1]) == ("observer", 3)


def test_a_log_of_a_later_epoch_than_is_remembered_tells_the_epoch() -> None:
    """The replica remembers no vote and no leader of that epoch.

    It had another one's log, or lost its file.
    """
    script = restarted(ElectionState(NodeId(2), LeaderEpoch(3)), log=(Entry(5, "a"),))
    assert (*stands(script.processes[1]), script.processes[1].core.leader_id) == (
        "unattached",
        5,
        NO_LEADER,
    )
    script.perform("run 1000")
    assert stands(script.processes[1]) == ("prospective", 5), (
        "it stands for election when its timer is over"
    )


def test_a_voter_that_starts_from_another_directory_says_at_once_that_it_has_no_vote() -> None:
    """Its own log names the voters. It waits for no leader: without its vote there may never be
    one.
    """
    script = script_of("voters 1 2 3")
    script.disks[1].directory_id = directory(9)
    script.perform("start 1")
    assert script.told[-1:] == ["     0 1: has no vote, node 1 votes from directory 1"]


def test_a_leader_that_is_no_voter_any_more_is_remembered() -> None:
    """Its epoch has had a leader: a second one must not be elected in it."""
    script = restarted(ElectionState(NodeId(9), LeaderEpoch(1)))
    assert (*stands(script.processes[1]), script.processes[1].core.leader_id) == (
        "unattached",
        1,
        9,
    )
    assert not vote_of(script, OTHER)


# Votes


def vote_of(script: Script, candidate: ReplicaKey) -> bool:
    """Have a candidate of epoch 1 ask node 1 for its vote."""
    request = VoteRequest(
        voter=OWN, candidate=candidate, epoch=LeaderEpoch(1), last_epoch=0, end_offset=0
    )
    script.processes[1].ask("vote", request, script.now_ms)
    response = script.processes[1].outcomes[("operator", "vote")]
    assert isinstance(response, VoteResponse)
    return response.is_granted


@pytest.mark.parametrize(("waited_ms", "role"), [(0, "unattached"), (1_000, "prospective")])
def test_a_vote_is_given_once_in_an_epoch_and_is_on_disk(waited_ms: int, role: str) -> None:
    script = restarted(ElectionState(NO_LEADER, LeaderEpoch(1)))
    script.perform(f"run {waited_ms}")
    assert stands(script.processes[1]) == (role, 1)
    assert vote_of(script, OTHER)
    assert script.disks[1].state is not None
    assert script.disks[1].state.voted == OTHER
    assert not vote_of(script, THIRD)
    assert vote_of(script, OTHER), "a repeated request"


def test_a_voter_that_has_voted_and_hears_no_leader_keeps_its_vote_while_it_stands() -> None:
    script = restarted(ElectionState(NO_LEADER, LeaderEpoch(1)))
    assert vote_of(script, OTHER)
    script.perform("run 1500")
    assert stands(script.processes[1]) == ("prospective", 1)
    assert not vote_of(script, THIRD), "the epoch may have a leader by now"
    assert script.disks[1].state is not None
    assert script.disks[1].state.voted == OTHER


def test_a_repeated_request_for_a_vote_does_not_put_the_next_election_off() -> None:
    script = restarted(ElectionState(NO_LEADER, LeaderEpoch(1)))
    for _ in range(4):
        assert vote_of(script, OTHER)
        script.perform("run 300")
    assert stands(script.processes[1]) == ("prospective", 1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, ("candidate", 1)),
        (ErrorCode.REQUEST_TIMED_OUT, ("prospective", 0)),
    ],
)
def test_a_voter_that_knows_no_pre_votes_has_the_election_held_at_once(
    error: ErrorCode, expected: tuple[str, int]
) -> None:
    script = script_of("voters 1 2 3", "start 1")
    process = script.processes[1]
    process.tick(1_000)
    asked = script.queue[0]
    assert isinstance(asked.request, VoteRequest)
    failed: Message = replace(
        asked, sender=asked.receiver, receiver=1, is_response=True, error=error
    )
    process.receive(failed, 1_000)
    assert stands(process) == expected


# Who leads


def told_by(leader_id: int, epoch: int) -> tuple[ErrorCode, int | None]:
    """Tell node 2, which follows node 1 in epoch 1, of a leader.

    Return its response and the epoch of a rival that it noticed.
    """
    script = script_of("voters 1 2 3", "start 1 2 3", "run 1000")
    told = BeginQuorumEpochRequest(
        voter=OTHER,
        leader_id=NodeId(leader_id),
        epoch=LeaderEpoch(epoch),
        leader_endpoints=(endpoint(leader_id),),
    )
    effects = script.processes[2].core.step(
        RequestArrived(reply_to="told", request=told), script.now_ms
    )
    ((_, response),) = effects.replies
    return response.error, effects.rival_epoch


def test_a_node_that_is_told_that_it_leads_and_does_not_has_a_rival() -> None:
    for epoch in (1, 2):
        assert told_by(2, epoch) == (ErrorCode.UNKNOWN_SERVER_ERROR, epoch)
    assert told_by(3, 1) == (ErrorCode.UNKNOWN_SERVER_ERROR, None), (
        "that is node 3's mistake, or node 1's"
    )
    assert told_by(1, 1) == (ErrorCode.NONE, None)


def test_a_leader_is_where_it_says_itself_and_else_where_the_voters_have_it() -> None:
    """It may listen elsewhere since it was written down as a voter."""
    script = script_of("voters 1 2 3", "start 1 2 3", "run 1000")
    core = script.processes[2].core
    assert core.leader_endpoints == (endpoint(1),)
    moved = (VoterEndpoint("CONTROLLER", "elsewhere", 1),)
    told = BeginQuorumEpochRequest(
        voter=OTHER, leader_id=NodeId(3), epoch=LeaderEpoch(2), leader_endpoints=moved
    )
    core.step(RequestArrived(reply_to="told", request=told), script.now_ms)
    assert (core.leader_id, core.leader_endpoints) == (3, moved)


def test_a_leader_that_a_peer_names_as_such_has_no_rival() -> None:
    script = script_of("voters 1 2 3", "start 1 2 3", "run 1000")
    asked = EndQuorumEpochRequest(leader_id=OWN.node_id, epoch=LeaderEpoch(1), successors=())
    effects = script.processes[1].core.step(
        RequestArrived(reply_to="told", request=asked), script.now_ms
    )
    assert effects.rival_epoch is None


@pytest.mark.parametrize(
    ("successors", "is_first"),
    [
        ((OTHER, THIRD), True),
        ((THIRD, OTHER), False),
        ((ReplicaKey(OTHER.node_id), ReplicaKey(THIRD.node_id)), True),
        ((ReplicaKey(OTHER.node_id, directory(9)), OTHER), False),
    ],
    ids=["first", "second", "named-without-directory", "another-directory-first"],
)
def test_the_first_successor_stands_at_once_be_it_named_with_its_directory_or_without(
    successors: tuple[ReplicaKey, ...], is_first: bool
) -> None:
    script = script_of("voters 1 2 3", "start 1 2 3", "run 1000", "cut 1 3")
    asked = EndQuorumEpochRequest(
        leader_id=OWN.node_id, epoch=LeaderEpoch(1), successors=successors
    )
    script.processes[2].ask("end", asked, script.now_ms)
    assert (stands(script.processes[2]) == ("prospective", 1)) is is_first


# Late events


def test_a_leader_passes_over_a_wish_that_it_resign_from_an_earlier_epoch() -> None:
    script = script_of("voters 1 2 3", "start 1 2 3", "run 1000")
    leader = script.processes[1]
    assert stands(leader) == ("leader", 1)
    leader.step(ResignAsked(epoch=LeaderEpoch(0)), script.now_ms)
    assert stands(leader) == ("leader", 1)
    leader.step(ResignAsked(epoch=LeaderEpoch(1)), script.now_ms)
    assert stands(leader) == ("resigned", 1)


def test_a_sync_counts_no_further_than_the_log_reaches_by_now() -> None:
    """The log may have been cut while the disk synced."""
    script = script_of("voters 1", "start 1", "append 1 a")
    only = script.processes[1]
    only.step(Synced(end_offset=only.disk.log.end_offset + 5), script.now_ms)
    assert only.core.high_watermark == only.disk.log.end_offset


@pytest.mark.parametrize(
    "waiting",
    [
        FetchRequest(
            replica=OTHER,
            epoch=LeaderEpoch(1),
            fetch_offset=3,
            last_epoch=1,
            high_watermark=3,
            max_wait_ms=10_000,
        ),
        AddVoterRequest(voter=voter(4)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_who_waits_at_a_leader_hears_that_it_leads_no_more(waiting: Request) -> None:
    script = script_of("voters 1 2 3", "start 1 2 3", "run 1000", "append 1 a", "run 100", "cut 1")
    leader = script.processes[1]
    leader.ask("waiting", waiting, script.now_ms)
    assert not leader.outcomes
    leader.step(ResignAsked(epoch=LeaderEpoch(1)), script.now_ms)
    assert leader.outcomes[("operator", "waiting")].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_has_its_response_already_gets_no_second_one() -> None:
    """A joining controller hears at once that it is being added; the change of voters goes on."""
    script = script_of("voters 1 2 3", "start 1 2 3", "run 1000")
    leader = script.processes[1]
    assert isinstance(leader.core.role, Leader)
    leader.core.role.pending = PendingVoterChange(
        voter=voter(4), reply_to=None, deadline_ms=script.now_ms + 1_000
    )
    leader.step(ResignAsked(epoch=LeaderEpoch(1)), script.now_ms)
    assert stands(leader) == ("resigned", 1)
    assert leader.outcomes == {}
