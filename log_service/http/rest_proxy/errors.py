"""Refused requests, with the codes and texts that clients of Confluent's REST proxy match.

The first three digits of a five-digit code are the HTTP status. This module decides which refusal
an error of the cluster becomes. Source: Confluent's REST API, versions 2 and 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from log_service.client import ConfigError, ErrorCode, KafkaError, SchemaRegistryError
from log_service.http.server.values import HttpError

Headers = tuple[tuple[str, str], ...]
UNPROCESSABLE: Final = 422


@dataclass(slots=True)
class RestError(Exception):
    """A refused request. ``code`` is the error code in the body.

    ``headers`` are added to the response.
    """

    code: int
    text: str
    headers: Headers = ()

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1_000 else self.code // 100

    def __str__(self) -> str:
        return self.text


TOPIC_NOT_FOUND: Final = 40401
PARTITION_NOT_FOUND: Final = 40402
INSTANCE_NOT_FOUND: Final = 40403
FORMAT_MISMATCH: Final = 40601
SCHEMA_FAILED: Final = 40801
INSTANCE_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
KEY_SCHEMA_MISSING: Final = 42201
VALUE_SCHEMA_MISSING: Final = 42202
INVALID_CONSUMER: Final = 42204
INVALID_SCHEMA: Final = 42205
INVALID_PAYLOAD: Final = 42206
KAFKA_ERROR: Final = 50002
RETRIABLE_ERROR: Final = 50003
UNAUTHENTICATED: Final = 40101
FORBIDDEN: Final = 40301
TOO_MANY: Final = 42901
RETRY: Final[Headers] = (("retry-after", "1"),)

NO_TOPIC: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
)
"""The errors of a topic that does not exist, or whose name is invalid."""
MEANINGS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.SASL_AUTHENTICATION_FAILED: UNAUTHENTICATED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: TOPIC_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: TOPIC_NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 40002,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 40002,
    ErrorCode.INVALID_PARTITIONS: 40002,
    ErrorCode.INVALID_REPLICATION_FACTOR: 40002,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: 40002,
    ErrorCode.INVALID_CONFIG: 40002,
    ErrorCode.INVALID_REGULAR_EXPRESSION: INVALID_CONSUMER,
    ErrorCode.INVALID_REQUEST: 40002,
    ErrorCode.INVALID_RECORD: 40002,
    ErrorCode.INVALID_TIMESTAMP: 40002,
    ErrorCode.POLICY_VIOLATION: 40002,
    ErrorCode.TOPIC_DELETION_DISABLED: 40002,
    ErrorCode.INVALID_GROUP_ID: 40002,
    ErrorCode.OFFSET_OUT_OF_RANGE: 40002,
    ErrorCode.SECURITY_DISABLED: 40002,
    ErrorCode.UNSUPPORTED_VERSION: 40002,
    ErrorCode.MESSAGE_TOO_LARGE: 41301,
    ErrorCode.RECORD_LIST_TOO_LARGE: 41301,
    ErrorCode.NON_EMPTY_GROUP: 40901,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 40901,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: 40901,
    ErrorCode.UNKNOWN_MEMBER_ID: ILLEGAL_STATE,
    ErrorCode.ILLEGAL_GENERATION: ILLEGAL_STATE,
    ErrorCode.FENCED_INSTANCE_ID: ILLEGAL_STATE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: TOO_MANY,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: TOO_MANY,
}
"""The refusal that each error of the cluster becomes. Others are 50002 or 50003."""


def of_cluster(error: KafkaError) -> RestError:
    """Return the refusal for an error of the cluster.

    A producer retries until its timeout. The code then depends on the last error, the cause of the
    timeout.
    """
    code = MEANINGS.get(error.code)
    if error.code is ErrorCode.REQUEST_TIMED_OUT and isinstance(error.__cause__, KafkaError):
        code = MEANINGS.get(error.__cause__.code)
    if code is None:
        is_passing = error.is_retriable or error.code is ErrorCode.REQUEST_TIMED_OUT
        code = RETRIABLE_ERROR if is_passing else KAFKA_ERROR
    headers = RETRY if code in {TOO_MANY, RETRIABLE_ERROR} else ()
    return RestError(code, str(error), headers)


def of_http(error: HttpError) -> RestError:
    """Return the refusal for an error of the server, such as an unknown path."""
    return RestError(error.status, error.text, error.headers)


def of_registry(error: SchemaRegistryError) -> RestError:
    """Return the refusal for an error of the schema registry."""
    if error.code in {401, 40101}:
        return RestError(UNAUTHENTICATED, f"the schema registry refuses the login: {error}")
    if error.status == 403:
        return RestError(FORBIDDEN, str(error))
    if error.status in {404, 422}:
        return RestError(INVALID_SCHEMA, f"Invalid schema. {error}")
    return RestError(SCHEMA_FAILED, f"Error when registering schema. {error}")


def of_settings(error: ConfigError) -> RestError:
    """Return the refusal for consumer settings that are not valid."""
    return RestError(INVALID_CONSUMER, str(error))


def topic_not_found(topic: str) -> RestError:
    """Return the refusal: the topic does not exist, or the caller may not see it."""
    return RestError(TOPIC_NOT_FOUND, f"Topic {topic[:300]} not found")


def partition_not_found(partition: object) -> RestError:
    """Return the refusal: the topic does not have the partition."""
    return RestError(PARTITION_NOT_FOUND, f"Partition {str(partition)[:30]} not found")


def instance_not_found() -> RestError:
    """Return the refusal: this proxy has no such consumer instance of the group and login."""
    return RestError(INSTANCE_NOT_FOUND, "Consumer instance not found.")


def illegal_state() -> RestError:
    """Return the refusal: the consumer already gets its partitions in one of the other ways."""
    ways = "subscribe to topics by name, subscribe by a pattern, or assign partitions"
    return RestError(ILLEGAL_STATE, f"A consumer has one way to get partitions: {ways}.")


def not_assigned(topic: str, partition: int) -> RestError:
    """Return the refusal: the partition in the request is not assigned to the consumer."""
    return RestError(ILLEGAL_STATE, f"Partition {topic[:300]}-{partition} is not assigned.")


def format_mismatch(wanted: str, known: str) -> RestError:
    """Return the refusal: the consumer was created for another format."""
    text = f"The consumer has format {known}, and Accept asks for {wanted[:60]}"
    return RestError(FORMAT_MISMATCH, text)


def no_registry(record_format: str) -> RestError:
    """Return the refusal: the format needs schemas, and the proxy has no schema registry."""
    text = f"The format {record_format} needs a schema registry, and this proxy has none"
    return RestError(SCHEMA_FAILED, text)


def no_registry_for(part: str) -> RestError:
    """Return the refusal: a key or a value needs a schema, and the proxy has no registry.

    It needs one if it names a schema, or has no type.
    """
    text = "Payload error. Schema Registry must be configured when using schemas"
    advice = f"give {part} the type BINARY, JSON or STRING, or the proxy a schema.registry.url"
    return RestError(INVALID_PAYLOAD, f"{text}: {advice}.")
