"""The JSON of requests and responses, for the OpenAPI description: schemas by method and path.

A body has the fields of its schema and no others, because the proxy refuses unknown ones. A
response may have more fields than its schema.
"""

from collections.abc import Mapping
from typing import Any, Final

from log_service.client.admin.access import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from log_service.http.record_formats.decoding import FORMATS as ENCODINGS
from log_service.http.rest_proxy.formats import FORMATS, STRATEGIES
from log_service.http.rest_proxy.v1.routes import QUEUE, RECORDS
from log_service.http.rest_proxy.v2.routes import INSTANCE
from log_service.http.rest_proxy.v3.parts import TYPES
from log_service.http.rest_proxy.v3.routes import (
    BROKER,
    CLUSTER,
    CONSUMER,
    GROUP,
    PARTITION,
    SHARE_CONSUMER,
    SHARE_GROUP,
    TOPIC,
)

Schema = dict[str, Any]

ANY: Final[Schema] = {}
TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
POSITIVE: Final[Schema] = {**COUNT, "minimum": 1}
LONG: Final[Schema] = {**COUNT, "maximum": 2**63 - 1}
FLAG: Final[Schema] = {"type": "boolean"}
BASE64: Final[Schema] = {"type": "string", "contentEncoding": "base64"}
RELATED: Final[Schema] = {
    "type": "object",
    "required": ["related"],
    "properties": {"related": TEXT},
}


def nullable(schema: Schema) -> Schema:
    """Return a schema that also allows null."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def choice_of(values: object) -> Schema:
    """Return the schema of a text that has to be one of ``values``."""
    return {"type": "string", "enum": list(values)}  # type: ignore[call-overload]


def fields(*optional: str, **properties: Schema) -> Schema:
    """Return the schema of an object in a response.

    All fields but the optional ones are required.
    """
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties}


def body(*required: str, **properties: Schema) -> Schema:
    """Return the schema of an object in a request, which allows no other fields."""
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


ACL: Final = {
    "resource_type": RESOURCE_TYPES,
    "pattern_type": PATTERN_TYPES,
    "operation": OPERATIONS,
    "permission": PERMISSIONS,
}
NEW_ACL: Final = body(
    "resource_type",
    "resource_name",
    "principal",
    "operation",
    resource_name=TEXT,
    principal=TEXT,
    host=TEXT,
    **{
        name: choice_of(each.upper() for each in known if each not in {"any", "match"})
        for name, known in ACL.items()
    },
)
CONFIG_CHANGES: Final = list_of(
    body(
        "name",
        name=TEXT,
        value=nullable(TEXT),
        operation=nullable(choice_of(["SET", "DELETE"])),
    )
)
CHANGED_CONFIGS: Final = body("data", data=CONFIG_CHANGES, validate_only=FLAG)
NEW_COUNT: Final = {**POSITIVE, "maximum": 1_000_000}
NEW_TOPIC: Final = body(
    "topic_name",
    topic_name=TEXT,
    partitions_count=NEW_COUNT,
    replication_factor={**POSITIVE, "maximum": 32_767},
    replicas_assignments=list_of(
        body(
            "partition_id",
            "broker_ids",
            partition_id={**COUNT, "maximum": 1_000_000},
            broker_ids=list_of(COUNT),
        )
    ),
    configs=list_of(body("name", name=TEXT, value=nullable(TEXT))),
    validate_only=FLAG,
)
HEADERS: Final = list_of(body("name", name=TEXT, value=nullable(BASE64)))
PART: Final = nullable(
    body(
        type=choice_of(TYPES),
        data=ANY,
        subject=nullable(TEXT),
        subject_name_strategy=nullable(choice_of(STRATEGIES)),
        schema_id=nullable(POSITIVE),
        schema_version=nullable(POSITIVE),
        schema=nullable(TEXT),
    )
)
RECORD: Final = {
    "partition_id": nullable(COUNT),
    "headers": HEADERS,
    "key": PART,
    "value": PART,
    "timestamp": nullable({"type": "string", "format": "date-time"}),
}
RECORDS_OF_V2: Final = body(
    "records",
    records={
        **list_of(
            body(
                "value",
                key=ANY,
                value=ANY,
                partition=nullable(COUNT),
                headers=HEADERS,
                timestamp=nullable(LONG),
            )
        ),
        "minItems": 1,
    },
    key_schema=nullable(TEXT),
    key_schema_id=nullable(COUNT),
    value_schema=nullable(TEXT),
    value_schema_id=nullable(COUNT),
)
PLACE: Final = {"topic": TEXT, "partition": COUNT}
PARTITIONS: Final = body("partitions", partitions=list_of(body("topic", "partition", **PLACE)))
OFFSETS: Final = body(
    "offsets", offsets=list_of(body("topic", "partition", "offset", **PLACE, offset=LONG))
)
BODIES: Final[Mapping[str, Schema]] = {
    f"POST {RECORDS}": body(
        "value",
        key=ANY,
        value=ANY,
        partition=nullable(COUNT),
        headers=nullable({"type": "object", "additionalProperties": nullable(TEXT)}),
        timestamp=nullable(LONG),
    ),
    f"POST {QUEUE}/acquire": body(
        max_records={**POSITIVE, "maximum": 100},
        wait_ms={**COUNT, "maximum": 30_000},
        encoding=choice_of(ENCODINGS),
    ),
    f"POST {QUEUE}/settle": {
        **body(**{name: list_of(TEXT) for name in ("accept", "release", "reject", "extend")}),
        "minProperties": 1,
    },
    "POST /topics/{topic}": RECORDS_OF_V2,
    "POST /topics/{topic}/partitions/{partition}": RECORDS_OF_V2,
    "POST /consumers/{group}": body(
        **{
            "name": TEXT,
            "format": choice_of(FORMATS),
            "auto.offset.reset": choice_of(["earliest", "latest"]),
            "auto.commit.enable": choice_of(["true", "false"]),
            "fetch.min.bytes": {**NUMBER, "minimum": -1, "maximum": 10_000_000},
            "consumer.request.timeout.ms": {**POSITIVE, "maximum": 1_000},
        }
    ),
    f"POST {INSTANCE}/subscription": {
        **body(topics=list_of(TEXT), topic_pattern=TEXT),
        "minProperties": 1,
        "maxProperties": 1,
    },
    f"POST {INSTANCE}/assignments": PARTITIONS,
    f"POST {INSTANCE}/positions": OFFSETS,
    f"POST {INSTANCE}/positions/beginning": PARTITIONS,
    f"POST {INSTANCE}/positions/end": PARTITIONS,
    f"POST {INSTANCE}/offsets": {**OFFSETS, "required": []},
    f"POST {CLUSTER}/topics": NEW_TOPIC,
    f"PATCH {CLUSTER}{TOPIC}": body("partitions_count", partitions_count=NEW_COUNT),
    f"POST {CLUSTER}/topics/-/configs:alter": body(
        "data",
        data=list_of(body("topic_name", "configs", topic_name=TEXT, configs=CONFIG_CHANGES)),
        validate_only=FLAG,
    ),
    f"POST {CLUSTER}{TOPIC}/records": body(**RECORD),
    f"POST {CLUSTER}{TOPIC}/records:batch": body(
        "entries",
        entries={**list_of(body("id", id=TEXT, **RECORD)), "minItems": 1},
    ),
    f"POST {CLUSTER}/acls": NEW_ACL,
    f"POST {CLUSTER}/acls:batch": body("data", data=list_of(NEW_ACL)),
    f"GET {INSTANCE}/offsets": PARTITIONS,
    **{
        f"{method} {CLUSTER}{path}": schema
        for path in (f"{TOPIC}/configs", f"{BROKER}/configs", "/broker-configs")
        for method, path, schema in (
            ("POST", f"{path}:alter", CHANGED_CONFIGS),
            ("PUT", f"{path}/{{name}}", body(value=nullable(TEXT))),
        )
    },
}
"""The bodies of requests, by method and path."""

PARAMETERS: Final[Mapping[str, Schema]] = {
    "timeout": {**COUNT, "maximum": 60_000},
    "max_bytes": POSITIVE,
    "limit": POSITIVE,
    "include_authorized_operations": FLAG,
}
"""The query parameters whose type is not text."""

CONFIG: Final = {
    "name": TEXT,
    "value": nullable(TEXT),
    "is_default": FLAG,
    "is_read_only": FLAG,
    "is_sensitive": FLAG,
    "source": TEXT,
    "synonyms": list_of(fields(name=TEXT, value=nullable(TEXT), source=TEXT)),
}
SHARED_PLACE: Final = {"topic_name": TEXT, "partition_id": NUMBER}
MEMBER: Final = {"consumer_group_id": TEXT, "consumer_id": TEXT}
PLACE_PATH: Final = "/{topic}/partitions/{partition}"
KINDS: Final[Mapping[str, Mapping[str, Schema]]] = {
    "KafkaCluster": {
        "controller": nullable(RELATED),
        "acls": RELATED,
        "brokers": RELATED,
        "broker_configs": RELATED,
        "consumer_groups": RELATED,
        "topics": RELATED,
        "partition_reassignments": RELATED,
    },
    "KafkaBroker": {
        "broker_id": NUMBER,
        "host": nullable(TEXT),
        "port": nullable(NUMBER),
        "rack": nullable(TEXT),
        "configs": RELATED,
        "partition_replicas": RELATED,
    },
    "KafkaTopic": {
        "topic_name": TEXT,
        "is_internal": FLAG,
        "replication_factor": NUMBER,
        "partitions_count": NUMBER,
        "partitions": RELATED,
        "configs": RELATED,
        "partition_reassignments": RELATED,
        "authorized_operations": list_of(TEXT),
    },
    "KafkaPartition": {
        **SHARED_PLACE,
        "leader": nullable(RELATED),
        "replicas": RELATED,
        "reassignment": RELATED,
    },
    "KafkaReplica": {
        **SHARED_PLACE,
        "broker_id": NUMBER,
        "is_leader": FLAG,
        "is_in_sync": FLAG,
        "broker": RELATED,
    },
    "KafkaReassignment": {
        **SHARED_PLACE,
        "adding_replicas": list_of(NUMBER),
        "removing_replicas": list_of(NUMBER),
        "replicas": RELATED,
    },
    "KafkaTopicConfig": {"topic_name": TEXT, **CONFIG},
    "KafkaBrokerConfig": {"broker_id": NUMBER, **CONFIG},
    "KafkaClusterConfig": {"config_type": TEXT, **CONFIG},
    "KafkaAcl": dict.fromkeys((*ACL, "resource_name", "principal", "host"), TEXT),
    "KafkaConsumerGroup": {
        "consumer_group_id": TEXT,
        "is_simple": FLAG,
        "partition_assignor": TEXT,
        "state": TEXT,
        "coordinator": RELATED,
        "consumers": RELATED,
        "lag_summary": RELATED,
    },
    "KafkaConsumer": {
        **MEMBER,
        "instance_id": nullable(TEXT),
        "client_id": TEXT,
        "assignments": RELATED,
    },
    "KafkaConsumerAssignment": {**MEMBER, **SHARED_PLACE, "partition": RELATED, "lag": RELATED},
    "KafkaConsumerLag": {
        **MEMBER,
        **SHARED_PLACE,
        "current_offset": NUMBER,
        "log_end_offset": NUMBER,
        "lag": NUMBER,
        "instance_id": nullable(TEXT),
        "client_id": TEXT,
    },
    "KafkaConsumerGroupLagSummary": {
        "consumer_group_id": TEXT,
        "max_lag_consumer_id": TEXT,
        "max_lag_instance_id": nullable(TEXT),
        "max_lag_client_id": TEXT,
        "max_lag_topic_name": TEXT,
        "max_lag_partition_id": NUMBER,
        "max_lag": NUMBER,
        "total_lag": NUMBER,
        "max_lag_consumer": RELATED,
        "max_lag_partition": RELATED,
    },
    "KafkaShareGroup": {
        "share_group_id": TEXT,
        "state": TEXT,
        "coordinator": RELATED,
        "consumers": RELATED,
        "consumer_count": NUMBER,
        "partition_count": NUMBER,
        "assigned_topic_partitions": list_of(fields(**SHARED_PLACE)),
    },
    "KafkaShareGroupConsumer": {
        "group_id": TEXT,
        "consumer_id": TEXT,
        "client_id": TEXT,
        "assignments": RELATED,
    },
    "KafkaShareGroupConsumerAssignment": {
        "group_id": TEXT,
        "consumer_id": TEXT,
        **SHARED_PLACE,
        "partition": RELATED,
    },
}
"""The fields of each kind of document of version 3, in addition to the common ones."""
LISTS: Final[Mapping[str, str]] = {
    "/v3/clusters": "KafkaCluster",
    f"{CLUSTER}/brokers": "KafkaBroker",
    f"{CLUSTER}{BROKER}/partition-replicas": "KafkaReplica",
    f"{CLUSTER}/topics": "KafkaTopic",
    f"{CLUSTER}{TOPIC}/partitions": "KafkaPartition",
    f"{CLUSTER}{PARTITION}/replicas": "KafkaReplica",
    f"{CLUSTER}{TOPIC}/partitions/-/reassignment": "KafkaReassignment",
    f"{CLUSTER}/topics/-/partitions/-/reassignment": "KafkaReassignment",
    f"{CLUSTER}/topics/-/configs": "KafkaTopicConfig",
    f"{CLUSTER}{TOPIC}/default-configs": "KafkaTopicConfig",
    f"{CLUSTER}{TOPIC}/configs": "KafkaTopicConfig",
    f"{CLUSTER}/brokers/-/configs": "KafkaBrokerConfig",
    f"{CLUSTER}{BROKER}/configs": "KafkaBrokerConfig",
    f"{CLUSTER}/broker-configs": "KafkaClusterConfig",
    f"{CLUSTER}/acls": "KafkaAcl",
    f"{CLUSTER}/consumer-groups": "KafkaConsumerGroup",
    f"{CLUSTER}{GROUP}/consumers": "KafkaConsumer",
    f"{CLUSTER}{CONSUMER}/assignments": "KafkaConsumerAssignment",
    f"{CLUSTER}{GROUP}/lags": "KafkaConsumerLag",
    f"{CLUSTER}/share-groups": "KafkaShareGroup",
    f"{CLUSTER}{SHARE_GROUP}/consumers": "KafkaShareGroupConsumer",
    f"{CLUSTER}{SHARE_CONSUMER}/assignments": "KafkaShareGroupConsumerAssignment",
}
"""The kind of the documents in each list of version 3."""
DOCUMENTS: Final[Mapping[str, str]] = {
    CLUSTER: "KafkaCluster",
    f"{CLUSTER}{BROKER}": "KafkaBroker",
    f"{CLUSTER}{TOPIC}": "KafkaTopic",
    f"{CLUSTER}{PARTITION}": "KafkaPartition",
    f"{CLUSTER}{PARTITION}/replicas/{{broker}}": "KafkaReplica",
    f"{CLUSTER}{PARTITION}/reassignment": "KafkaReassignment",
    f"{CLUSTER}{TOPIC}/configs/{{name}}": "KafkaTopicConfig",
    f"{CLUSTER}{BROKER}/configs/{{name}}": "KafkaBrokerConfig",
    f"{CLUSTER}/broker-configs/{{name}}": "KafkaClusterConfig",
    f"{CLUSTER}{GROUP}": "KafkaConsumerGroup",
    f"{CLUSTER}{CONSUMER}": "KafkaConsumer",
    f"{CLUSTER}{CONSUMER}/assignments{PLACE_PATH}": "KafkaConsumerAssignment",
    f"{CLUSTER}{GROUP}/lags{PLACE_PATH}": "KafkaConsumerLag",
    f"{CLUSTER}{GROUP}/lag-summary": "KafkaConsumerGroupLagSummary",
    f"{CLUSTER}{SHARE_GROUP}": "KafkaShareGroup",
    f"{CLUSTER}{SHARE_CONSUMER}": "KafkaShareGroupConsumer",
}
"""The kind of each single document of version 3."""

REPLICAS: Final = list_of(fields(broker=NUMBER, leader=FLAG, in_sync=FLAG))
PARTITION_OF_V2: Final = fields(partition=NUMBER, leader=NUMBER, replicas=REPLICAS)
PLACES_OF_V2: Final = list_of(fields(topic=TEXT, partition=NUMBER))
PRODUCED: Final = fields(
    offsets=list_of(
        fields(
            partition=nullable(NUMBER),
            offset=nullable(NUMBER),
            error_code=nullable(NUMBER),
            error=nullable(TEXT),
        )
    ),
    key_schema_id=nullable(NUMBER),
    value_schema_id=nullable(NUMBER),
)
OUTCOME: Final = fields(
    "message",
    "key",
    "value",
    error_code=NUMBER,
    message=TEXT,
    key=ANY,
    value=ANY,
)
RESPONSES: Final[Mapping[str, Schema]] = {
    f"POST {QUEUE}/acquire": fields(records=list_of(ANY), lock_ms=nullable(NUMBER)),
    f"POST {QUEUE}/settle": fields(settled=NUMBER),
    "GET /topics": list_of(TEXT),
    "GET /topics/{topic}": fields(name=TEXT, configs=ANY, partitions=list_of(PARTITION_OF_V2)),
    "GET /topics/{topic}/partitions": list_of(PARTITION_OF_V2),
    "GET /topics/{topic}/partitions/{partition}": PARTITION_OF_V2,
    "GET /topics/{topic}/partitions/{partition}/offsets": fields(
        beginning_offset=NUMBER, end_offset=NUMBER
    ),
    "POST /topics/{topic}": PRODUCED,
    "POST /topics/{topic}/partitions/{partition}": PRODUCED,
    "GET /brokers": fields(brokers=list_of(NUMBER)),
    "POST /consumers/{group}": fields(instance_id=TEXT, base_uri=TEXT),
    f"GET {INSTANCE}/subscription": fields(topics=list_of(TEXT)),
    f"GET {INSTANCE}/assignments": fields(partitions=PLACES_OF_V2),
    f"GET {INSTANCE}/offsets": fields(
        offsets=list_of(fields(topic=TEXT, partition=NUMBER, offset=NUMBER, metadata=TEXT))
    ),
    f"GET {INSTANCE}/records": list_of(
        fields(topic=TEXT, partition=NUMBER, offset=NUMBER, timestamp=NUMBER, key=ANY, value=ANY)
    ),
    f"POST {CLUSTER}{TOPIC}/records": OUTCOME,
    f"POST {CLUSTER}{TOPIC}/records:batch": fields(
        successes=list_of(OUTCOME), failures=list_of(OUTCOME)
    ),
    f"POST {CLUSTER}/topics/-/configs:alter": fields(
        failures=list_of(fields(topic_name=TEXT, error_code=NUMBER, message=TEXT))
    ),
    f"DELETE {CLUSTER}/acls": fields(data=list_of(ANY)),
}
"""The responses that are not JSON documents, by method and path."""

STATUSES: Final[Mapping[str, tuple[str, ...]]] = {
    f"POST {CLUSTER}/topics": ("200", "201"),
    f"POST {CLUSTER}/acls": ("201",),
    f"POST {CLUSTER}/acls:batch": ("201",),
    f"POST {CLUSTER}{TOPIC}/records:batch": ("207",),
    f"POST {CLUSTER}/topics/-/configs:alter": ("204", "207"),
    f"DELETE {CLUSTER}{TOPIC}": ("204",),
    f"DELETE {INSTANCE}": ("204",),
    f"DELETE {INSTANCE}/subscription": ("204",),
    **{
        f"POST {INSTANCE}/{name}": ("204",)
        for name in (
            "subscription",
            "assignments",
            "positions",
            "positions/beginning",
            "positions/end",
        )
    },
    **{
        f"{method} {CLUSTER}{path}{end}": ("204",)
        for path in (f"{TOPIC}/configs", f"{BROKER}/configs", "/broker-configs")
        for method, end in (("POST", ":alter"), ("PUT", "/{name}"), ("DELETE", "/{name}"))
    },
}
"""The statuses of success other than 200, by method and path."""
WITHOUT_CONTENT: Final = frozenset(
    {f"POST {CLUSTER}/acls", f"POST {CLUSTER}/acls:batch", f"POST {INSTANCE}/offsets"}
)


def parameter_of(name: str) -> Schema:
    """Return the schema of a query parameter."""
    return PARAMETERS.get(name, TEXT)


def response_of(method: str, path: str) -> Schema:
    """Return the schema of a route's response, for a response with a body."""
    name = f"{method} {path}"
    if name in RESPONSES:
        return RESPONSES[name]
    if method == "GET" and path in LISTS:
        return {"$ref": f"#/components/schemas/{LISTS[path]}List"}
    if path in DOCUMENTS or name == f"POST {CLUSTER}/topics":
        return {"$ref": f"#/components/schemas/{DOCUMENTS.get(path, 'KafkaTopic')}"}
    return ANY


def components() -> dict[str, Schema]:
    """Return the schemas of documents of each kind, and of lists of them, by name."""
    metadata = fields("resource_name", self=TEXT, resource_name=nullable(TEXT))
    found: dict[str, Schema] = {}
    for kind, properties in KINDS.items():
        found[kind] = fields(kind={"const": kind}, metadata=metadata, cluster_id=TEXT, **properties)
        found[f"{kind}List"] = fields(
            kind={"const": f"{kind}List"},
            metadata=fields(self=TEXT, next=nullable(TEXT)),
            data=list_of({"$ref": f"#/components/schemas/{kind}"}),
        )
    return found
