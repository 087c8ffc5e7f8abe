"""Two users of a cluster with an authorizer speak by raw frames.

``admin`` may do everything, and ``client`` may do what ACLs say.

A change of ACLs holds everywhere before the next question is asked. Apache Kafka responds to
CreateAcls before its authorizers follow, and its controller has one of its own. The loader of its
metadata publishes one batch after the other to both: once DescribeAcls of the broker shows a marker
that was created after the change was seen, both have the change.
"""

import time
from collections.abc import Iterable
from typing import Any

import pytest

from log_service.common.access import AclResource
from log_service.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from log_service.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from log_service.protocol.messages.describe_acls import DescribeAclsRequest
from tests.integration.differential import Cluster
from tests.integration.login_frames import (
    ADMIN,
    ADMIN_PASSWORD,
    LOGIN_PROPERTIES,
    PACKAGE,
    LoginWire,
)

CLIENT, CLIENT_PASSWORD = "client", "client-secret"
ALLOW, DENY = 3, 2
LITERAL = 3
SETTLE_SECONDS = 20.0
Right = tuple[int, AclResource, str]

ACCESS_PROPERTIES = {
    **LOGIN_PROPERTIES,
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PACKAGE}.plain.PlainLoginModule required username="{ADMIN}" password="{ADMIN_PASSWORD}" '
        f'user_{ADMIN}="{ADMIN_PASSWORD}" user_{CLIENT}="{CLIENT_PASSWORD}";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",
    "delegation.token.secret.key": "the-secret-of-the-cluster",
    "log.retention.ms": "-1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
}
"""The node itself is ANONYMOUS on its controller listener."""


def acl(right: Right, permission: int = ALLOW, **others: Any) -> AclCreation:
    operation, resource, name = right
    fields = {
        "resource_pattern_type": LITERAL,
        "principal": f"User:{CLIENT}",
        "host": "*",
        **others,
    }
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        operation=operation,
        permission_type=permission,
        **fields,
    )


def everything(kind: type[Any]) -> Any:
    """Return the filter that all ACLs match."""
    return kind(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


class Side:
    """One cluster: what its two users do."""

    def __init__(self, cluster: Cluster) -> None:
        self._bootstrap = cluster.bootstrap
        self._marker_count = 0
        self.admin = self._logged_in(ADMIN, ADMIN_PASSWORD)
        self.client = self._logged_in(CLIENT, CLIENT_PASSWORD)

    def _logged_in(self, name: str, password: str) -> LoginWire:
        wire = LoginWire(self._bootstrap)
        wire.log_in(name, password)
        return wire

    def close(self) -> None:
        self.admin.close()
        self.client.close()

    def ask(self, request: Any, version: int) -> Any:
        """Return what the client is told; None where nothing comes but the end of its connection.
        It then has a new one.
        """
        try:
            return self.client.ask(request, version)
        except (ConnectionError, TimeoutError):
            self.client.close()
            self.client = self._logged_in(CLIENT, CLIENT_PASSWORD)
            return None

    def reconnected(self) -> str:
        """Tell whether the broker closes the client's connection; the client then has a new one."""
        told = self.client.end()
        self.client.close()
        self.client = self._logged_in(CLIENT, CLIENT_PASSWORD)
        return told

    def have_only(self, allowed: Iterable[Right] = (), denied: Iterable[Right] = ()) -> None:
        """Let the client have these rights and no others."""
        wanted = [acl(right) for right in allowed] + [acl(right, DENY) for right in denied]
        self.have_acls(wanted)

    def have_acls(self, wanted: list[AclCreation]) -> None:
        """Replace all ACLs by these."""
        self.admin.ask(DeleteAclsRequest(filters=[everything(DeleteAclsFilter)]), 3)
        self._create(wanted)
        self._until_shown({_key(each) for each in wanted})
        self._marker_count += 1
        marker = acl(
            (3, AclResource.TOPIC, "marker"), principal=f"User:marker-{self._marker_count}"
        )
        self._create([marker])
        self._until_shown({_key(each) for each in [*wanted, marker]})

    def _create(self, wanted: list[AclCreation]) -> None:
        if wanted:
            response = self.admin.ask(CreateAclsRequest(creations=wanted), 3)
            assert {result.error_code for result in response.results} == {0}, response

    def shown(self) -> set[tuple[Any, ...]]:
        """Return the ACLs that the broker shows."""
        response = self.admin.ask(everything(DescribeAclsRequest), 3)
        return {
            (
                found.resource_type,
                found.resource_name,
                found.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for found in response.resources
            for each in found.acls
        }

    def _until_shown(self, wanted: set[tuple[Any, ...]]) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.shown() != wanted:
            if time.monotonic() > deadline:
                pytest.fail(f"{self._bootstrap} never had these ACLs: {wanted}")
            time.sleep(0.002)


def _key(each: AclCreation) -> tuple[Any, ...]:
    return (
        int(each.resource_type),
        each.resource_name,
        each.resource_pattern_type,
        each.principal,
        each.host,
        int(each.operation),
        each.permission_type,
    )
