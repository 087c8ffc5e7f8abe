"""Delegation tokens (KIP-48) on a node: who makes, renews and ends them, and logins by them."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
import trio

from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.create_acls import CreateAclsRequest
from log_service.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from log_service.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from log_service.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from log_service.security.sasl.credentials import ScramMechanism
from tests.unit.broker.authorization.acl_story import STANDARD, acl
from tests.unit.broker.context import Story
from tests.unit.broker.logins.login_story import CLEAR_PORT, Guest, guest, plain, tell_of_logins

SECRET = {"delegation_token_secret_key": "the-secret-of-the-cluster"}
DAY_MS, WEEK_MS = 86_400_000, 604_800_000
VERSIONS = {"create": 3, "renew": 2, "expire": 2, "describe": 3}


async def user(node: Story, name: str = "alice") -> Guest:
    client = await guest(node)
    assert (await client.log_in(plain(name, f"{name}-secret"))).error_code == 0
    return client


async def create(client: Guest, *renewers: str, max_lifetime_ms: int = -1, **fields: Any) -> Any:
    named = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    request = CreateDelegationTokenRequest(
        renewers=named, max_lifetime_ms=max_lifetime_ms, owner_principal_type=None, **fields
    )
    request.owner_principal_name = fields.get("owner_principal_name")
    return await client.ask(request, VERSIONS["create"])


async def renew(client: Guest, token: bytes, period_ms: int = -1) -> Any:
    return await client.ask(
        RenewDelegationTokenRequest(hmac=token, renew_period_ms=period_ms), VERSIONS["renew"]
    )


async def expire(client: Guest, token: bytes, period_ms: int = -1) -> Any:
    return await client.ask(
        ExpireDelegationTokenRequest(hmac=token, expiry_time_period_ms=period_ms),
        VERSIONS["expire"],
    )


async def described(client: Guest, owners: list[str] | None = None) -> Any:
    named = (
        None
        if owners is None
        else [
            DescribeDelegationTokenOwner(principal_type="User", principal_name=name)
            for name in owners
        ]
    )
    return await client.ask(DescribeDelegationTokenRequest(owners=named), VERSIONS["describe"])


async def log_in_by_token(
    node: Story, token: Any, mechanism: ScramMechanism = ScramMechanism.SHA_256
) -> tuple[Guest, Any]:
    client = await guest(node)
    password = base64.b64encode(token.hmac).decode()
    return client, await client.log_in_by_scram(
        token.token_id, password, mechanism, is_by_token=True
    )


def test_a_token_that_is_ended_in_the_middle_of_a_login_lets_nobody_in() -> None:
    async def story(node: Story) -> None:
        alice = await user(node)
        token = await create(alice)
        password = base64.b64encode(token.hmac).decode()

        async def end() -> None:
            assert (await expire(alice, token.hmac)).error_code == 0

        response = await (await guest(node)).log_in_by_scram(
            token.token_id, password, is_by_token=True, before_last=end
        )
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    tell_of_logins(story, **SECRET)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_owner_makes_a_token_and_logs_in_by_it(mechanism: ScramMechanism) -> None:
    async def story(node: Story) -> None:
        alice = await user(node)
        token = await create(alice)
        assert token.error_code == 0
        assert (
            token.principal_name,
            token.token_requester_principal_name,
            len(token.token_id),
        ) == ("alice", "alice", 22)
        secret = SECRET["delegation_token_secret_key"].encode()
        assert token.hmac == hmac.new(secret, token.token_id.encode(), hashlib.sha512).digest()
        client, login = await log_in_by_token(node, token, mechanism)
        assert login.error_code == 0
        assert DAY_MS - 5_000 <= login.session_lifetime_ms <= DAY_MS
        assert (await client.ask(MetadataRequest(topics=None), 12)).brokers
        for response in (
            await create(client),
            await renew(client, token.hmac),
            await expire(client, token.hmac),
            await described(client),
        ):
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    tell_of_logins(story, **SECRET)


def test_token_without_its_extension_is_an_unknown_user() -> None:
    async def story(node: Story) -> None:
        token = await create(await user(node))
        stranger = await guest(node)
        refused = await stranger.log_in_by_scram(
            token.token_id, base64.b64encode(token.hmac).decode()
        )
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        _, refused = await log_in_by_token(
            node, type("Forged", (), {"token_id": token.token_id, "hmac": bytes(64)})
        )
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    tell_of_logins(story, **SECRET)


def test_times_of_a_token() -> None:
    async def story(node: Story) -> None:
        alice = await user(node)
        token = await create(alice)
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == 50_000
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 80_000
        short = await create(alice, max_lifetime_ms=20_000)
        assert (
            short.max_timestamp_ms == short.expiry_timestamp_ms == short.issue_timestamp_ms + 20_000
        )
        await trio.sleep(20)
        renewed = await renew(alice, token.hmac, 30_000)
        assert (
            token.issue_timestamp_ms + 50_000
            <= renewed.expiry_timestamp_ms
            <= token.issue_timestamp_ms + 51_000
        )
        assert (await renew(alice, token.hmac)).expiry_timestamp_ms <= token.max_timestamp_ms
        await trio.sleep(15)
        assert (await renew(alice, token.hmac)).expiry_timestamp_ms == token.max_timestamp_ms
        assert (await renew(alice, short.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED

    tell_of_logins(
        story,
        delegation_token_expiry_time_ms="50000",
        delegation_token_max_lifetime_ms="80000",
        **SECRET,
    )


def test_owner_and_renewers_renew_and_end_a_token_and_no_one_else() -> None:
    async def story(node: Story) -> None:
        alice, bob = await user(node), await user(node, "bob")
        token, private = await create(alice, "bob"), await create(alice)
        assert (await renew(bob, token.hmac)).error_code == 0
        for response in (await renew(bob, private.hmac), await expire(bob, private.hmac)):
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        for response in (await renew(alice, bytes(64)), await expire(alice, b"")):
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert {each.token_id for each in (await described(alice)).tokens} == {
            token.token_id,
            private.token_id,
        }
        assert [each.token_id for each in (await described(bob)).tokens] == [token.token_id]
        assert (await described(alice, [])).tokens == []
        assert len((await described(alice, ["bob"])).tokens) == 1
        assert (await expire(bob, token.hmac)).error_code == 0
        assert [each.hmac for each in (await described(alice)).tokens] == [private.hmac]

    tell_of_logins(story, **SECRET)


def test_token_that_has_expired_does_not_log_in_and_ends_the_login_that_it_made() -> None:
    async def story(node: Story) -> None:
        alice = await user(node)
        token = await create(alice)
        _, login = await log_in_by_token(node, token)
        assert login.error_code == 0
        ended = await expire(alice, token.hmac, 2_000)
        assert ended.error_code == 0
        other, login = await log_in_by_token(node, token)
        assert 0 < login.session_lifetime_ms <= 2_000
        await trio.sleep(3)
        _, refused = await log_in_by_token(node, token)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await other.send(MetadataRequest(topics=None), 12)
        assert await other.is_closed()
        assert (await expire(alice, token.hmac, 0)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert (await expire(alice, token.hmac, -1)).error_code == 0

    tell_of_logins(story, **SECRET)


def test_expired_tokens_are_removed() -> None:
    async def story(node: Story) -> None:
        alice = await user(node)
        token = await create(alice, max_lifetime_ms=1_000)
        kept = await create(alice)
        await trio.sleep(12)
        assert set(node.broker.image.access.delegation_tokens) == {kept.token_id}
        assert (await renew(alice, token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    tell_of_logins(story, delegation_token_expiry_check_interval_ms="10000", **SECRET)


def test_clients_without_a_login_and_clusters_without_a_secret_have_no_tokens() -> None:
    async def story(node: Story) -> None:
        stranger, alice = await guest(node, CLEAR_PORT), await user(node)
        for client, code in (
            (stranger, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
            (alice, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        ):
            responses = (
                await create(client),
                await renew(client, b"x"),
                await expire(client, b"x"),
                await described(client),
            )
            assert {response.error_code for response in responses} == {code}

    tell_of_logins(story)


def test_renewer_of_another_type_is_refused() -> None:
    async def story(node: Story) -> None:
        alice = await user(node)
        renewers = [CreatableRenewers(principal_type="Group", principal_name="x")]
        request = CreateDelegationTokenRequest(
            renewers=renewers, owner_principal_type=None, owner_principal_name=None
        )
        assert (await alice.ask(request, 3)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert node.broker.image.access.delegation_tokens == {}

    tell_of_logins(story, **SECRET)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [(AclOperation.DESCRIBE, "token"), (AclOperation.DESCRIBE_TOKENS, "owner")],
)
def test_an_acl_shows_a_token_to_one_who_neither_owns_nor_renews_it(
    operation: AclOperation, kind: str
) -> None:
    """An ACL on a token or on its owner shows the token (KIP-373).

    A token is its owner's password, so no other client sees it.
    """

    async def story(node: Story) -> None:
        alice, bob = await user(node), await user(node, "bob")
        one, other = await create(alice), await create(alice, max_lifetime_ms=5_000)
        assert (await described(bob)).tokens == []
        resource, name = (
            (AclResource.DELEGATION_TOKEN, one.token_id)
            if kind == "token"
            else (AclResource.USER, "User:alice")
        )
        creation = acl((operation, resource, name), principal="User:bob")
        assert (await alice.ask(CreateAclsRequest(creations=[creation]), 3)).results[
            0
        ].error_code == 0
        shown = {one.token_id} if kind == "token" else {one.token_id, other.token_id}
        assert {token.token_id for token in (await described(bob)).tokens} == shown
        assert {token.token_id for token in (await described(bob, ["bob"])).tokens} == set(), (
            "only those that were asked for"
        )

    tell_of_logins(story, authorizer_class_name=STANDARD, super_users="User:alice", **SECRET)


def test_the_owner_that_is_asked_about_is_the_owner_of_the_token() -> None:
    """A name without a type was asked about as one type, and made the owner as another."""

    async def story(node: Story) -> None:
        alice, bob = await user(node), await user(node, "bob")
        for owner in ("None:carol", "User:carol", ":carol"):
            creation = acl(
                (AclOperation.CREATE_TOKENS, AclResource.USER, owner), principal="User:bob"
            )
            assert (await alice.ask(CreateAclsRequest(creations=[creation]), 3)).results[
                0
            ].error_code == 0
        made = await create(bob, owner_principal_name="carol")
        assert made.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert node.broker.image.access.delegation_tokens == {}
        request = CreateDelegationTokenRequest(
            max_lifetime_ms=-1, owner_principal_type="User", owner_principal_name="carol"
        )
        assert (await bob.ask(request, VERSIONS["create"])).error_code == 0
        assert [token.owner for token in node.broker.image.access.delegation_tokens.values()] == [
            "User:carol"
        ]

    tell_of_logins(story, authorizer_class_name=STANDARD, super_users="User:alice", **SECRET)
