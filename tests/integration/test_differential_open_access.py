"""``allow.everyone.if.no.acl.found`` works as in Apache Kafka.

A resource without an ACL is everyone's.
"""

from typing import Any

import pytest

from log_service.common.access import AclResource
from log_service.protocol.messages.create_acls import AclCreation
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.integration.access_frames import ACCESS_PROPERTIES, DENY, Side, acl
from tests.integration.differential import Cluster, Duel

PROPERTIES = {**ACCESS_PROPERTIES, "allow.everyone.if.no.acl.found": "true"}
READ, WRITE, CREATE, DESCRIBE = 3, 4, 5, 8
TOPIC, CLUSTER, GROUP = AclResource.TOPIC, AclResource.CLUSTER, AclResource.GROUP
PREFIXED = 4
OTHER = "User:other"

SCENES: dict[str, list[AclCreation]] = {
    "no ACL": [],
    "of another topic": [acl((READ, TOPIC, "elsewhere"), principal=OTHER)],
    "of another user": [acl((READ, TOPIC, "open"), principal=OTHER)],
    "of another user and operation, denied": [acl((WRITE, TOPIC, "open"), DENY, principal=OTHER)],
    "of another host": [acl((DESCRIBE, TOPIC, "open"), host="10.0.0.1")],
    "of a prefix": [acl((READ, TOPIC, "op"), principal=OTHER, resource_pattern_type=PREFIXED)],
    "of every topic": [acl((READ, TOPIC, "*"), principal=OTHER)],
    "of the client": [acl((DESCRIBE, TOPIC, "open"))],
    "denied": [acl((DESCRIBE, TOPIC, "open"), DENY)],
    "of the cluster": [acl((CREATE, CLUSTER, "kafka-cluster"), principal=OTHER)],
    "of the group": [acl((READ, GROUP, "open"), principal=OTHER)],
}


@pytest.mark.parametrize("name", SCENES)
def test_what_no_acl_is_about(duel: Duel, name: str) -> None:
    def tell(cluster: Cluster) -> Any:
        side = Side(cluster)
        try:
            side.have_acls(SCENES[name])
            return outcomes(side)
        finally:
            side.close()

    duel.compare_told(tell)


def outcomes(side: Side) -> list[bool]:
    """Tell whether the client is refused: to describe a topic, to find a group, to create a topic."""
    asked = ListOffsetsTopic(name="open", partitions=[ListOffsetsPartition(timestamp=-1)])
    found = side.ask(ListOffsetsRequest(topics=[asked]), 7).topics[0].partitions[0].error_code
    group = (
        side.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["open"]), 4)
        .coordinators[0]
        .error_code
    )
    new = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    created = (
        side.ask(CreateTopicsRequest(topics=[new], timeout_ms=5_000, validate_only=True), 7)
        .topics[0]
        .error_code
    )
    return [found == 29, group == 30, created == 29]
