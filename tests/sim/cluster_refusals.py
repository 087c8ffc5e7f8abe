"""Lists the error codes of a cluster for a correct request, beside those of a single node.

Leaders and coordinators move, too few replicas may be in sync, and a controller may be lost while
it decides.
"""

from collections.abc import Mapping

from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from tests.sim.node_refusals import LEGITIMATE

_FEW_REPLICAS = frozenset(
    {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
_NO_CONTROLLER = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})
_NO_LEADER = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
_NO_COORDINATOR = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_BEHIND = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE})
"""A leader that has just been elected may know less to be safe than the one before it showed, until
enough replicas are in sync again. It refuses to delete records beyond that, as Apache Kafka does.
"""
_QUEUE = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.FENCED_STATE_EPOCH,
        *_NO_COORDINATOR,
    }
)
"""A leader may have no session for a member, and no word of the coordinator that keeps the queue's
state.
"""
_ELECTION = frozenset(
    {
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_REASSIGNMENT = frozenset(
    {
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

_MORE: Mapping[ApiKey, frozenset[ErrorCode]] = {
    ApiKey.PRODUCE: _FEW_REPLICAS | {ErrorCode.UNKNOWN_PRODUCER_ID},
    ApiKey.FETCH: _NO_LEADER
    | {ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR},
    ApiKey.LIST_OFFSETS: _NO_LEADER,
    ApiKey.DELETE_RECORDS: _NO_LEADER | _NO_CONTROLLER | _FEW_REPLICAS | _BEHIND,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _NO_LEADER,
    ApiKey.FIND_COORDINATOR: _NO_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID: _NO_COORDINATOR | _NO_CONTROLLER,
    ApiKey.OFFSET_COMMIT: _NO_COORDINATOR | {ErrorCode.REQUEST_TIMED_OUT},
    ApiKey.JOIN_GROUP: _NO_COORDINATOR,
    ApiKey.CREATE_TOPICS: _NO_CONTROLLER | {ErrorCode.INVALID_REPLICATION_FACTOR},
    ApiKey.DELETE_TOPICS: _NO_CONTROLLER,
    ApiKey.CREATE_PARTITIONS: _NO_CONTROLLER
    | {ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.REASSIGNMENT_IN_PROGRESS},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _NO_CONTROLLER,
    ApiKey.ELECT_LEADERS: _NO_CONTROLLER | _ELECTION,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _NO_CONTROLLER | _REASSIGNMENT,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _NO_CONTROLLER,
    ApiKey.DESCRIBE_QUORUM: _NO_CONTROLLER | _NO_LEADER,
    ApiKey.ADD_RAFT_VOTER: _NO_CONTROLLER
    | {ErrorCode.DUPLICATE_VOTER, ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ApiKey.SHARE_GROUP_HEARTBEAT: _NO_COORDINATOR
    | {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH},
    ApiKey.SHARE_FETCH: _NO_LEADER | _QUEUE,
    ApiKey.SHARE_ACKNOWLEDGE: _NO_LEADER | _QUEUE | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _NO_COORDINATOR
    | _NO_LEADER
    | {ErrorCode.REQUEST_TIMED_OUT},
    ApiKey.REMOVE_RAFT_VOTER: _NO_CONTROLLER
    | {ErrorCode.VOTER_NOT_FOUND, ErrorCode.NOT_LEADER_OR_FOLLOWER},
}

_OF_CONSUMERS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _NO_COORDINATOR
    | {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    },
    ApiKey.OFFSET_COMMIT: frozenset({ErrorCode.STALE_MEMBER_EPOCH}),
    ApiKey.OFFSET_FETCH: frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}),
}
"""What members of the consumer protocol may hear, where a plan has some.

GROUP_ID_NOT_FOUND is for a heartbeat that comes after its member has left, or was removed, and the
rest of the group is classic.
"""

LEGITIMATE_IN_CLUSTER: Mapping[ApiKey, frozenset[ErrorCode]] = {
    key: LEGITIMATE.get(key, frozenset()) | _MORE.get(key, frozenset())
    for key in {**LEGITIMATE, **_MORE}
}
"""Every API that a cluster may refuse something."""

LEGITIMATE_WITH_CONSUMERS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    key: LEGITIMATE_IN_CLUSTER.get(key, frozenset()) | _OF_CONSUMERS.get(key, frozenset())
    for key in {**LEGITIMATE_IN_CLUSTER, **_OF_CONSUMERS}
}
"""The same where members speak the consumer protocol."""

_ENDING = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_MOVED_ON = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE})
"""A producer that was fenced may hear these, where its successor has another producer id, or has
ended its own transaction.
"""

_OF_TRANSACTIONS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    ApiKey.PRODUCE: _FENCED
    | _ENDING
    | {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    },
    ApiKey.INIT_PRODUCER_ID: _FENCED | _ENDING,
    ApiKey.ADD_PARTITIONS_TO_TXN: _NO_COORDINATOR | _FENCED | _ENDING | _MOVED_ON,
    ApiKey.ADD_OFFSETS_TO_TXN: _NO_COORDINATOR | _FENCED | _ENDING | _MOVED_ON,
    ApiKey.END_TXN: _NO_COORDINATOR | _FENCED | _ENDING | _MOVED_ON,
    ApiKey.TXN_OFFSET_COMMIT: _NO_COORDINATOR
    | _FENCED
    | _ENDING
    | {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.REQUEST_TIMED_OUT,
    },
    ApiKey.OFFSET_FETCH: frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT}),
}

_FORMER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH})
"""What a member hears that the group has removed, or that is behind it."""

_OF_STREAMS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: _NO_COORDINATOR
    | {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.INVALID_REQUEST},
    ApiKey.STREAMS_GROUP_DESCRIBE: _NO_COORDINATOR | {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.OFFSET_COMMIT: _FORMER,
    ApiKey.OFFSET_FETCH: _FORMER,
}
"""INVALID_REQUEST is for those alone who bring another topology, as their checker sees to."""

LEGITIMATE_WITH_STREAMS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    key: LEGITIMATE_IN_CLUSTER.get(key, frozenset()) | _OF_STREAMS.get(key, frozenset())
    for key in {**LEGITIMATE_IN_CLUSTER, **_OF_STREAMS}
}
"""The same where clients are instances of Kafka Streams."""

LEGITIMATE_WITH_TRANSACTIONS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    key: LEGITIMATE_IN_CLUSTER.get(key, frozenset()) | _OF_TRANSACTIONS.get(key, frozenset())
    for key in {**LEGITIMATE_IN_CLUSTER, **_OF_TRANSACTIONS}
}
"""The same where clients have transactions."""

_OF_USERS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    ApiKey.CREATE_ACLS: _NO_CONTROLLER,
    ApiKey.DELETE_ACLS: _NO_CONTROLLER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _NO_CONTROLLER | {ErrorCode.RESOURCE_NOT_FOUND},
}

LEGITIMATE_WITH_USERS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    **LEGITIMATE_WITH_TRANSACTIONS,
    **_OF_USERS,
}
"""The same where an administrator changes users and rights. None of its other clients is ever
refused for want of a right.
"""
