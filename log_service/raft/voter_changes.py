"""Decide on changes of voters (KIP-853): add, remove or update one, or write them as records.

The functions read the leader's state and the newest voter set, and change neither.

Invariants: Only one change is in progress at a time. A change waits until the record of the
previous one is committed, and until the leader has committed a record of its own epoch. So two
voter sets that may both elect a leader differ by at most one voter. At kraft.version 0 the voters
are configuration. The leader then holds each voter's reported directory and endpoints in memory,
and writes them when kraft.version is raised.
"""

from dataclasses import dataclass

from log_service.common.errors import ErrorCode
from log_service.common.features import DYNAMIC_QUORUM, STATIC_QUORUM
from log_service.raft.leader import Leader
from log_service.raft.messages import (
    UNKNOWN_OFFSET,
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeRequest,
)
from log_service.raft.twins import Twins
from log_service.raft.voters import NO_DIRECTORY, Voter, VoterEntry, VoterSet


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error and the text of a refused change."""

    error: ErrorCode
    message: str


def check_addition(
    request: AddVoterRequest,
    leader: Leader,
    latest: VoterEntry,
    listener_name: str,
    *,
    twins: Twins | None,
) -> Refusal | None:
    """Return why a voter may not be added, or None if it may.

    If it may, the leader asks the voter for its versions next. ``twins`` describes two running
    processes with the new voter's node id, or is None.
    """
    if (refusal := _check_voter(request.voter, listener_name)) or (
        refusal := check_no_other_change(leader, latest)
    ):
        return refusal
    if latest.voters.get(request.voter.node_id) is not None:
        text = f"node {request.voter.node_id} is a voter already"
        return Refusal(
            ErrorCode.DUPLICATE_VOTER, text if twins is None else f"{text}, and {twins.text}"
        )
    return None


def check_removal(
    request: RemoveVoterRequest, leader: Leader, latest: VoterEntry, *, twins: Twins | None
) -> VoterSet | Refusal:
    """Return the voter set without a voter, or why it may not be removed.

    ``twins`` describes two running processes with this node id. The request is then refused,
    because it may come from the wrong one. A voter may be removed to make room for another
    directory of its node only after its process has ended (KIP-853). Otherwise each of two
    processes would remove the other in turn.
    """
    if request.voter.node_id < 0 or request.voter.directory_id == NO_DIRECTORY:
        return Refusal(ErrorCode.INVALID_REQUEST, "a voter has a node id and a directory id")
    if refusal := check_no_other_change(leader, latest):
        return refusal
    if twins is not None:
        return Refusal(ErrorCode.REQUEST_TIMED_OUT, twins.text)
    remaining = latest.voters.without(request.voter)
    if len(remaining) == len(latest.voters) or not remaining.voters:
        return Refusal(
            ErrorCode.VOTER_NOT_FOUND,
            f"node {request.voter.node_id} with that directory is not a voter, or the only one",
        )
    return remaining


def check_update(
    request: UpdateVoterRequest, leader: Leader, latest: VoterEntry, listener_name: str
) -> VoterSet | Refusal:
    """Return the voter set with a voter's new endpoints and versions, or why it is refused.

    At kraft.version 0, the set replaces the one that the leader holds in memory. At higher levels,
    it becomes the next record.
    """
    voter = request.voter
    if refusal := _check_voter(voter, listener_name):
        return refusal
    if voter.min_kraft_version < 0 or voter.max_kraft_version < voter.min_kraft_version:
        return Refusal(ErrorCode.INVALID_REQUEST, "the range of kraft.version is empty or negative")
    known = _voters_to_update(leader, latest)
    if isinstance(known, Refusal):
        return known
    if not supports(voter, latest.kraft_version):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"kraft.version {latest.kraft_version} is not in the voter's range",
        )
    if known.get(voter.node_id) is None or (
        latest.kraft_version > STATIC_QUORUM and voter.key not in known
    ):
        return Refusal(
            ErrorCode.VOTER_NOT_FOUND, f"node {voter.node_id} with that directory is not a voter"
        )
    return known.with_voter(voter)


def _voters_to_update(leader: Leader, latest: VoterEntry) -> VoterSet | Refusal:
    if latest.kraft_version > STATIC_QUORUM:
        return check_no_other_change(leader, latest) or latest.voters
    if leader.volatile_voters is None or leader.high_watermark == UNKNOWN_OFFSET:
        return _busy()
    return leader.volatile_voters


def check_upgrade(
    request: UpgradeRequest, leader: Leader, latest: VoterEntry
) -> VoterSet | Refusal | None:
    """Return the voters to write with the new kraft.version, or why they cannot be written.

    None means that there is nothing to do, because the level is reached or its record is already
    appended. Every voter must first have reported its directory to this leader, because the record
    names the directories that may vote.
    """
    level, present = request.kraft_version, latest.kraft_version
    if level == present or (level == DYNAMIC_QUORUM and leader.volatile_voters is None):
        return None
    if level != DYNAMIC_QUORUM:
        text = (
            f"kraft.version {present} cannot become {level}: it only goes up, and {DYNAMIC_QUORUM}"
            " is the highest"
        )
        return Refusal(ErrorCode.INVALID_UPDATE_VERSION, text)
    if leader.pending is not None or leader.high_watermark == UNKNOWN_OFFSET:
        return _busy()
    assert leader.volatile_voters is not None, (
        "the leader of a static quorum keeps what voters tell"
    )
    silent = [
        voter.node_id
        for voter in leader.volatile_voters
        if voter.directory_id == NO_DIRECTORY or not voter.endpoints
    ]
    unable = [voter.node_id for voter in leader.volatile_voters if not supports(voter, level)]
    if silent or unable:
        who = ", ".join(map(str, silent or unable))
        fault = f"the voters {who} do not support it"
        if silent:
            fault = (
                f"the leader does not know yet from which directories the voters {who} vote; they"
                " tell it some seconds after they start"
            )
        return Refusal(
            ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version cannot become {level}: {fault}"
        )
    return leader.volatile_voters


def supports(voter: Voter, kraft_version: int) -> bool:
    """Return whether a voter supports a kraft.version."""
    return voter.min_kraft_version <= kraft_version <= voter.max_kraft_version


def _check_voter(voter: Voter, listener_name: str) -> Refusal | None:
    if voter.node_id < 0 or voter.directory_id == NO_DIRECTORY:
        return Refusal(ErrorCode.INVALID_REQUEST, "a voter has a node id and a directory id")
    if voter.endpoint(listener_name) is None:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"the voter names no address of the listener {listener_name}"
        )
    return None


def check_no_other_change(leader: Leader, latest: VoterEntry) -> Refusal | None:
    """Return why no change of voters can begin now, or None if one can begin."""
    if leader.pending is not None or leader.high_watermark == UNKNOWN_OFFSET:
        return _busy()
    if latest.kraft_version == STATIC_QUORUM:
        return Refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            "voters are configuration at kraft.version 0; raise kraft.version first",
        )
    return _busy() if latest.offset >= leader.high_watermark else None


def _busy() -> Refusal:
    return Refusal(
        ErrorCode.REQUEST_TIMED_OUT,
        "another change of voters, or the election, is not committed yet; try again",
    )
