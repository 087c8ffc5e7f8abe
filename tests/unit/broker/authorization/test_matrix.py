"""A request without a right is refused, does nothing and tells nothing.

The test runs for each API of the registry and each right that it takes.
"""

from operator import attrgetter
from typing import Any

import pytest
import trio

from log_service.broker.api_rows import PERMISSIONS, OnDemand
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.common.access import AclOperation, AclResource
from log_service.protocol.api_versions import ApiKey
from log_service.security.acls.decision import IMPLYING
from tests.unit.broker.authorization.acl_story import (
    BYSTANDER,
    DENIALS,
    AclStory,
    acl,
    codes,
    tell_with_acls,
)
from tests.unit.broker.authorization.matrix import (
    ALTER,
    CREATE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    Row,
)
from tests.unit.broker.authorization.matrix_rows import ROWS
from tests.unit.broker.authorization.matrix_steps import ask, check_refusal, prepare, shows, state
from tests.unit.broker.context import batch, produce_request

TOPIC, CLUSTER = AclResource.TOPIC, AclResource.CLUSTER
ALL_OPERATIONS = 2
ELSEWHERE: dict[ApiKey, set[tuple[AclOperation, AclResource]]] = {
    ApiKey.METADATA: {(CREATE, CLUSTER), (DESCRIBE, CLUSTER)},
    ApiKey.DESCRIBE_CLUSTER: {(DESCRIBE, CLUSTER)},
    ApiKey.CREATE_TOPICS: {(DESCRIBE_CONFIGS, TOPIC)},
    ApiKey.DELETE_TOPICS: {(DESCRIBE, TOPIC)},
    ApiKey.ALTER_CONFIGS: {(ALTER, CLUSTER)},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {(ALTER, CLUSTER)},
    ApiKey.DESCRIBE_TRANSACTIONS: {(DESCRIBE, TOPIC)},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {(DESCRIBE, TOPIC)},
    ApiKey.SHARE_GROUP_DESCRIBE: {(DESCRIBE, TOPIC)},
    ApiKey.STREAMS_GROUP_DESCRIBE: {(DESCRIBE, TOPIC)},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {(CREATE, TOPIC), (CREATE, CLUSTER)},
    ApiKey.SHARE_ACKNOWLEDGE: {(READ, TOPIC)},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {(READ, TOPIC)},
}
"""Rights whose lack hides a part of a response, or that need a group with members:
``test_visibility`` and ``test_share_rights``. ALTER of the cluster is about keys that decide who
may log in: ``test_access_keys``.
"""
CASES = [(row, side) for row in ROWS for side in sorted(row.sides)]


FORWARDED = {
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_ACLS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_ACLS,
    ApiKey.DELETE_TOPICS,
    ApiKey.ELECT_LEADERS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UPDATE_FEATURES,
}
"""Requests that a broker passes on as they are, so that only the controller decides."""
DECIDED_BY_HANDLERS = {
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.FETCH,
    ApiKey.METADATA,
}
"""Requests whose resources only the broker's handler knows."""


def test_every_api_has_a_gate_and_a_row_on_each_side_that_takes_it() -> None:
    """Whoever adds an API to the registry says here, and in its row, what it needs."""
    open_to_all = {
        (key, side)
        for key, api in REGISTRY.items()
        for side in api.sides
        if api.permissions and side not in api.gates
    }
    assert open_to_all == {(key, Side.BROKER) for key in FORWARDED | DECIDED_BY_HANDLERS}
    for api in REGISTRY.values():
        assert set(api.gates) <= (api.sides if api.permissions else set())
    asked = {(row.key, side) for row, side in CASES}
    assert {(key, side) for key, api in REGISTRY.items() for side in api.sides} == asked


def test_every_gate_is_there_and_those_that_read_the_permissions_can() -> None:
    for key, api in REGISTRY.items():
        for side, gate in api.gates.items():
            assert isinstance(gate, OnDemand)
            assert callable(gate.load())
            if gate is PERMISSIONS:
                resources = {permission.resource for permission in api.permissions}
                is_of_nodes = (key, side) == (ApiKey.FETCH, Side.CONTROLLER)
                assert (
                    resources == {CLUSTER}
                    or is_of_nodes
                    or [*resources] * len(api.permissions) == [AclResource.GROUP]
                ), key.name


def test_the_rows_ask_for_the_rights_that_the_registry_names() -> None:
    """Each right that an API may ask for is missing in some row or elsewhere.

    No row lacks another right. ``instead`` may imply one.
    """
    for key, api in REGISTRY.items():
        rows = [row for row in ROWS if row.key is key]
        needed, instead = (
            {right[:2] for row in rows for right in rights(row)}
            for rights in (attrgetter("needs"), attrgetter("instead"))
        )
        named = {(permission.operation, permission.resource) for permission in api.permissions}
        assert needed <= named, key.name
        assert {right for right in instead - named if not implies_one(right, named)} == set(), (
            key.name
        )
        assert named - needed - instead == ELSEWHERE.get(key, set()), key.name


def implies_one(right: Any, named: set[tuple[AclOperation, AclResource]]) -> bool:
    operation, resource = right
    return any(
        resource is other and (operation == ALL_OPERATIONS or operation in IMPLYING.get(wanted, ()))
        for wanted, other in named
    )


@pytest.mark.parametrize(("row", "side"), CASES, ids=[f"{row}-{side.value}" for row, side in CASES])
def test_what_an_api_needs(row: Row, side: Side) -> None:
    async def story(node: AclStory) -> None:
        things = await prepare(node)
        client = node.client if side is Side.BROKER else await node.connect_to_controller()
        for version in row.all_versions:
            for missing in row.needs:
                await node.have_only(*(right for right in row.needs if right is not missing))
                await check_refusal(node, client, row, version, things, missing)
        for version in row.all_versions[-1:]:
            for rights in ([right] for right in row.instead):
                await node.have_only(*rights)
                assert not codes(await ask(client, row, version, things)) & DENIALS
        await node.have_only(*row.needs)
        told = await ask(client, row, row.all_versions[-1], things)
        assert not codes(told) & DENIALS
        if row.hidden is not None:
            assert shows(told, row.hidden)
        if side is Side.CONTROLLER:
            client.close()

    tell_with_acls(story)


def test_the_short_way_of_produce_is_guarded() -> None:
    """A request that was decoded before is recognized by its bytes: the decision is made all the
    same.
    """

    async def story(node: AclStory) -> None:
        await prepare(node)
        await node.have_only((4, AclResource.TOPIC, "t"))
        for _ in range(3):
            assert (await node.produce("t", batch(b"x"))).error_code == 0
        await node.forget_acls()
        before = state(node)
        for _ in range(3):
            assert (await node.ask(produce_request("t", batch(b"x")), 9)).responses[
                0
            ].partition_responses[0].error_code == 29
        assert state(node) == before

    tell_with_acls(story)


def test_the_state_shows_what_a_refused_request_might_have_done() -> None:
    """The compared state includes ACLs, users and group members.

    Once it did not, and a refusal that had an effect would have passed.
    """

    async def story(node: AclStory) -> None:
        things = await prepare(node)
        await node.may_do_everything()
        for key in (
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.JOIN_GROUP,
        ):
            (row,) = [each for each in ROWS if each.key is key]
            if key is ApiKey.DELETE_ACLS:
                await node.add(acl((READ, TOPIC, BYSTANDER), principal="User:somebody"))
            before = state(node)
            with trio.move_on_after(2):  # a group waits for its members
                await ask(node.client, row, row.all_versions[-1], things)
            assert state(node) != before, key.name

    tell_with_acls(story)
