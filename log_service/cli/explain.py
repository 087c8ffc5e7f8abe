"""Explains errors at a terminal: a sentence that says what to do, with Kafka's name of the error.

Users can search for Kafka's name.
"""

from collections.abc import Mapping
from types import MappingProxyType

from log_service.common.errors import ErrorCode, KafkaError, TidelogError

SENTENCES: Mapping[ErrorCode, str] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
            "there is no such topic or partition; see: tidelog topics list"
        ),
        ErrorCode.INVALID_TOPIC_EXCEPTION: (
            "a topic's name has at most 249 ASCII letters, digits, '.', '_' and '-'"
        ),
        ErrorCode.OFFSET_OUT_OF_RANGE: (
            "the log does not reach there; see START and END of: tidelog topics describe"
        ),
        ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group; see: tidelog groups list",
        ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them first",
        ErrorCode.POLICY_VIOLATION: (
            "the topic's cleanup.policy is only compact, and such records are not deleted by offset"
        ),
        ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic's max.message.bytes",
        ErrorCode.INVALID_RECORD: (
            "the topic refuses the record: a compacted topic takes only records with a key"
        ),
        ErrorCode.INVALID_TIMESTAMP: (
            "the record's timestamp is further from now than the topic allows"
            " (message.timestamp.*.max.ms)"
        ),
        ErrorCode.NOT_ENOUGH_REPLICAS: (
            "fewer replicas are in sync than the topic's min.insync.replicas"
        ),
        ErrorCode.LEADER_NOT_AVAILABLE: (
            "a partition has no leader: a broker is down, or the topic is just being made"
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group's coordinator is not available: try again",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: (
            "there is no such transactional id; see: tidelog transactions list"
        ),
        ErrorCode.INVALID_REGULAR_EXPRESSION: (
            "that is not a regular expression that the broker understands"
        ),
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group's members read that topic: stop them first",
        ErrorCode.UNKNOWN_MEMBER_ID: "the group has members: stop them first",
        ErrorCode.TOPIC_ALREADY_EXISTS: (
            "there is a topic of that name; --if-not-exists lets that be"
        ),
        ErrorCode.INVALID_PARTITIONS: "a topic has at least one partition, and never becomes fewer",
        ErrorCode.INVALID_REPLICATION_FACTOR: (
            "there are not as many brokers; see: tidelog cluster describe"
        ),
        ErrorCode.INVALID_CONFIG: (
            "that config is not known, or not with that value; see: tidelog configs describe --all"
        ),
        ErrorCode.UNSUPPORTED_VERSION: (
            "the broker does not know this request, or not in a version that tidelog speaks; "
            "see: tidelog cluster api-versions"
        ),
        ErrorCode.ELECTION_NOT_NEEDED: "the leader is the right one already",
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "nothing moves there; see: tidelog cluster reassign",
        ErrorCode.BROKER_ID_NOT_REGISTERED: (
            "there is no such broker; see: tidelog cluster describe"
        ),
        ErrorCode.KAFKA_STORAGE_ERROR: (
            "a log directory of the broker failed; see: tidelog cluster log-dirs"
        ),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
            "this user may not do that with the topic; see: tidelog acls list"
        ),
        ErrorCode.GROUP_AUTHORIZATION_FAILED: (
            "this user may not do that with the group; see: tidelog acls list"
        ),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
            "this user may not do that with the cluster; see: tidelog acls list"
        ),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
            "this user may not use that transactional id; see: tidelog acls list"
        ),
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
            "this user may not do that with tokens of that owner; see: tidelog acls list"
        ),
        ErrorCode.SECURITY_DISABLED: (
            "the cluster has no authorizer: everybody may do everything; see authorizer.class.name"
        ),
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
            "the cluster has no tokens: its nodes need delegation.token.secret.key"
        ),
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
            "only a user with a login of its own gets a token, not over plaintext"
        ),
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no such token; see: tidelog tokens list",
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: (
            "only its owner and its renewers may do that with a token"
        ),
        ErrorCode.DELEGATION_TOKEN_EXPIRED: (
            "the token has expired; make another: tidelog tokens create"
        ),
        ErrorCode.RESOURCE_NOT_FOUND: "there is no such user; see: tidelog users list",
        ErrorCode.UNACCEPTABLE_CREDENTIAL: (
            "the broker does not take such a password or such iterations"
        ),
        ErrorCode.TOPIC_DELETION_DISABLED: "the broker's delete.topic.enable is false",
    }
)


def explain(error: Exception) -> str:
    """Return the text of an error. A bare error code gets a sentence that explains it."""
    text = str(error) or type(error).__name__
    if isinstance(error, KafkaError) and error.code.name in text and error.code in SENTENCES:
        return text.replace(error.code.name, f"{SENTENCES[error.code]} ({error.code.name})", 1)
    if isinstance(error, OSError) and not isinstance(error, TidelogError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return text
