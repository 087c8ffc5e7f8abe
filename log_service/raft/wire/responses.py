"""Convert the quorum's responses to Kafka's responses and back.

A response that names the leader also holds the leader's address at the listener of the request, if
it is known. An error for a whole response reaches the caller as ``RefusedError``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    KRaftVersionResponse,
    Response,
    UpdateVoterResponse,
    VoterChangeResponse,
    VoteResponse,
    WireMessage,
)
from log_service.raft.voters import VoterEndpoint
from log_service.raft.wire.context import TOPIC_ID, Context, RefusedError, only_partition


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
    partition = only_partition(message.topics)
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
    partition = only_partition(message.responses, "topic_id")
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
    partition = only_partition(message.topics, "name", "index")
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
