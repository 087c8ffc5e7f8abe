"""One partition that a follower fetches, and where its log diverges from the leader's log.

This file decides where the log is truncated or restarted after the leader's response, and whether
a response still applies. ``following`` computes the offsets. ``fetcher`` sends the requests.
"""

from log_service.replication import following
from log_service.replication.following import FetchParameters
from log_service.replication.partition import Partition


class Followed:
    """One partition that is fetched.

    ``parameters`` holds the fetch parameters of the request in flight, or of the last one.
    ``is_lagging`` is true until the replica has all records below the leader's high watermark.
    ``lag`` is the number of these records that were missing when the leader responded.
    ``is_compared`` is true after the leader has confirmed that its log equals this log up to this
    log's end.
    """

    __slots__ = ("failure_count", "is_compared", "is_lagging", "lag", "parameters", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.is_lagging = True
        self.is_compared = False
        self.lag = 0
        self.parameters: FetchParameters | None = None
        self.failure_count = 0


def truncate_to_divergence(partition: Partition, leader_epoch_end: tuple[int, int]) -> None:
    """Truncate a follower's log at the latest offset where it may have diverged.

    ``leader_epoch_end`` is a leader epoch, and its end offset in the leader's log.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    log = partition.log
    assert log is not None, "a partition without a log is not fetched"
    own_epoch_end = log.end_offset_for_epoch(leader_epoch_end[0])
    partition.truncate_to(
        following.truncation_offset(leader_epoch_end, own_epoch_end, log.log_end_offset)
    )


def restart_if_incomparable(followed: Followed, leader_start_offset: int) -> bool:
    """Restart a follower's log at its end if it can no longer be compared with the leader's log.

    This happens if the leader has deleted all offsets of the follower's log before the two logs
    were compared. Return whether the log was restarted.

    A follower that led before may have records that were never committed. After a kill, its log
    start is the one of the last checkpoint, so that consumers could read these records. Such a log
    also could not take the batch in which the leader's log starts.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    partition, log = followed.partition, followed.partition.log
    assert log is not None, "a partition without a log is not fetched"
    own_offsets = log.log_start_offset, log.log_end_offset
    if not following.is_beyond_comparison(
        own_offsets, log.latest_leader_epoch, leader_start_offset, partition.leader_epoch
    ):
        followed.is_compared = True
        return False
    if followed.is_compared:
        return False
    partition.restart_at(log.log_end_offset)
    return True


def is_as_requested(followed: Followed) -> bool:
    """Return whether a partition is unchanged since it was requested.

    After a later leader epoch or a truncation, the response does not apply.
    """
    state, parameters = followed.partition.state, followed.parameters
    return (
        parameters is not None
        and not state.is_leader
        and state.leader_epoch == parameters.leader_epoch
        and state.log_end_offset == parameters.fetch_offset
        and not followed.partition.is_offline
    )
