"""The methods of the admin for SCRAM users, ACLs and delegation tokens.

Each method calls the function of the same name in ``access``, which sends the requests.
"""

from collections.abc import Iterable, Sequence

from log_service.client import arguments
from log_service.client.admin import access
from log_service.client.admin.access import (
    AclBinding,
    AclFilter,
    DelegationTokenDescription,
    ScramUser,
)
from log_service.client.admin.admin_connection import AdminConnection
from log_service.common.secrets import SecretBytes


class AccessAdmin(AdminConnection):
    """The methods of ``Admin`` for users, delegation tokens and ACLs."""

    async def set_scram_users(
        self, users: Sequence[ScramUser], *, timeout_ms: int | None = None
    ) -> None:
        """Create users, or give them new passwords (KIP-554).

        The brokers get a salted hash, never the password. An error is, for example,
        UNACCEPTABLE_CREDENTIAL for an iteration count that is out of bounds.
        """
        wanted = arguments.all_of(ScramUser, users, "users")
        await access.set_scram_users(self.cluster, wanted, self._env.rng, self._limit(timeout_ms))

    async def remove_scram_users(
        self, users: Iterable[tuple[str, str]], *, timeout_ms: int | None = None
    ) -> None:
        """Remove passwords by user and mechanism, for example ``("alice", "SCRAM-SHA-512")``.

        The error is RESOURCE_NOT_FOUND if a user has no password for the mechanism.
        """
        await access.remove_scram_users(self.cluster, users, self._limit(timeout_ms))

    async def describe_scram_users(
        self, names: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, int]]:
        """Return the PBKDF2 iteration counts by user and mechanism.

        ``names`` None means all users.

        The error is RESOURCE_NOT_FOUND if a user has no password.
        """
        named = None if names is None else arguments.names(names, "users")
        return await access.describe_scram_users(self.cluster, named, self._limit(timeout_ms))

    async def create_acls(
        self, bindings: Sequence[AclBinding], *, timeout_ms: int | None = None
    ) -> None:
        """Create ACLs. Those that exist already are left as they are.

        The error is SECURITY_DISABLED if the cluster has no authorizer.
        """
        await access.create_acls(
            self.cluster, arguments.all_of(AclBinding, bindings, "ACLs"), self._limit(timeout_ms)
        )

    async def describe_acls(
        self, wanted: AclFilter | None = None, *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """Return the ACLs that a filter selects. ``wanted`` None means all ACLs.

        The error is SECURITY_DISABLED if the cluster has no authorizer.
        """
        return await access.describe_acls(
            self.cluster, wanted or AclFilter(), self._limit(timeout_ms)
        )

    async def delete_acls(
        self, filters: Sequence[AclFilter], *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """Delete the ACLs that any of the filters selects, and return them.

        The error is SECURITY_DISABLED if the cluster has no authorizer.
        """
        return await access.delete_acls(
            self.cluster, arguments.all_of(AclFilter, filters, "filters"), self._limit(timeout_ms)
        )

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Sequence[str] = (),
        max_lifetime_ms: int = -1,
        timeout_ms: int | None = None,
    ) -> DelegationTokenDescription:
        """Create a token with which clients can log in as its owner until it expires (KIP-48).

        ``owner`` None means this client's user. The error is DELEGATION_TOKEN_AUTH_DISABLED if the
        cluster has no secret for tokens. It is DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if this client
        is not logged in, or is logged in with a token.
        """
        named = arguments.names(renewers, "renewers")
        return await access.create_delegation_token(
            self.cluster, owner, named, max_lifetime_ms, self._limit(timeout_ms)
        )

    async def renew_delegation_token(
        self, hmac: SecretBytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Extend the life of a token, and return its new expiry time in milliseconds since 1970.

        ``period_ms`` -1 means the brokers' default. An error is, for example,
        DELEGATION_TOKEN_EXPIRED.
        """
        return await access.renew_delegation_token(
            self.cluster, hmac, period_ms, self._limit(timeout_ms)
        )

    async def expire_delegation_token(
        self, hmac: SecretBytes, *, period_ms: int = -1, timeout_ms: int | None = None
    ) -> int:
        """Make a token expire ``period_ms`` from now, and return the expiry time.

        If ``period_ms`` is negative, the token expires at once.
        """
        return await access.expire_delegation_token(
            self.cluster, hmac, period_ms, self._limit(timeout_ms)
        )

    async def describe_delegation_tokens(
        self, owners: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationTokenDescription]:
        """Return the tokens that this client's user may see, with their HMACs.

        ``owners`` None means the tokens of all owners.
        """
        named = None if owners is None else arguments.names(owners, "owners")
        return await access.describe_delegation_tokens(self.cluster, named, self._limit(timeout_ms))
