"""Convert the quorum's requests to Kafka's requests and back.

This file decides which requests are meant for this cluster and for the only partition of the
metadata log. Only these reach the rules. It fills in fields that the rules do not know: the cluster
id and the topic.

Invariants: The cluster is checked first, then the partition. A request's records of other
partitions never reach the log.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from log_service import __version__
from log_service.common.errors import ErrorCode
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
from log_service.raft.log_view import SnapshotId
from log_service.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    KRaftVersionRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoteRequest,
    WireMessage,
)
from log_service.raft.voters import NO_DIRECTORY, ReplicaKey, Voter, VoterEndpoint
from log_service.raft.wire.context import NO_ID, TOPIC_ID, Context, RefusedError, only_partition

T = TypeVar("T")
SOFTWARE_NAME = "tidelog"
MAX_EPOCH = 1 << 30
"""The highest accepted epoch.

Elections raise the epoch by one, so a higher epoch is invalid. It would leave the quorum no next
epoch.
"""


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


def _addressee(node_id: int, directory_id: UUID) -> ReplicaKey | None:
    return None if node_id < 0 else ReplicaKey(NodeId(node_id), directory_id)


def _read_vote(message: vote.VoteRequest) -> VoteRequest:
    partition = only_partition(message.topics)
    return VoteRequest(
        voter=_addressee(message.voter_id, partition.voter_directory_id),
        candidate=ReplicaKey(NodeId(partition.replica_id), partition.replica_directory_id),
        epoch=LeaderEpoch(partition.replica_epoch),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        is_pre_vote=partition.pre_vote,
    )


def _read_begin(message: begin_quorum_epoch.BeginQuorumEpochRequest) -> BeginQuorumEpochRequest:
    partition = only_partition(message.topics)
    return BeginQuorumEpochRequest(
        voter=_addressee(message.voter_id, partition.voter_directory_id),
        leader_id=NodeId(partition.leader_id),
        epoch=LeaderEpoch(partition.leader_epoch),
        leader_endpoints=_endpoints(message.leader_endpoints),
    )


def _read_end(message: end_quorum_epoch.EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    partition = only_partition(message.topics)
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
    partition = only_partition(message.topics, "topic_id", "partition")
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
    partition = only_partition(message.topics, "name", "partition")
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
