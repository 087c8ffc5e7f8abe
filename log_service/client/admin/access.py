"""Administers access: SCRAM users (KIP-554), ACLs (KIP-11, KIP-290) and delegation tokens (KIP-48).

Each function sends the requests of one method of ``Admin``, and converts the responses to values.
Resource types and operations have Kafka's names in lower case, with ``_`` between words. A password
never leaves this process. The broker receives only the salted hash that PBKDF2 computes from it.

Invariant: no ``repr`` shows a password or the HMAC of a token. The HMAC is as good as a password.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, Final, Protocol

import trio

from log_service.client.admin.fan_out import Collected
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.secrets import SecretBytes, SecretText
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from log_service.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from log_service.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from log_service.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from log_service.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from log_service.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from log_service.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from log_service.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from log_service.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from log_service.rpc.connection import raise_for
from log_service.security.sasl.credentials import SCRAM_MECHANISMS, ScramMechanism
from log_service.security.sasl.scram import random_text, salted_password

DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384
RESOURCE_TYPES: Final = MappingProxyType(
    {"any": 1, **{kind.name.lower(): int(kind) for kind in AclResource}}
)
OPERATIONS: Final = MappingProxyType(
    {"any": 1, "all": 2, **{operation.name.lower(): int(operation) for operation in AclOperation}}
)
PATTERN_TYPES: Final = MappingProxyType({"any": 1, "match": 2, "literal": 3, "prefixed": 4})
PERMISSIONS: Final = MappingProxyType({"any": 1, "deny": 2, "allow": 3})
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of the type ``cluster``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser:
    """A user with a new password for one mechanism.

    ``salt`` None means a random salt.
    """

    name: str
    password: SecretText | str = field(repr=False)
    mechanism: str = DEFAULT_MECHANISM
    iterations: int = MIN_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclBinding:
    """One ACL.

    It allows or denies a principal (``User:alice``) an operation on all resources that match a
    pattern.
    """

    resource_type: str
    name: str
    principal: str
    operation: str
    pattern_type: str = "literal"
    host: str = "*"
    permission: str = "allow"

    def __str__(self) -> str:
        where = "" if self.host == "*" else f" from {self.host}"
        how = " and what begins so" if self.pattern_type == "prefixed" else ""
        verb = "may" if self.permission == "allow" else "must not"
        return (
            f"{self.principal}{where} {verb} {self.operation} {self.resource_type} {self.name}{how}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Selects the ACLs that match every given field.

    ``pattern_type`` ``match`` selects all ACLs that apply to a resource of that name, whatever
    their own pattern types.
    """

    resource_type: str = "any"
    name: str | None = None
    principal: str | None = None
    operation: str = "any"
    pattern_type: str = "any"
    host: str | None = None
    permission: str = "any"

    def __str__(self) -> str:
        given = [
            f"{each.name} {value}"
            for each in fields(self)
            if (value := getattr(self, each.name)) not in {None, "any"}
        ]
        return f"ACLs with {', '.join(given)}" if given else "all ACLs"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenDescription:
    """A delegation token, whose HMAC is its password. Times are in milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    hmac: SecretBytes
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int

    def jaas_config(self) -> SecretText:
        """Return the ``sasl.jaas.config`` of a client that logs in with the token.

        Set that client's ``sasl.mechanism`` to SCRAM-SHA-256 or SCRAM-SHA-512.
        """
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        password = base64.b64encode(self.hmac.reveal()).decode()
        return SecretText(
            f'{module} required username="{self.token_id}" password="{password}" tokenauth="true";'
        )


# Users


async def set_scram_users(
    cluster: ClusterMetadata, users: Sequence[ScramUser], rng: Random, timeout_ms: int
) -> None:
    """Create users, or give them new passwords; see ``Admin.set_scram_users``."""
    upsertions = [
        await trio.to_thread.run_sync(
            partial(_upsertion, user, random_text(rng.getrandbits).encode())
        )
        for user in users
    ]
    await _alter_users(cluster, AlterUserScramCredentialsRequest(upsertions=upsertions), timeout_ms)


async def remove_scram_users(
    cluster: ClusterMetadata, users: Iterable[tuple[str, str]], timeout_ms: int
) -> None:
    """Remove passwords by user and mechanism; see ``Admin.remove_scram_users``."""
    deletions = [
        ScramCredentialDeletion(name=name, mechanism=_mechanism(mechanism))
        for name, mechanism in users
    ]
    await _alter_users(cluster, AlterUserScramCredentialsRequest(deletions=deletions), timeout_ms)


async def _alter_users(
    cluster: ClusterMetadata, request: AlterUserScramCredentialsRequest, timeout_ms: int
) -> None:
    async def attempt() -> None:
        await cluster.refresh()
        response = await (await cluster.controller()).request(
            request, AlterUserScramCredentialsResponse
        )
        collected = Collected()
        for result in response.results:
            collected.note(result.user, result.error_code, result.error_message, "user ")
        collected.finish({})

    await cluster.retry(attempt, timeout_ms, is_refreshing=False)


async def describe_scram_users(
    cluster: ClusterMetadata, names: Sequence[str] | None, timeout_ms: int
) -> dict[str, dict[str, int]]:
    """Return the SCRAM mechanisms of users; see ``Admin.describe_scram_users``."""
    request = DescribeUserScramCredentialsRequest(
        users=None if names is None else [UserName(name=name) for name in names]
    )

    async def attempt() -> dict[str, dict[str, int]]:
        response = await (await cluster.any_node()).request(
            request, DescribeUserScramCredentialsResponse
        )
        raise_for(response.error_code, response.error_message, "users")
        collected, found = Collected(), {}
        for result in response.results:
            if not collected.note(result.user, result.error_code, result.error_message, "user "):
                found[result.user] = {
                    f"SCRAM-SHA-{256 * each.mechanism}": each.iterations
                    for each in result.credential_infos
                }
        return collected.finish(found)

    return await cluster.retry(attempt, timeout_ms)


def _upsertion(user: ScramUser, random_salt: bytes) -> ScramCredentialUpsertion:
    """Return the request for one user, with the salted password.

    This takes milliseconds of CPU time.
    """
    password = SecretText(user.password) if isinstance(user.password, str) else user.password
    if not user.name or not password.reveal():
        raise ConfigError(f"a user has a name and a password, and neither is empty: {user.name!r}")
    if not MIN_ITERATIONS <= user.iterations <= MAX_ITERATIONS:
        raise ConfigError(
            f"iterations of user {user.name} are {user.iterations}; brokers take {MIN_ITERATIONS}"
            f" to {MAX_ITERATIONS}"
        )
    mechanism = _mechanism(user.mechanism)
    salt = user.salt or random_salt
    salted = salted_password(mechanism, password, salt, user.iterations)
    return ScramCredentialUpsertion(
        name=user.name,
        mechanism=mechanism,
        iterations=user.iterations,
        salt=salt,
        salted_password=salted.reveal(),
    )


def _mechanism(name: str) -> ScramMechanism:
    if name not in SCRAM_MECHANISMS:
        raise ConfigError(
            f"a user's mechanism is one of {', '.join(SCRAM_MECHANISMS)}, not {name!r}"
        )
    return SCRAM_MECHANISMS[name]


# ACLs


class _Acl(Protocol):
    """The fields of an ACL in responses."""

    principal: str
    host: str
    operation: int
    permission_type: int


async def create_acls(
    cluster: ClusterMetadata, bindings: Sequence[AclBinding], timeout_ms: int
) -> None:
    """Create ACLs; see ``Admin.create_acls``."""
    request = CreateAclsRequest(creations=[_creation(binding) for binding in bindings])

    async def attempt() -> None:
        await cluster.refresh()
        response = await (await cluster.controller()).request(request, CreateAclsResponse)
        collected = Collected()
        for binding, result in zip(bindings, response.results, strict=False):
            collected.note(binding, result.error_code, result.error_message)
        collected.finish({})

    await cluster.retry(attempt, timeout_ms, is_refreshing=False)


async def describe_acls(
    cluster: ClusterMetadata, wanted: AclFilter, timeout_ms: int
) -> list[AclBinding]:
    """Return ACLs; see ``Admin.describe_acls``."""
    request = DescribeAclsRequest(**_filter(wanted))

    async def attempt() -> list[AclBinding]:
        response = await (await cluster.any_node()).request(request, DescribeAclsResponse)
        raise_for(response.error_code, response.error_message, "ACLs")
        found = [
            _binding(resource.resource_type, resource.resource_name, resource.pattern_type, acl)
            for resource in response.resources
            for acl in resource.acls
        ]
        return sorted(found, key=str)

    return await cluster.retry(attempt, timeout_ms)


async def delete_acls(
    cluster: ClusterMetadata, filters: Sequence[AclFilter], timeout_ms: int
) -> list[AclBinding]:
    """Delete ACLs; see ``Admin.delete_acls``."""
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter(wanted)) for wanted in filters])

    async def attempt() -> list[AclBinding]:
        await cluster.refresh()
        response = await (await cluster.controller()).request(request, DeleteAclsResponse)
        collected, deleted = Collected(), []
        for wanted, result in zip(filters, response.filter_results, strict=False):
            if not collected.note(wanted, result.error_code, result.error_message):
                matches = [
                    each for each in result.matching_acls if each.error_code == ErrorCode.NONE
                ]
                deleted += [
                    _binding(each.resource_type, each.resource_name, each.pattern_type, each)
                    for each in matches
                ]
        collected.finish({})
        return sorted(set(deleted), key=str)

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


def _creation(binding: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=_number(RESOURCE_TYPES, binding.resource_type, "resource_type"),
        resource_name=binding.name,
        resource_pattern_type=_number(PATTERN_TYPES, binding.pattern_type, "pattern_type"),
        principal=binding.principal,
        host=binding.host,
        operation=_number(OPERATIONS, binding.operation, "operation"),
        permission_type=_number(PERMISSIONS, binding.permission, "permission"),
    )


def _filter(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": _number(RESOURCE_TYPES, wanted.resource_type, "resource_type"),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": _number(PATTERN_TYPES, wanted.pattern_type, "pattern_type"),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": _number(OPERATIONS, wanted.operation, "operation"),
        "permission_type": _number(PERMISSIONS, wanted.permission, "permission"),
    }


def _binding(resource_type: int, name: str, pattern_type: int, acl: _Acl) -> AclBinding:
    return AclBinding(
        resource_type=_word(RESOURCE_TYPES, resource_type),
        name=name,
        pattern_type=_word(PATTERN_TYPES, pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=_word(OPERATIONS, acl.operation),
        permission=_word(PERMISSIONS, acl.permission_type),
    )


def _number(table: "MappingProxyType[str, int]", word: str, what: str) -> int:
    if word not in table:
        raise ConfigError(f"{what} of an ACL is one of {', '.join(table)}, not {word!r}")
    return table[word]


def _word(table: "MappingProxyType[str, int]", number: int) -> str:
    return next((word for word, each in table.items() if each == number), f"unknown-{number}")


# Tokens


async def create_delegation_token(
    cluster: ClusterMetadata,
    owner: str | None,
    renewers: Sequence[str],
    max_lifetime_ms: int,
    timeout_ms: int,
) -> DelegationTokenDescription:
    """Create a token; see ``Admin.create_delegation_token``."""
    owner_type, owner_name = (None, None) if owner is None else principal_parts(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(principal_parts, renewers)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )

    async def attempt() -> DelegationTokenDescription:
        response = await (await cluster.controller()).request(
            request, CreateDelegationTokenResponse
        )
        raise_for(response.error_code, "", "creating a delegation token")
        own = f"{response.principal_type}:{response.principal_name}"
        return DelegationTokenDescription(
            token_id=response.token_id,
            owner=own,
            requester=f"{response.token_requester_principal_type}:{response.token_requester_principal_name}",
            renewers=tuple(renewers),
            hmac=SecretBytes(bytes(response.hmac)),
            issue_timestamp_ms=response.issue_timestamp_ms,
            expiry_timestamp_ms=response.expiry_timestamp_ms,
            max_timestamp_ms=response.max_timestamp_ms,
        )

    return await cluster.retry(attempt, timeout_ms)


async def renew_delegation_token(
    cluster: ClusterMetadata, hmac: SecretBytes, period_ms: int, timeout_ms: int
) -> int:
    """Renew a token; see ``Admin.renew_delegation_token``."""
    request = RenewDelegationTokenRequest(hmac=hmac.reveal(), renew_period_ms=period_ms)

    async def attempt() -> int:
        response = await (await cluster.controller()).request(request, RenewDelegationTokenResponse)
        raise_for(response.error_code, "", "renewing a delegation token")
        return response.expiry_timestamp_ms

    return await cluster.retry(attempt, timeout_ms)


async def expire_delegation_token(
    cluster: ClusterMetadata, hmac: SecretBytes, period_ms: int, timeout_ms: int
) -> int:
    """Set when a token expires; see ``Admin.expire_delegation_token``."""
    request = ExpireDelegationTokenRequest(hmac=hmac.reveal(), expiry_time_period_ms=period_ms)

    async def attempt() -> int:
        response = await (await cluster.controller()).request(
            request, ExpireDelegationTokenResponse
        )
        raise_for(response.error_code, "", "expiring a delegation token")
        return response.expiry_timestamp_ms

    return await cluster.retry(attempt, timeout_ms)


async def describe_delegation_tokens(
    cluster: ClusterMetadata, owners: Sequence[str] | None, timeout_ms: int
) -> list[DelegationTokenDescription]:
    """Return tokens; see ``Admin.describe_delegation_tokens``."""
    named = None if owners is None else [principal_parts(owner) for owner in owners]
    request = DescribeDelegationTokenRequest(
        owners=(
            None
            if named is None
            else [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in named
            ]
        )
    )

    async def attempt() -> list[DelegationTokenDescription]:
        response = await (await cluster.any_node()).request(
            request, DescribeDelegationTokenResponse
        )
        raise_for(response.error_code, "", "delegation tokens")
        return sorted(
            (_described(token) for token in response.tokens), key=lambda token: token.token_id
        )

    return await cluster.retry(attempt, timeout_ms)


def _described(token: DescribedDelegationToken) -> DelegationTokenDescription:
    return DelegationTokenDescription(
        token_id=token.token_id,
        owner=f"{token.principal_type}:{token.principal_name}",
        requester=f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
        hmac=SecretBytes(bytes(token.hmac)),
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiry_timestamp,
        max_timestamp_ms=token.max_timestamp,
    )


def principal_parts(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal such as ``User:alice``.

    Raises:
        KafkaError: INVALID_REQUEST, the type, the colon or the name is missing.
    """
    kind, colon, name = principal.partition(":")
    if not colon or not kind or not name:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"a principal is written TYPE:NAME, as in User:alice, not {principal!r}",
        )
    return kind, name
