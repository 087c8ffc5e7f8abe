"""Each API needs the rights that Apache Kafka asks for.

Each is tried without a right, with it, and with an ACL that denies it.

The rows are those of the matrix of the unit tests, which holds tidelog to a note of these facts:
here Apache Kafka says them itself.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from log_service.broker.requests.call import Side as NodeSide
from log_service.common.access import AclResource
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages import (
    describe_cluster,
    describe_groups,
    describe_topic_partitions,
    incremental_alter_configs,
    list_offsets,
    metadata,
)
from log_service.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from log_service.protocol.messages.describe_acls import DescribeAclsRequest
from log_service.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.integration.access_frames import ACCESS_PROPERTIES, Right, Side, acl, everything
from tests.integration.differential import Cluster, Duel, normalise
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    DENIALS,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    codes,
    leaves,
)
from tests.unit.broker.authorization.matrix import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    DESCRIBE,
    READ,
    WRITE,
    Row,
    Things,
)
from tests.unit.broker.authorization.matrix_rows import ROWS
from tests.unit.broker.authorization.matrix_steps import fitted, shows
from tests.unit.broker.context import batch, produce_request

PROPERTIES = ACCESS_PROPERTIES
LEFT_OUT = frozenset(
    {
        ApiKey.TIDELOG_MAINTENANCE,
        ApiKey.TIDELOG_SHARE_RECORDS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    }
)
"""What Apache Kafka does not have, and where it differs; see ``test_all_users_are_refused``."""
CASES = {
    f"{index}-{row}": row
    for index, row in enumerate(ROWS)
    if NodeSide.BROKER in row.sides and row.key not in LEFT_OUT
}


@pytest.fixture(scope="module")
def sides(clusters: Any) -> Iterator[dict[str, Side]]:
    opened = {cluster.bootstrap: Side(cluster) for cluster in clusters.sides()}
    yield opened
    for side in opened.values():
        side.close()


def prepared(side: Side, number: str) -> Things:
    """Make the resources of a row, with names that no other row has.

    They are a topic with a record, and the coordinators' topics.
    """
    things = Things(topic=f"t-{number}", group=f"g-{number}", transactional_id=f"x-{number}")
    topic = CreatableTopic(name=things.topic, num_partitions=1, replication_factor=1)
    created = side.admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0]
    assert created.error_code == 0, created
    until(
        lambda: (
            side.admin.ask(produce_request(things.topic, batch(b"one")), 9)
            .responses[0]
            .partition_responses[0]
            .error_code
            == 0
        )
    )
    for key_type, key in ((0, things.group), (1, things.transactional_id)):
        wanted = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        until(partial(has_coordinator, side, wanted))
    return replace(things, topic_id=created.topic_id)


def has_coordinator(side: Side, wanted: FindCoordinatorRequest) -> bool:
    return bool(side.admin.ask(wanted, 4).coordinators[0].error_code == 0)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def renamed(right: Right, things: Things) -> Right:
    operation, resource, name = right
    names = {
        (TOPIC, "t"): things.topic,
        (GROUP, "g"): things.group,
        (TRANSACTIONAL_ID, "x"): things.transactional_id,
    }
    return operation, resource, names.get((resource, name), name)


def hidden(row: Row, things: Things) -> str:
    """Return the text that a row's response must not show, by the names of this test."""
    return {"t": things.topic, "g": things.group, "x": things.transactional_id}[row.hidden or ""]


def ends(side: Side, things: Things) -> Any:
    """Tell where the log begins and ends, or the code that says that the topic is not there."""
    m = list_offsets
    found = []
    for timestamp in (-2, -1):
        wanted = m.ListOffsetsTopic(
            name=things.topic, partitions=[m.ListOffsetsPartition(timestamp=timestamp)]
        )
        told = side.admin.ask(m.ListOffsetsRequest(topics=[wanted]), 7).topics[0].partitions[0]
        found.append([told.error_code, told.offset])
    return found


def codes_of(told: Any) -> Any:
    """Tell the error codes of a response and what it says of rights, or that no right was missing.

    What is let through is for other tests: much of its outcome is a matter of time.
    """
    if told is None:
        return "closed"
    if not codes(told) & DENIALS:
        return "let through"
    return sorted(
        [name, int(value)]
        for name, value in leaves(told)
        if name.endswith(("error_code", "authorized_operations"))
    )


def steps(row: Row) -> list[tuple[str, list[Right], list[Right]]]:
    """Return the states of the ACLs that a row is asked in: a name, what is allowed, what is
    denied.
    """
    needs = list(row.needs)
    told: list[tuple[str, list[Right], list[Right]]] = [("nothing", [], [])]
    told += [
        (
            f"without {missing[0]} on {missing[1].name}",
            [right for right in needs if right is not missing],
            [],
        )
        for missing in (needs if len(needs) > 1 else [])
    ]
    told += [(f"denied {right[0]} on {right[1].name}", needs, [right]) for right in needs]
    told += [
        (f"instead {right[0]} on {right[1].name} {right[2]}", [right], []) for right in row.instead
    ]
    is_harmless = row.key is not ApiKey.UPDATE_FEATURES  # the tests share the cluster's features
    return [*told, ("all", needs, [])] if needs and is_harmless else told


@pytest.mark.parametrize("name", CASES)
def test_rights(duel: Duel, sides: dict[str, Side], name: str) -> None:
    row = CASES[name]

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        things = prepared(side, name.partition("-")[0])
        told = []
        for title, allowed, denied in steps(row):
            side.have_only(
                [renamed(each, things) for each in allowed],
                [renamed(each, things) for each in denied],
            )
            for version in row.all_versions:
                response = side.ask(fitted(row.build(things, version), version), version)
                outcome = codes_of(response)
                told.append(
                    [
                        title,
                        version,
                        outcome,
                        *(
                            ["the text is shown"]
                            if row.hidden and shows(response, hidden(row, things))
                            else []
                        ),
                    ]
                )
                if outcome != "let through":
                    told[-1].append(ends(side, things))
        return told

    duel.compare_told(tell)


PARTIAL_PRODUCE_ACKS = (0, 1, -1)


@pytest.mark.parametrize("acks", PARTIAL_PRODUCE_ACKS)
def test_a_part_of_a_produce_is_denied(duel: Duel, sides: dict[str, Side], acks: int) -> None:
    """Records that are allowed are appended, also where no response says so.

    With acks=0 the connection ends after that.
    """

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        allowed, denied = (prepared(side, f"part-{name}{acks}") for name in ("allowed", "denied"))
        side.have_only([(WRITE, TOPIC, allowed.topic)])
        request = produce_request(allowed.topic, batch(b"two"), acks=acks)
        request.topic_data += produce_request(denied.topic, batch(b"two")).topic_data
        return [told_of_produce(side, request, acks), ends(side, allowed), ends(side, denied)]

    duel.compare_told(tell)


def told_of_produce(side: Side, request: Any, acks: int) -> Any:
    """Tell the codes by topic; where there is no response, whether the connection ends."""
    if acks:
        told = side.ask(request, 9)
        return sorted(
            [topic.name, topic.partition_responses[0].error_code] for topic in told.responses
        )
    side.client.send(request, 9)
    return side.reconnected()


BITS: dict[str, list[Right]] = {
    "nothing": [],
    "read": [(READ, TOPIC, "t"), (READ, GROUP, "g")],
    "describe": [
        (DESCRIBE, TOPIC, "t"),
        (DESCRIBE, GROUP, "g"),
        (DESCRIBE, CLUSTER, "kafka-cluster"),
    ],
    "all": [(2, TOPIC, "t"), (2, GROUP, "g"), (2, CLUSTER, "kafka-cluster")],
    "alter configs": [
        (DESCRIBE, TOPIC, "t"),
        (ALTER_CONFIGS, TOPIC, "t"),
        (DESCRIBE, CLUSTER, "kafka-cluster"),
        (ALTER_CONFIGS, CLUSTER, "kafka-cluster"),
    ],
    "any topic": [(2, TOPIC, "*")],
}


@pytest.mark.parametrize("name", BITS)
def test_bits_of_what_is_allowed(duel: Duel, sides: dict[str, Side], name: str) -> None:
    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        things = prepared(side, f"bits-{name.replace(' ', '-')}")
        side.have_only([renamed(each, things) for each in BITS[name]])
        topics = [metadata.MetadataRequestTopic(name=things.topic)]
        asked: list[tuple[Any, int]] = [
            (
                metadata.MetadataRequest(
                    topics=topics,
                    include_cluster_authorized_operations=True,
                    include_topic_authorized_operations=True,
                ),
                10,
            ),
            (metadata.MetadataRequest(topics=topics, include_topic_authorized_operations=True), 13),
            (metadata.MetadataRequest(topics=topics), 13),
            (
                describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
                2,
            ),
            (describe_cluster.DescribeClusterRequest(), 2),
            (
                describe_groups.DescribeGroupsRequest(
                    groups=[things.group], include_authorized_operations=True
                ),
                5,
            ),
            (
                describe_topic_partitions.DescribeTopicPartitionsRequest(
                    topics=[describe_topic_partitions.TopicRequest(name=things.topic)]
                ),
                0,
            ),
        ]
        return [bits_of(side.ask(request, version)) for request, version in asked]

    duel.compare_told(tell)


def bits_of(told: Any) -> Any:
    return sorted(
        [name, int(value)]
        for name, value in leaves(told)
        if name.endswith(("error_code", "authorized_operations"))
    )


NO_TOPIC = "there-is-none"


@pytest.mark.parametrize("name", [name for name, row in CASES.items() if row.names])
def test_what_is_not_there_is_refused_as_what_is(
    duel: Duel, sides: dict[str, Side], name: str
) -> None:
    """A client without rights cannot tell whether something exists."""
    row = CASES[name]

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        side.have_only()
        things = Things(topic=NO_TOPIC, group=NO_TOPIC, transactional_id=NO_TOPIC)
        return [
            [version, codes_of(side.ask(fitted(row.build(things, version), version), version))]
            for version in row.all_versions
        ]

    duel.compare_told(tell)


ACL_CODES: dict[str, AclCreation] = {
    "good": acl((READ, TOPIC, "t")),
    "unassigned operation": acl((99, TOPIC, "t")),
    "unassigned permission": acl((READ, TOPIC, "t"), 99),
    "unassigned type": acl((READ, 99, "t")),  # type: ignore[arg-type]
    "any pattern": acl((READ, TOPIC, "t"), resource_pattern_type=1),
    "match pattern": acl((READ, TOPIC, "t"), resource_pattern_type=2),
    "unknown operation": acl((0, TOPIC, "t")),
    "any operation": acl((1, TOPIC, "t")),
    "no name": acl((READ, TOPIC, "")),
    "other cluster": acl((READ, CLUSTER, "other")),
    "principal without colon": acl((READ, TOPIC, "t"), principal="client"),
    "empty principal": acl((READ, TOPIC, "t"), principal=""),
    "empty host": acl((READ, TOPIC, "t"), host=""),
    "odd letters": acl((READ, TOPIC, "a b/c")),
    "odd operation of a topic": acl((13, TOPIC, "t")),
    "token": acl((DESCRIBE, AclResource.DELEGATION_TOKEN, "t")),
    "user": acl((13, AclResource.USER, "User:x")),
}


@pytest.mark.parametrize("name", ACL_CODES)
def test_codes_of_new_acls(duel: Duel, sides: dict[str, Side], name: str) -> None:
    """A second ACL, which is good, shows whether the whole request is refused."""

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        side.have_only([(ALTER, CLUSTER, "kafka-cluster")])
        told = side.ask(
            CreateAclsRequest(creations=[ACL_CODES[name], acl((WRITE, TOPIC, "other"))]), 3
        )
        return "closed" if told is None else [result.error_code for result in told.results]

    duel.compare_told(tell)


FILTERS: dict[str, dict[str, Any]] = {
    "everything": {},
    "by name": {"resource_type_filter": 2, "resource_name_filter": "abc", "pattern_type_filter": 1},
    "by match": {
        "resource_type_filter": 2,
        "resource_name_filter": "abc",
        "pattern_type_filter": 2,
    },
    "literal": {"resource_type_filter": 2, "resource_name_filter": "abc", "pattern_type_filter": 3},
    "prefixed": {"resource_type_filter": 2, "resource_name_filter": "ab", "pattern_type_filter": 4},
    "by principal": {"principal_filter": "User:*"},
    "by host": {"host_filter": "10.0.0.1"},
    "by operation": {"operation": READ},
    "denials": {"permission_type": 2},
    "unknown type": {"resource_type_filter": 0},
    "unassigned type": {"resource_type_filter": 99},
    "unassigned operation": {"operation": 99},
    "unassigned pattern": {"pattern_type_filter": 99},
    "unassigned permission": {"permission_type": 99},
}
FILTERED = [
    acl((READ, TOPIC, "abc")),
    acl((WRITE, TOPIC, "ab"), resource_pattern_type=4),
    acl((READ, TOPIC, "*"), principal="User:*"),
    acl((READ, GROUP, "abc"), 2, host="10.0.0.1"),
    acl((ALTER, CLUSTER, "kafka-cluster")),
]


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_acls(duel: Duel, sides: dict[str, Side], name: str) -> None:
    """A filter chooses the ACLs that are described and removed."""

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        side.have_acls(FILTERED)
        wanted = (
            replace(everything(kind), **FILTERS[name])
            for kind in (DescribeAclsRequest, DeleteAclsFilter)
        )
        describing, removing = wanted
        found = [side.ask(describing, 3), side.ask(DeleteAclsRequest(filters=[removing]), 3)]
        return ["closed" if told is None else without_markers(normalise(told)) for told in found]

    duel.compare_told(tell)


def without_markers(told: Any) -> Any:
    """Leave out the ACLs that no test has asked for."""
    if isinstance(told, dict):
        return {name: without_markers(value) for name, value in told.items()}
    if isinstance(told, list):
        return [
            without_markers(each)
            for each in told
            if not (isinstance(each, dict) and each.get("resource_name") == "marker")
        ]
    return told


def test_an_envelope_of_a_client(duel: Duel, sides: dict[str, Side]) -> None:
    """Only nodes send envelopes, and only to controllers."""

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        side.have_only([(CLUSTER_ACTION, CLUSTER, "kafka-cluster")])
        side.client.send_header(ApiKey.ENVELOPE, 0, b"\0" * 8, is_flexible=True)
        return side.reconnected()

    duel.compare_told(tell)


def test_all_users_are_refused(duel: Duel, sides: dict[str, Side]) -> None:
    """Named users are refused with the same code; here with names and texts, too.

    Where all are asked for, Apache Kafka closes the connection; here that has the same code.
    """

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        side.have_only()
        told = side.ask(DescribeUserScramCredentialsRequest(users=[UserName(name="u")]), 0)
        of_all = side.ask(DescribeUserScramCredentialsRequest(users=None), 0)
        assert of_all is None if cluster is duel.clusters.kafka else of_all.error_code == 31
        return normalise(told, ignore=("error_message", "user"))

    duel.compare_told(tell)


BROKER_CHANGES: dict[str, tuple[str, str | None]] = {
    "good": ("log.cleaner.threads", "2"),
    "wrong value": ("log.cleaner.threads", "many"),
    "unknown key": ("no.such.key", "1"),
    "read-only key": ("node.id", "3"),
    "out of range": ("log.cleaner.threads", "-4"),
}


@pytest.mark.parametrize("name", BROKER_CHANGES)
def test_a_change_of_a_broker_is_refused(duel: Duel, sides: dict[str, Side], name: str) -> None:
    """Apache Kafka tells the fault of a known key to clients that may not change it.

    Here they are refused.
    """

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        side.have_only()
        key, value = BROKER_CHANGES[name]
        config = incremental_alter_configs.AlterableConfig(name=key, value=value)
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=4, resource_name="1", configs=[config]
        )
        told = side.ask(
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[resource], validate_only=True
            ),
            1,
        )
        is_told_first = cluster is duel.clusters.kafka and name in {
            "wrong value",
            "read-only key",
            "out of range",
        }
        assert codes(told) == ({42} if is_told_first else {31})
        return "refused"

    duel.compare_told(tell)
