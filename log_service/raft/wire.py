"""Convert the quorum's messages to Kafka's messages and back.

This file decides which requests are meant for this cluster and for the only partition of the
metadata log. Only these reach the rules. It fills in fields that the rules do not know: the cluster
id, the topic, and the address of the leader at the listener of a request. It does not know
versions, because the codec leaves out fields that a version does not have.

Invariants: The cluster is checked first, then the partition. A response with a leader also holds
the leader's address if it is known. A request's records of other partitions never reach the log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from log_service import __version__
from log_service.common.errors import ErrorCode
from log_service.common.features import KRAFT_VERSION
from log_service.common.types import CLUSTER_METADATA_TOPIC, LeaderEpoch, NodeId
from log_service.protocol.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from log_service.raft.log_view import EpochEnd, SnapshotId
from log_service.raft.messages import (
    NO_LEADER,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersionRequest,
    KRaftVersionResponse,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
    WireMessage,
)
from log_service.raft.voters import NO_DIRECTORY, ReplicaKey, Voter, VoterEndpoint

T = TypeVar("T")
TOPIC_ID = UUID(int=1)
NO_ID = -1
SOFTWARE_NAME = "tidelog"


MAX_EPOCH = 1 << 30
"""The highest accepted epoch.

Elections raise the epoch by one, so a higher epoch is invalid. It would leave the quorum no next
epoch.
"""


class RefusedError(Exception):
    """A message is not for this quorum, or holds no response.

    ``code`` is the error of the whole message.
    """

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a written message: the cluster, a timeout, and the leader's listener."""

    cluster_id: str | None
    listener_name: str
    timeout_ms: int = 0


# Requests


def write_request(request: Request, context: Context) -> WireMessage:
    """Return Kafka's message for a request."""
    return _REQUEST_WRITERS[type(request)](request, context)


def _write_vote(request: VoteRequest, context: Context) -> vote.VoteRequest:
    partition = vote.RequestPartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id if request.voter else NO_DIRECTORY,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.is_pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(
        cluster_id=context.cluster_id,
        voter_id=request.voter.node_id if request.voter else NO_ID,
        topics=[topic],
    )


def _write_begin(
    request: BeginQuorumEpochRequest, context: Context
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.RequestPartitionData(
        voter_directory_id=request.voter.directory_id if request.voter else NO_DIRECTORY,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=context.cluster_id,
        voter_id=request.voter.node_id if request.voter else NO_ID,
        topics=[
            begin_quorum_epoch.RequestTopicData(
                topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
            )
        ],
        leader_endpoints=_listeners(begin_quorum_epoch.LeaderEndpoint, request.leader_endpoints),
    )


def _write_end(
    request: EndQuorumEpochRequest, context: Context
) -> end_quorum_epoch.EndQuorumEpochRequest:
    candidates = [
        end_quorum_epoch.ReplicaInfo(
            candidate_id=key.node_id, candidate_directory_id=key.directory_id
        )
        for key in request.successors
    ]
    partition = end_quorum_epoch.RequestPartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.node_id for key in request.successors],
        preferred_candidates=candidates,
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=context.cluster_id,
        topics=[
            end_quorum_epoch.RequestTopicData(
                topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
            )
        ],
        leader_endpoints=_listeners(end_quorum_epoch.LeaderEndpoint, request.leader_endpoints),
    )


def _write_fetch(request: FetchRequest, context: Context) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_epoch,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=context.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.node_id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[
            fetch.FetchTopic(
                topic=CLUSTER_METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition]
            )
        ],
    )


def _write_fetch_snapshot(
    request: FetchSnapshotRequest, context: Context
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.RequestSnapshotId(
            end_offset=request.snapshot_id.end_offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=context.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=[
            fetch_snapshot.RequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
        ],
    )


def _write_update(
    request: UpdateVoterRequest, context: Context
) -> update_raft_voter.UpdateRaftVoterRequest:
    voter = request.voter
    return update_raft_voter.UpdateRaftVoterRequest(
        cluster_id=context.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.node_id,
        voter_directory_id=voter.directory_id,
        listeners=_listeners(update_raft_voter.Listener, voter.endpoints),
        kraft_version_feature=update_raft_voter.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version,
            max_supported_version=voter.max_kraft_version,
        ),
    )


def _write_add(request: AddVoterRequest, context: Context) -> add_raft_voter.AddRaftVoterRequest:
    voter = request.voter
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=context.cluster_id,
        timeout_ms=context.timeout_ms,
        voter_id=voter.node_id,
        voter_directory_id=voter.directory_id,
        listeners=_listeners(add_raft_voter.Listener, voter.endpoints),
        ack_when_committed=request.is_response_after_commit,
    )


def _write_remove(
    request: RemoveVoterRequest, context: Context
) -> remove_raft_voter.RemoveRaftVoterRequest:
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=context.cluster_id,
        voter_id=request.voter.node_id,
        voter_directory_id=request.voter.directory_id,
    )


def _listeners(cls: Callable[..., T], endpoints: Sequence[VoterEndpoint]) -> list[T]:
    return [cls(name=each.name, host=each.host, port=each.port) for each in endpoints]


_REQUEST_WRITERS: Mapping[type, Callable[[Any, Context], WireMessage]] = {
    VoteRequest: _write_vote,
    BeginQuorumEpochRequest: _write_begin,
    EndQuorumEpochRequest: _write_end,
    FetchRequest: _write_fetch,
    FetchSnapshotRequest: _write_fetch_snapshot,
    UpdateVoterRequest: _write_update,
    AddVoterRequest: _write_add,
    RemoveVoterRequest: _write_remove,
    KRaftVersionRequest: lambda _request, _context: api_versions.ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=__version__
    ),
}


def read_request(message: WireMessage, context: Context) -> Request:
    """Return the request in a message.

    Raises:
        RefusedError: the message is for another cluster, or not only for the metadata log, or its
            epoch is too high.
    """
    if message.cluster_id is not None and message.cluster_id != context.cluster_id:
        raise RefusedError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is cluster {context.cluster_id}, not {message.cluster_id}",
        )
    request = _REQUEST_READERS[type(message)](message)
    if getattr(request, "epoch", 0) > MAX_EPOCH:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"no quorum has come to an epoch above {MAX_EPOCH}"
        )
    return request


def _only_partition(
    topics: Sequence[Any], name_of: str = "topic_name", index_of: str = "partition_index"
) -> Any:
    """Return the only partition of a message.

    Raises:
        RefusedError: the message names several partitions, or a wrong one.
    """
    wanted = TOPIC_ID if name_of == "topic_id" else CLUSTER_METADATA_TOPIC
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"{CLUSTER_METADATA_TOPIC}-0 has a quorum of its own: name it alone",
        )
    partition = topics[0].partitions[0]
    if getattr(topics[0], name_of) != wanted or getattr(partition, index_of) != 0:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"only {CLUSTER_METADATA_TOPIC}-0 has a quorum"
        )
    return partition


def _addressee(node_id: int, directory_id: UUID) -> ReplicaKey | None:
    return None if node_id < 0 else ReplicaKey(NodeId(node_id), directory_id)


def _read_vote(message: vote.VoteRequest) -> VoteRequest:
    partition = _only_partition(message.topics)
    return VoteRequest(
        voter=_addressee(message.voter_id, partition.voter_directory_id),
        candidate=ReplicaKey(NodeId(partition.replica_id), partition.replica_directory_id),
        epoch=LeaderEpoch(partition.replica_epoch),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        is_pre_vote=partition.pre_vote,
    )


def _read_begin(message: begin_quorum_epoch.BeginQuorumEpochRequest) -> BeginQuorumEpochRequest:
    partition = _only_partition(message.topics)
    return BeginQuorumEpochRequest(
        voter=_addressee(message.voter_id, partition.voter_directory_id),
        leader_id=NodeId(partition.leader_id),
        epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoints=_endpoints(message.leader_endpoints),
    )


def _read_end(message: end_quorum_epoch.EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    partition = _only_partition(message.topics)
    candidates = [
        ReplicaKey(NodeId(each.candidate_id), each.candidate_directory_id)
        for each in partition.preferred_candidates
    ]
    successors = candidates or [ReplicaKey(NodeId(each)) for each in partition.preferred_successors]
    return EndQuorumEpochRequest(
        leader_id=NodeId(partition.leader_id),
        epoch=LeaderEpoch(partition.leader_epoch),
        successors=tuple(successors),
        leader_endpoints=_endpoints(message.leader_endpoints),
    )


def _read_fetch(message: fetch.FetchRequest) -> FetchRequest:
    partition = _only_partition(message.topics, "topic_id", "partition")
    replica_id = (
        message.replica_state.replica_id
        if message.replica_state is not None
        else message.replica_id
    )
    return FetchRequest(
        replica=ReplicaKey(NodeId(replica_id), partition.replica_directory_id),
        epoch=LeaderEpoch(partition.current_leader_epoch),
        fetch_offset=partition.fetch_offset,
        last_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=message.max_wait_ms,
        max_bytes=message.max_bytes,
    )


def _read_fetch_snapshot(message: fetch_snapshot.FetchSnapshotRequest) -> FetchSnapshotRequest:
    partition = _only_partition(message.topics, "name", "partition")
    return FetchSnapshotRequest(
        replica=ReplicaKey(NodeId(message.replica_id), partition.replica_directory_id),
        epoch=LeaderEpoch(partition.current_leader_epoch),
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=message.max_bytes,
    )


def _read_update(message: update_raft_voter.UpdateRaftVoterRequest) -> UpdateVoterRequest:
    voter = Voter(
        node_id=NodeId(message.voter_id),
        directory_id=message.voter_directory_id,
        endpoints=_endpoints(message.listeners),
        min_kraft_version=message.kraft_version_feature.min_supported_version,
        max_kraft_version=message.kraft_version_feature.max_supported_version,
    )
    return UpdateVoterRequest(epoch=LeaderEpoch(message.current_leader_epoch), voter=voter)


def _read_add(message: add_raft_voter.AddRaftVoterRequest) -> AddVoterRequest:
    key = NodeId(message.voter_id), message.voter_directory_id
    voter = Voter(node_id=key[0], directory_id=key[1], endpoints=_endpoints(message.listeners))
    return AddVoterRequest(voter=voter, is_response_after_commit=message.ack_when_committed)


def _read_remove(message: remove_raft_voter.RemoveRaftVoterRequest) -> RemoveVoterRequest:
    return RemoveVoterRequest(
        voter=ReplicaKey(NodeId(message.voter_id), message.voter_directory_id)
    )


def _endpoints(listeners: Sequence[Any]) -> tuple[VoterEndpoint, ...]:
    return tuple(VoterEndpoint(each.name, each.host, each.port) for each in listeners)


_REQUEST_READERS: Mapping[type, Callable[[Any], Request]] = {
    vote.VoteRequest: _read_vote,
    begin_quorum_epoch.BeginQuorumEpochRequest: _read_begin,
    end_quorum_epoch.EndQuorumEpochRequest: _read_end,
    fetch.FetchRequest: _read_fetch,
    fetch_snapshot.FetchSnapshotRequest: _read_fetch_snapshot,
    update_raft_voter.UpdateRaftVoterRequest: _read_update,
    add_raft_voter.AddRaftVoterRequest: _read_add,
    remove_raft_voter.RemoveRaftVoterRequest: _read_remove,
}

# Responses


def write_response(message: WireMessage, response: Response, context: Context) -> WireMessage:
    """Return Kafka's response to ``message``."""
    return _RESPONSE_WRITERS[type(message)](response, context)


def write_refusal(message: WireMessage, refused: RefusedError) -> WireMessage:
    """Return the response to a message that is not for this quorum.

    It holds an error for the whole message, and the text if it has a field for one.
    """
    response = _RESPONSE_CLASSES[type(message)](error_code=refused.code)
    if hasattr(response, "error_message"):
        response.error_message = str(refused)
    return response


def _written_leader(cls: Callable[..., Any], response: Response, context: Context) -> list[Any]:
    """Return a list with the leader's address at the listener of the request.

    The list is empty if the address is unknown.
    """
    endpoint = next(
        (each for each in response.leader_endpoints if each.name == context.listener_name), None
    )
    if endpoint is None or response.leader_id == NO_LEADER:
        return []
    return [cls(node_id=response.leader_id, host=endpoint.host, port=endpoint.port)]


def _write_vote_response(response: VoteResponse, context: Context) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        vote_granted=response.is_granted,
    )
    topic = vote.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteResponse(
        topics=[topic], node_endpoints=_written_leader(vote.NodeEndpoint, response, context)
    )


def _write_begin_response(
    response: BeginQuorumEpochResponse, context: Context
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.ResponsePartitionData(
        error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    topic = begin_quorum_epoch.ResponseTopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    endpoints = _written_leader(begin_quorum_epoch.NodeEndpoint, response, context)
    return begin_quorum_epoch.BeginQuorumEpochResponse(topics=[topic], node_endpoints=endpoints)


def _write_end_response(
    response: EndQuorumEpochResponse, context: Context
) -> end_quorum_epoch.EndQuorumEpochResponse:
    partition = end_quorum_epoch.ResponsePartitionData(
        error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    topic = end_quorum_epoch.ResponseTopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    endpoints = _written_leader(end_quorum_epoch.NodeEndpoint, response, context)
    return end_quorum_epoch.EndQuorumEpochResponse(topics=[topic], node_endpoints=endpoints)


def _write_fetch_response(response: FetchResponse, context: Context) -> fetch.FetchResponse:
    diverging, snapshot_id = response.diverging, response.snapshot_id
    partition = fetch.PartitionData(
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        diverging_epoch=(
            fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
            if diverging
            else None
        ),
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        snapshot_id=(
            fetch.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
            if snapshot_id
            else None
        ),
        records=response.records,
    )
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchResponse(
        responses=[topic], node_endpoints=_written_leader(fetch.NodeEndpoint, response, context)
    )


def _write_fetch_snapshot_response(
    response: FetchSnapshotResponse, context: Context
) -> fetch_snapshot.FetchSnapshotResponse:
    snapshot_id = response.snapshot_id or SnapshotId(0, 0)
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        error_code=response.error,
        snapshot_id=fetch_snapshot.ResponseSnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=response.content,
    )
    topic = fetch_snapshot.ResponseTopicSnapshot(
        name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    endpoints = _written_leader(fetch_snapshot.NodeEndpoint, response, context)
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic], node_endpoints=endpoints)


def _write_update_response(
    response: UpdateVoterResponse, context: Context
) -> update_raft_voter.UpdateRaftVoterResponse:
    endpoint = next(
        (each for each in response.leader_endpoints if each.name == context.listener_name),
        VoterEndpoint("", "", 0),
    )
    leader = update_raft_voter.CurrentLeader(
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        host=endpoint.host,
        port=endpoint.port,
    )
    return update_raft_voter.UpdateRaftVoterResponse(
        error_code=response.error, current_leader=leader
    )


def _write_add_response(
    response: VoterChangeResponse, _context: Context
) -> add_raft_voter.AddRaftVoterResponse:
    return add_raft_voter.AddRaftVoterResponse(
        error_code=response.error, error_message=response.message or None
    )


def _write_remove_response(
    response: VoterChangeResponse, _context: Context
) -> remove_raft_voter.RemoveRaftVoterResponse:
    return remove_raft_voter.RemoveRaftVoterResponse(
        error_code=response.error, error_message=response.message or None
    )


_RESPONSE_WRITERS: Mapping[type, Callable[[Any, Context], WireMessage]] = {
    vote.VoteRequest: _write_vote_response,
    begin_quorum_epoch.BeginQuorumEpochRequest: _write_begin_response,
    end_quorum_epoch.EndQuorumEpochRequest: _write_end_response,
    fetch.FetchRequest: _write_fetch_response,
    fetch_snapshot.FetchSnapshotRequest: _write_fetch_snapshot_response,
    update_raft_voter.UpdateRaftVoterRequest: _write_update_response,
    add_raft_voter.AddRaftVoterRequest: _write_add_response,
    remove_raft_voter.RemoveRaftVoterRequest: _write_remove_response,
}
_RESPONSE_CLASSES: Mapping[type, type] = {
    vote.VoteRequest: vote.VoteResponse,
    begin_quorum_epoch.BeginQuorumEpochRequest: begin_quorum_epoch.BeginQuorumEpochResponse,
    end_quorum_epoch.EndQuorumEpochRequest: end_quorum_epoch.EndQuorumEpochResponse,
    fetch.FetchRequest: fetch.FetchResponse,
    fetch_snapshot.FetchSnapshotRequest: fetch_snapshot.FetchSnapshotResponse,
    update_raft_voter.UpdateRaftVoterRequest: update_raft_voter.UpdateRaftVoterResponse,
    add_raft_voter.AddRaftVoterRequest: add_raft_voter.AddRaftVoterResponse,
    remove_raft_voter.RemoveRaftVoterRequest: remove_raft_voter.RemoveRaftVoterResponse,
}

_VOTER_RESPONSES = (
    update_raft_voter.UpdateRaftVoterResponse,
    add_raft_voter.AddRaftVoterResponse,
    remove_raft_voter.RemoveRaftVoterResponse,
)
"""The responses whose error is the result of the change of voters."""


def read_response(message: WireMessage, context: Context) -> Response:
    """Return the response in a message.

    Raises:
        RefusedError: the message holds an error for the whole request, or nothing about the
            metadata log.
    """
    response = _RESPONSE_READERS[type(message)]
    if message.error_code and not isinstance(message, _VOTER_RESPONSES):
        raise RefusedError(_error(message.error_code), "the peer refuses the whole request")
    return response(message, context)


def _error(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _common(
    partition_error: int, leader_id: int, epoch: int, endpoints: Sequence[Any], context: Context
) -> dict[str, Any]:
    """Return the fields that all responses share."""
    known = tuple(
        VoterEndpoint(context.listener_name, each.host, each.port)
        for each in endpoints
        if each.node_id == leader_id
    )
    return {
        "error": _error(partition_error),
        "leader_id": NodeId(leader_id) if leader_id >= 0 else NO_LEADER,
        "epoch": LeaderEpoch(epoch),
        "leader_endpoints": known,
    }


def _of_partition(message: WireMessage, context: Context) -> tuple[Any, dict[str, Any]]:
    partition = _only_partition(message.topics)
    return partition, _common(
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
        message.node_endpoints,
        context,
    )


def _read_vote_response(message: vote.VoteResponse, context: Context) -> VoteResponse:
    partition, common = _of_partition(message, context)
    return VoteResponse(**common, is_granted=partition.vote_granted)


def _read_begin_response(
    message: begin_quorum_epoch.BeginQuorumEpochResponse, context: Context
) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(**_of_partition(message, context)[1])


def _read_end_response(
    message: end_quorum_epoch.EndQuorumEpochResponse, context: Context
) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(**_of_partition(message, context)[1])


def _read_fetch_response(message: fetch.FetchResponse, context: Context) -> FetchResponse:
    partition = _only_partition(message.responses, "topic_id")
    leader = partition.current_leader or fetch.LeaderIdAndEpoch()
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    is_snapshot = snapshot_id is not None and (
        snapshot_id.epoch >= 0 or snapshot_id.end_offset >= 0
    )
    return FetchResponse(
        **_common(
            partition.error_code,
            leader.leader_id,
            leader.leader_epoch,
            message.node_endpoints,
            context,
        ),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=(
            EpochEnd(diverging.epoch, diverging.end_offset)
            if diverging is not None and diverging.epoch >= 0
            else None
        ),
        snapshot_id=SnapshotId(snapshot_id.end_offset, snapshot_id.epoch) if is_snapshot else None,
        records=partition.records or b"",
    )


def _read_fetch_snapshot_response(
    message: fetch_snapshot.FetchSnapshotResponse, context: Context
) -> FetchSnapshotResponse:
    partition = _only_partition(message.topics, "name", "index")
    leader = partition.current_leader or fetch_snapshot.LeaderIdAndEpoch(leader_id=NO_LEADER)
    return FetchSnapshotResponse(
        **_common(
            partition.error_code,
            leader.leader_id,
            leader.leader_epoch,
            message.node_endpoints,
            context,
        ),
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size_bytes=partition.size,
        position=partition.position,
        content=partition.unaligned_records or b"",
    )


def _read_update_response(
    message: update_raft_voter.UpdateRaftVoterResponse, context: Context
) -> UpdateVoterResponse:
    leader = message.current_leader or update_raft_voter.CurrentLeader()
    endpoints = (
        (VoterEndpoint(context.listener_name, leader.host, leader.port),) if leader.host else ()
    )
    return UpdateVoterResponse(
        error=_error(message.error_code),
        leader_id=NodeId(leader.leader_id),
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_endpoints=endpoints,
    )


def _read_voter_change(message: Any, _context: Context) -> VoterChangeResponse:
    return VoterChangeResponse(
        error=_error(message.error_code), message=message.error_message or ""
    )


def _read_versions(
    message: api_versions.ApiVersionsResponse, _context: Context
) -> KRaftVersionResponse:
    feature = next(
        (each for each in message.supported_features if each.name == KRAFT_VERSION), None
    )
    if feature is None:
        return KRaftVersionResponse(error=ErrorCode.UNSUPPORTED_VERSION)
    return KRaftVersionResponse(
        min_kraft_version=feature.min_version, max_kraft_version=feature.max_version
    )


_RESPONSE_READERS: Mapping[type, Callable[[Any, Context], Response]] = {
    vote.VoteResponse: _read_vote_response,
    begin_quorum_epoch.BeginQuorumEpochResponse: _read_begin_response,
    end_quorum_epoch.EndQuorumEpochResponse: _read_end_response,
    fetch.FetchResponse: _read_fetch_response,
    fetch_snapshot.FetchSnapshotResponse: _read_fetch_snapshot_response,
    update_raft_voter.UpdateRaftVoterResponse: _read_update_response,
    add_raft_voter.AddRaftVoterResponse: _read_voter_change,
    remove_raft_voter.RemoveRaftVoterResponse: _read_voter_change,
    api_versions.ApiVersionsResponse: _read_versions,
}
