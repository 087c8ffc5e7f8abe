"""A forwarded request is authorized for the client that sent it (KIP-590).

The client's principal and address decide.
"""

from dataclasses import replace
from typing import Any

import pytest

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.common.access import ANONYMOUS, Principal
from log_service.common.errors import ErrorCode
from log_service.controller.caller import Caller
from log_service.controller.envelope import envelope_of, open_response
from log_service.protocol.api_versions import ApiKey, request_class
from log_service.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.envelope import EnvelopeResponse
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    CLUSTER_NAME,
    TOPIC,
    AclStory,
    acl,
    codes,
    tell_with_acls,
)
from tests.unit.broker.authorization.matrix import CLUSTER_ACTION, CREATE
from tests.unit.broker.context import RawClient

VERSION = 7
BOB = Principal("User", "bob")
HERE, ELSEWHERE = "10.0.0.9", "0:0:0:0:0:0:0:1"


def creating(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=1_000
    )


async def passed_on(
    client: RawClient, name: str, *, principal: Principal = BOB, host: str = HERE
) -> Any:
    """Ask as a broker that passes on what a client asked for."""
    caller = Caller(version=VERSION, principal=principal, host=host)
    told: EnvelopeResponse = await client.ask(envelope_of(creating(name), caller), 0)
    return told if told.error_code else open_response(told, CreateTopicsResponse, caller)


def test_a_client_that_is_no_broker_passes_nothing_on() -> None:
    async def story(node: AclStory) -> None:
        client = await node.connect_to_controller()
        await node.allow((CREATE, CLUSTER, CLUSTER_NAME))
        assert (await passed_on(client, "a", principal=ANONYMOUS)).error_code == 31
        assert "a" not in node.broker.image.topics.by_name
        client.close()

    tell_with_acls(story)


def test_the_rights_are_those_of_the_client_and_not_those_of_the_broker() -> None:
    async def story(node: AclStory) -> None:
        client = await node.connect_to_controller()
        await node.allow((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME), (CREATE, CLUSTER, CLUSTER_NAME))
        assert codes(await passed_on(client, "a")) == {29}
        assert "a" not in node.broker.image.topics.by_name
        await node.add(acl((CREATE, TOPIC, "a"), principal="User:bob"))
        assert codes(await passed_on(client, "a")) == {0}
        assert codes(await passed_on(client, "b")) == {29}
        client.close()

    tell_with_acls(story)


def test_the_address_is_that_of_the_client() -> None:
    async def story(node: AclStory) -> None:
        client = await node.connect_to_controller()
        await node.allow((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME))
        await node.add(acl((CREATE, TOPIC, "*"), principal="User:bob", host=HERE))
        assert codes(await passed_on(client, "a", host="10.0.0.8")) == {29}
        assert codes(await passed_on(client, "a")) == {0}
        await node.add(acl((CREATE, TOPIC, "*"), principal="User:bob", host=ELSEWHERE))
        assert codes(await passed_on(client, "b", host="::1")) == {0}
        client.close()

    tell_with_acls(story)


def test_a_super_user_is_one_through_a_broker_too() -> None:
    async def story(node: AclStory) -> None:
        client = await node.connect_to_controller()
        await node.allow((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME))
        assert codes(await passed_on(client, "a")) == {0}
        assert codes(await passed_on(client, "b", principal=Principal("User", "Bob"))) == {29}
        client.close()

    tell_with_acls(story, super_users="User:bob")


def test_an_envelope_holds_only_what_brokers_pass_on() -> None:
    """The principal in it may do everything here. What nodes ask of each other comes from nodes
    alone, and no envelope holds another.
    """

    async def story(node: AclStory) -> None:
        client = await node.connect_to_controller()
        await node.allow((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME))
        not_passed_on = {
            key
            for key, api in REGISTRY.items()
            if Side.CONTROLLER in api.sides and not api.is_forwardable
        }
        assert {
            ApiKey.ENVELOPE,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.FETCH,
            ApiKey.VOTE,
        } <= not_passed_on
        for key in sorted(not_passed_on):
            version = REGISTRY[key].spec.max_version
            told = await client.ask(
                envelope_of(
                    request_class(key)(), Caller(version=version, principal=BOB, host=HERE)
                ),
                0,
            )
            assert (told.error_code, told.response_data) == (ErrorCode.INVALID_REQUEST, None), (
                key.name
            )
        client.close()

    tell_with_acls(story, super_users="User:bob")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"request_data": b""}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\0"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\x7f\xff"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\0\x13\0\x07"}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": b"\0\x13\0\x63" + bytes(20)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\0\0\x05User"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"abc"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelope_that_cannot_be_read_is_refused_and_the_connection_stays(
    wrong: dict[str, Any], code: ErrorCode
) -> None:
    async def story(node: AclStory) -> None:
        client = await node.connect_to_controller()
        await node.allow((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME))
        good = envelope_of(creating("a"), Caller(version=VERSION, principal=BOB, host=HERE))
        told = await client.ask(replace(good, **wrong), 0)
        assert (told.error_code, told.response_data) == (code, None)
        assert codes(await passed_on(client, "a")) == {0}
        client.close()

    tell_with_acls(story, super_users="User:bob")


def test_tokens_are_made_for_clients_of_another_broker_whatever_the_listener_of_controllers_is() -> (
    None
):
    async def story(node: AclStory) -> None:
        client = await node.connect_to_controller()
        await node.allow((CLUSTER_ACTION, CLUSTER, CLUSTER_NAME))
        request = CreateDelegationTokenRequest(
            renewers=[], max_lifetime_ms=-1, owner_principal_type=None, owner_principal_name=None
        )
        found = []
        for is_by_token in (False, True):
            caller = Caller(version=3, principal=BOB, host=HERE, is_token_authenticated=is_by_token)
            told = await client.ask(envelope_of(request, caller), 0)
            found.append(open_response(told, CreateDelegationTokenResponse, caller).error_code)
        assert found == [ErrorCode.NONE, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED]
        client.close()

    tell_with_acls(story, delegation_token_secret_key="the-secret-of-the-cluster")
