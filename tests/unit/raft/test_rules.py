"""The table of roles is a matrix, and requests are checked in order.

Apache Kafka's voters respond alike to the same requests.
"""

from dataclasses import replace
from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId
from log_service.protocol.codec import decode, encode
from log_service.raft import wire
from log_service.raft.leader import (
    MAX_OBSERVERS,
    MAX_PARKED_OBSERVERS,
    OBSERVER_SESSION_MS,
    Leader,
    ParkedFetch,
)
from log_service.raft.log_view import EpochEnd, SnapshotId
from log_service.raft.messages import (
    NO_LEADER,
    UNKNOWN_OFFSET,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from log_service.raft.roles import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
    Votes,
    is_vote_granted,
    may_follow,
)
from log_service.raft.voters import NO_DIRECTORY, ReplicaKey, Voter, VoterSet
from tests.unit.raft.quorum import directory, endpoint, voter
from tests.unit.raft.script import Script

OWN, OTHER, THIRD = (ReplicaKey(NodeId(each), directory(each)) for each in (1, 2, 3))
VOTERS = VoterSet(tuple(voter(each) for each in (1, 2, 3)))


def roles(epoch: int) -> dict[str, Role]:
    at = LeaderEpoch(epoch)
    found: tuple[Role, ...] = (
        Unattached(epoch=at, election_deadline_ms=0),
        Prospective(epoch=at, votes=Votes(VOTERS), election_deadline_ms=0),
        Candidate(epoch=at, own=OWN, votes=Votes(VOTERS), election_deadline_ms=0),
        Leader(epoch=at, own=OWN, epoch_start_offset=0, voters=VOTERS, check_quorum_ms=0, now_ms=0),
        Resigned(epoch=at, own=OWN, election_deadline_ms=0),
        Follower(
            epoch=at,
            leader_id=NodeId(2),
            leader_endpoints=(endpoint(2),),
            fetch_deadline_ms=0,
            update_voter_deadline_ms=0,
        ),
    )
    return {type(role).__name__.lower(): role for role in found}


@pytest.mark.parametrize(
    ("before", "same_epoch", "next_epoch"),
    [
        ("unattached", "unattached prospective follower", "unattached follower"),
        ("prospective", "prospective unattached follower", "unattached follower candidate"),
        ("candidate", "leader prospective follower", "unattached follower"),
        ("leader", "resigned", "unattached follower"),
        ("resigned", "prospective", "unattached follower"),
        ("follower", "follower prospective", "unattached follower"),
    ],
)
def test_roles_change_as_the_table_says(before: str, same_epoch: str, next_epoch: str) -> None:
    old = roles(5)[before]
    assert {name for name, new in roles(5).items() if may_follow(old, new)} == set(
        same_epoch.split()
    )
    assert {name for name, new in roles(6).items() if may_follow(old, new)} == set(
        next_epoch.split()
    )
    assert not any(may_follow(old, new) for new in roles(4).values())


def fetched(role: Role) -> Role:
    return replace(role, has_fetched=True) if isinstance(role, Follower) else role


@pytest.mark.parametrize(
    ("role", "binding", "pre_vote"),
    [
        (roles(5)["unattached"], True, True),
        (replace(roles(5)["unattached"], voted=OTHER), True, True),  # type: ignore[type-var]
        (replace(roles(5)["unattached"], voted=THIRD), False, True),  # type: ignore[type-var]
        (replace(roles(5)["unattached"], leader_id=NodeId(3)), False, True),  # type: ignore[type-var]
        (roles(5)["prospective"], True, True),
        (roles(5)["candidate"], False, True),
        (roles(5)["resigned"], False, True),
        (roles(5)["leader"], False, False),
        (roles(5)["follower"], False, True),
        (fetched(roles(5)["follower"]), False, False),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, bool) else str(value),
)
def test_a_vote_is_granted_once_and_a_pre_vote_by_those_that_hear_no_leader(
    role: Role, binding: bool, pre_vote: bool
) -> None:
    assert is_vote_granted(role, OTHER, is_up_to_date=True, is_pre_vote=False) is binding
    assert is_vote_granted(role, OTHER, is_up_to_date=True, is_pre_vote=True) is pre_vote
    assert not is_vote_granted(role, OTHER, is_up_to_date=False, is_pre_vote=True)
    has_its_vote = isinstance(role, Unattached) and role.voted == OTHER
    assert is_vote_granted(role, OTHER, is_up_to_date=False, is_pre_vote=False) is has_its_vote, (
        "what was given is not taken back"
    )


@pytest.mark.parametrize(
    ("voted", "candidate", "is_granted"),
    [
        (OTHER, OTHER, True),
        (OTHER, ReplicaKey(OTHER.node_id, THIRD.directory_id), False),
        (ReplicaKey(OTHER.node_id, NO_DIRECTORY), OTHER, True),
        (ReplicaKey(OTHER.node_id, NO_DIRECTORY), THIRD, False),
        (ReplicaKey(OTHER.node_id, THIRD.directory_id), THIRD, False),
    ],
    ids=[
        "the same disk",
        "another disk",
        "a disk that was not named",
        "another node",
        "another node with its directory id",
    ],
)
def test_the_vote_of_an_epoch_belongs_to_one_node_on_one_disk(
    voted: ReplicaKey, candidate: ReplicaKey, *, is_granted: bool
) -> None:
    role = replace(roles(5)["unattached"], voted=voted)  # type: ignore[type-var]
    assert is_vote_granted(role, candidate, is_up_to_date=True, is_pre_vote=False) is is_granted


def asked(request: Request, commands: str = "voters 1 2 3|start 1 2 3|run 1000") -> Response:
    """Return what node 1, which leads epoch 1, responds."""
    script = Script()
    for command in commands.split("|"):
        script.perform(command)
    process = script.processes[1]
    process.ask("asked", request, script.now_ms)
    return process.outcomes[("operator", "asked")]


def led_by_first(*commands: str) -> Script:
    """A quorum of three that node 1 leads in epoch 1."""
    script = Script()
    for command in ("voters 1 2 3", "start 1 2 3", "run 1000", *commands):
        script.perform(command)
    return script


VOTE = VoteRequest(voter=OWN, candidate=OTHER, epoch=LeaderEpoch(2), last_epoch=1, end_offset=2)
FETCH = FetchRequest(
    replica=OTHER, epoch=LeaderEpoch(1), fetch_offset=2, last_epoch=1, high_watermark=2
)
SNAPSHOT = FetchSnapshotRequest(
    replica=OTHER, epoch=LeaderEpoch(1), snapshot_id=SnapshotId(0, 0), position=0
)
BEGIN = BeginQuorumEpochRequest(
    voter=OWN, leader_id=NodeId(2), epoch=LeaderEpoch(2), leader_endpoints=(endpoint(2),)
)
UPDATE = UpdateVoterRequest(epoch=LeaderEpoch(1), voter=voter(2))
STRANGER = ReplicaKey(NodeId(1), directory(9))


@pytest.mark.parametrize(
    ("request_", "error", "epoch"),
    [
        (replace(VOTE, end_offset=-1), ErrorCode.INVALID_REQUEST, 1),
        (replace(VOTE, last_epoch=2), ErrorCode.INVALID_REQUEST, 1),
        (replace(VOTE, epoch=LeaderEpoch(0), last_epoch=0), ErrorCode.INVALID_REQUEST, 1),
        (
            replace(VOTE, epoch=LeaderEpoch(0), last_epoch=0, is_pre_vote=True),
            ErrorCode.FENCED_LEADER_EPOCH,
            1,
        ),
        (replace(VOTE, candidate=ReplicaKey(NodeId(-1))), ErrorCode.INVALID_REQUEST, 1),
        (replace(VOTE, voter=STRANGER), ErrorCode.INVALID_VOTER_KEY, 2),
        (VOTE, ErrorCode.NONE, 2),
        (replace(BEGIN, epoch=LeaderEpoch(0)), ErrorCode.FENCED_LEADER_EPOCH, 1),
        (replace(BEGIN, voter=STRANGER), ErrorCode.INVALID_VOTER_KEY, 2),
        (BEGIN, ErrorCode.NONE, 2),
        (replace(BEGIN, epoch=LeaderEpoch(1)), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
        (replace(FETCH, fetch_offset=-1, epoch=LeaderEpoch(9)), ErrorCode.INVALID_REQUEST, 1),
        (replace(FETCH, last_epoch=2), ErrorCode.INVALID_REQUEST, 1),
        (replace(FETCH, epoch=LeaderEpoch(0), last_epoch=0), ErrorCode.FENCED_LEADER_EPOCH, 1),
        (replace(FETCH, epoch=LeaderEpoch(2)), ErrorCode.UNKNOWN_LEADER_EPOCH, 1),
        (replace(FETCH, replica=STRANGER), ErrorCode.INVALID_REQUEST, 1),
        (FETCH, ErrorCode.NONE, 1),
        (replace(SNAPSHOT, epoch=LeaderEpoch(0)), ErrorCode.FENCED_LEADER_EPOCH, 1),
        (SNAPSHOT, ErrorCode.SNAPSHOT_NOT_FOUND, 1),
        (replace(UPDATE, voter=replace(voter(2), endpoints=())), ErrorCode.INVALID_REQUEST, 1),
        (
            replace(UPDATE, voter=replace(voter(2), min_kraft_version=1, max_kraft_version=0)),
            ErrorCode.INVALID_REQUEST,
            1,
        ),
        (
            replace(UPDATE, voter=replace(voter(2), max_kraft_version=0)),
            ErrorCode.INVALID_REQUEST,
            1,
        ),
        (replace(UPDATE, voter=voter(2, 9)), ErrorCode.VOTER_NOT_FOUND, 1),
        (UPDATE, ErrorCode.NONE, 1),
        (
            AddVoterRequest(voter=replace(voter(4), node_id=NodeId(-1))),
            ErrorCode.INVALID_REQUEST,
            1,
        ),
        (
            AddVoterRequest(voter=replace(voter(4), directory_id=NO_DIRECTORY)),
            ErrorCode.INVALID_REQUEST,
            1,
        ),
        (AddVoterRequest(voter=replace(voter(4), endpoints=())), ErrorCode.INVALID_REQUEST, 1),
        (AddVoterRequest(voter=voter(2, 9)), ErrorCode.DUPLICATE_VOTER, 1),
        (RemoveVoterRequest(voter=ReplicaKey(OTHER.node_id)), ErrorCode.INVALID_REQUEST, 1),
        (
            RemoveVoterRequest(voter=ReplicaKey(NodeId(-1), OTHER.directory_id)),
            ErrorCode.INVALID_REQUEST,
            1,
        ),
        (
            RemoveVoterRequest(voter=ReplicaKey(OTHER.node_id, directory(9))),
            ErrorCode.VOTER_NOT_FOUND,
            1,
        ),
    ],
    ids=repr,
)
def test_requests_are_checked_in_kafkas_order(
    request_: Request, error: ErrorCode, epoch: int
) -> None:
    response = asked(request_)
    assert (response.error, response.epoch) == (error, epoch)


def test_a_response_that_names_where_logs_parted_brings_no_records() -> None:
    response = asked(replace(FETCH, fetch_offset=1, last_epoch=0))
    assert isinstance(response, FetchResponse)
    assert (response.diverging, response.records_from) == (EpochEnd(0, 0), None)


def test_a_replica_that_does_not_lead_names_the_leader_and_its_address() -> None:
    script = led_by_first()
    process = script.processes[2]
    process.ask("asked", replace(FETCH, replica=THIRD), script.now_ms)
    response = process.outcomes[("operator", "asked")]
    assert (response.error, response.leader_id, response.leader_endpoints) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        1,
        (endpoint(1),),
    )


@pytest.mark.parametrize(
    "request_",
    [
        replace(FETCH, replica=THIRD, epoch=LeaderEpoch(7)),
        replace(VOTE, voter=OTHER, candidate=THIRD),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_leader_whose_address_is_not_known_is_not_named(
    request_: FetchRequest | VoteRequest,
) -> None:
    """A peer of Apache Kafka ends that hears of a leader without an address.

    It does not know it as a voter.
    """
    script = led_by_first()
    process = script.processes[2]
    process.ask(
        "told",
        BeginQuorumEpochRequest(
            voter=OTHER, leader_id=NodeId(9), epoch=LeaderEpoch(7), leader_endpoints=()
        ),
        script.now_ms,
    )
    assert (process.core.epoch, process.core.leader_id) == (7, 9)
    process.ask("asked", replace(request_, epoch=LeaderEpoch(7)), script.now_ms)
    response = process.outcomes[("operator", "asked")]
    assert (response.epoch, response.leader_id, response.leader_endpoints) == (7, NO_LEADER, ())


def test_a_voter_of_the_configuration_that_none_knows_tells_nothing_of_itself() -> None:
    response = asked(replace(UPDATE, voter=voter(9)), "static 1 2 3|start 1 2 3|run 1500")
    assert response.error is ErrorCode.VOTER_NOT_FOUND


def test_a_new_voter_that_cannot_follow_the_quorum_is_refused() -> None:
    script = led_by_first("observer 4", "run 100")
    script.processes[4].max_kraft_version = 0
    leader = script.processes[1]
    leader.ask("asked", AddVoterRequest(voter=voter(4)), script.now_ms)
    script.perform("run 100")
    assert any(line.endswith("1: responds INVALID_REQUEST") for line in script.told), script.told
    assert leader.core.voters.get(NodeId(4)) is None


@pytest.mark.parametrize("is_fetching", [True, False])
def test_a_voter_that_fetches_a_snapshot_is_one_that_follows(*, is_fetching: bool) -> None:
    """A snapshot takes as long as it takes: meanwhile its leader has a majority."""
    script = led_by_first("append 1 a b", "run 100", "snapshot 1", "cut 1")
    leader = script.processes[1]
    snapshot_id = leader.disk.log.latest_snapshot
    assert snapshot_id is not None
    slice_ = replace(SNAPSHOT, snapshot_id=snapshot_id, max_bytes=1)
    for number in range(8):
        if is_fetching:
            leader.ask(number, slice_, script.now_ms)
        script.perform("run 1000")
    assert (leader.core.role_name == "leader") is is_fetching


LEADER: dict[str, Any] = {
    "leader_id": NodeId(2),
    "epoch": LeaderEpoch(7),
    "leader_endpoints": (endpoint(2),),
}


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (VOTE, VoteResponse(**LEADER, is_granted=True)),
        (replace(VOTE, is_pre_vote=True), VoteResponse(error=ErrorCode.INVALID_VOTER_KEY)),
        (BEGIN, BeginQuorumEpochResponse(**LEADER)),
        (
            EndQuorumEpochRequest(
                leader_id=NodeId(1), epoch=LeaderEpoch(3), successors=(OTHER, THIRD)
            ),
            EndQuorumEpochResponse(**LEADER),
        ),
        (
            replace(FETCH, max_wait_ms=500, max_bytes=9),
            FetchResponse(**LEADER, high_watermark=4, records=b"records"),
        ),
        (FETCH, FetchResponse(**LEADER, diverging=EpochEnd(3, 5))),
        (FETCH, FetchResponse(**LEADER, snapshot_id=SnapshotId(8, 2))),
        (
            replace(SNAPSHOT, max_bytes=3),
            FetchSnapshotResponse(
                **LEADER, snapshot_id=SnapshotId(8, 2), size_bytes=9, content=b"abc"
            ),
        ),
        (UPDATE, UpdateVoterResponse(**LEADER)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_messages_come_through_the_wire_as_they_are(request_: Request, response: Response) -> None:
    context = wire.Context("cluster", "CONTROLLER")
    sent = over_the_wire(wire.write_request(request_, context))
    assert wire.read_request(sent, context) == request_
    assert (
        wire.read_response(over_the_wire(wire.write_response(sent, response, context)), context)
        == response
    )


def over_the_wire(message: Any) -> Any:
    version = int(type(message).SCHEMA.valid.rpartition("-")[2])
    return decode(type(message), version, encode(message, version))[0]


def test_fetches_of_observers_that_wait_are_bounded() -> None:
    """Fetches that name no replica, or a made-up one, waited without a bound.

    Each made-up one was remembered for minutes.
    """
    own = ReplicaKey(NodeId(1))
    leader = Leader(
        epoch=LeaderEpoch(1),
        own=own,
        epoch_start_offset=0,
        voters=VoterSet((Voter(node_id=NodeId(1)),)),
        check_quorum_ms=1,
        now_ms=0,
    )
    for number in range(MAX_PARKED_OBSERVERS + 1):
        fetch = FetchRequest(
            replica=ReplicaKey(NodeId(-1)), epoch=LeaderEpoch(1), fetch_offset=0, last_epoch=0
        )
        leader.parked.append(ParkedFetch(reply_to=number, request=fetch, deadline_ms=500))
    superfluous = leader.superfluous_fetch()
    assert superfluous is not None
    assert superfluous.reply_to == 0
    leader.parked.remove(superfluous)
    assert leader.superfluous_fetch() is None
    for node_id in range(2, MAX_OBSERVERS + 50):
        leader.note_fetch(ReplicaKey(NodeId(node_id)), 0, 10, node_id)
    observers = leader.observer_progress(MAX_OBSERVERS + 50)
    assert len(observers) <= MAX_OBSERVERS
    assert observers[-1].key.node_id == MAX_OBSERVERS + 49


def test_a_voters_fetch_waits_however_many_observers_wait() -> None:
    leader = Leader(
        epoch=LeaderEpoch(1),
        own=OWN,
        epoch_start_offset=0,
        voters=VOTERS,
        check_quorum_ms=1,
        now_ms=0,
    )
    leader.parked.append(ParkedFetch(reply_to="voter", request=FETCH, deadline_ms=500))
    for number in range(MAX_PARKED_OBSERVERS):
        leader.parked.append(
            ParkedFetch(reply_to=number, request=replace(FETCH, replica=STRANGER), deadline_ms=500)
        )
    assert leader.superfluous_fetch() is None
    leader.parked.append(
        ParkedFetch(reply_to="one more", request=replace(FETCH, replica=STRANGER), deadline_ms=500)
    )
    superfluous = leader.superfluous_fetch()
    assert superfluous is not None
    assert superfluous.reply_to == 0


def test_an_observer_is_told_of_while_it_fetches() -> None:
    leader = Leader(
        epoch=LeaderEpoch(1),
        own=OWN,
        epoch_start_offset=0,
        voters=VOTERS,
        check_quorum_ms=1,
        now_ms=0,
    )
    observer, began_ms = ReplicaKey(NodeId(4), directory(4)), 10 * OBSERVER_SESSION_MS
    leader.note_fetch(observer, 0, 10, began_ms)
    leader.note_fetch(ReplicaKey(NodeId(5), directory(5)), 0, 10, began_ms - OBSERVER_SESSION_MS)
    assert [each.key for each in leader.observer_progress(began_ms + OBSERVER_SESSION_MS - 1)] == [
        observer
    ]
    assert leader.observer_progress(began_ms + OBSERVER_SESSION_MS) == []


@pytest.mark.parametrize(("count", "is_over"), [(1, False), (2, True), (3, True)])
def test_a_leader_asks_whether_a_majority_follows_unless_it_is_alone(
    count: int, *, is_over: bool
) -> None:
    voters = VoterSet(VOTERS.voters[:count])
    leader = Leader(
        epoch=LeaderEpoch(1),
        own=OWN,
        epoch_start_offset=0,
        voters=voters,
        check_quorum_ms=100,
        now_ms=0,
    )
    assert not leader.is_check_quorum_over(99)
    assert leader.is_check_quorum_over(100) is is_over


@pytest.mark.parametrize("count", [2, 3])
def test_what_a_majority_has_behind_the_start_of_the_epoch_is_committed_for_good(
    count: int,
) -> None:
    """Records of earlier epochs are committed only with one of the leader's own (KIP-595)."""
    voters = VoterSet(VOTERS.voters[:count])
    leader = Leader(
        epoch=LeaderEpoch(2),
        own=OWN,
        epoch_start_offset=5,
        voters=voters,
        check_quorum_ms=1,
        now_ms=0,
    )
    assert not leader.note_synced(9)
    assert not leader.note_fetch(OTHER, 5, 9, 0)
    assert leader.high_watermark == UNKNOWN_OFFSET
    assert leader.note_fetch(OTHER, 8, 9, 1)
    assert not leader.note_fetch(OTHER, 8, 9, 2), "nothing more than before"
    assert not leader.note_fetch(OTHER, 6, 9, 3), (
        "it was restarted, and what it had not synced is gone"
    )
    assert leader.high_watermark == 8
