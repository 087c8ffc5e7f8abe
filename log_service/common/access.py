"""Principals, operations and types of resources, by Kafka's names and numbers (KIP-11).

This module only declares them. Other packages have the rules of access, and the logins that
determine principals.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from log_service.common.steps import Steps


class Principal(NamedTuple):
    """The user behind a connection.

    Two principals are equal if their types and names are equal. It is a tuple, because it is used
    as a key.
    """

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of every connection that has not logged in."""


NODE_ADVICE: Final = (
    "what nodes ask of each other needs CLUSTER_ACTION on the cluster: name the principal in"
    " super.users of every node"
)
"""Advice for a node that authenticates to another node as a user that is not one of the nodes."""


class AclOperation(IntEnum):
    """Operations that a principal may be allowed to do."""

    # it is part of keys that are looked up with every request; an enum hashes its name, in Python
    __hash__ = int.__hash__

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResource(IntEnum):
    """The types of resources that an operation is allowed on."""

    __hash__ = int.__hash__  # as above

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


_CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
OPERATIONS_ON: Final[Mapping[AclResource, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        AclResource.TOPIC: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            *_CONFIGS,
        ),
        AclResource.GROUP: (
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            *_CONFIGS,
        ),
        AclResource.CLUSTER: (
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.IDEMPOTENT_WRITE,
            *_CONFIGS,
        ),
        AclResource.TRANSACTIONAL_ID: (
            AclOperation.DESCRIBE,
            AclOperation.WRITE,
            AclOperation.TWO_PHASE_COMMIT,
        ),
        AclResource.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
        AclResource.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
    }
)
"""What can be done with a resource of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A decision to let a request through in part, or to show only part of its response.

    ``request`` is the allowed part of the request. ``amend`` adds the refused parts to the
    response, and removes the parts that the client must not see. If ``response`` is given, it is
    complete and nothing is left to do.
    """

    request: Any
    amend: Callable[[Any], Any] | None = None
    amend_in_steps: Callable[[Any], Steps[Any]] | None = None
    """The same in steps, for responses of any size. ``amend`` then takes all of them."""
    response: Any = None


class Access(Protocol):
    """The rights of one client in its requests of one API.

    They are used by the code that admits a request, and by its handler. See
    ``broker.authorization.access``.
    """

    def may(
        self, operation: AclOperation, resource: AclResource, name: str, count: int = 1
    ) -> bool:
        """Return whether the client may do an operation that its request needs.

        ``count`` is how often the request names the resource.
        """

    def may_cluster(self, operation: AclOperation) -> bool:
        """Return whether the client may do an operation on the cluster that its request needs."""

    def could(self, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Return whether an optional operation is allowed.

        The request also succeeds without it.
        """

    def could_cluster(self, operation: AclOperation) -> bool:
        """Return whether an optional operation on the cluster is allowed.

        The request also succeeds without it.
        """

    def allowed(
        self, operation: AclOperation, resource: AclResource, names: Iterable[str]
    ) -> set[str]:
        """Return the allowed ones among the names that a request needs."""

    def visible(
        self, operation: AclOperation, resource: AclResource, names: Iterable[str]
    ) -> set[str]:
        """Return the allowed ones of the names. The client does not learn of the others."""

    def require(self, operation: AclOperation, resource: AclResource, name: str) -> None:
        """Raise KafkaError unless the operation is allowed."""

    def bits(self, resource: AclResource, name: str, operations: Iterable[AclOperation]) -> int:
        """Return the allowed ones of the operations, as the bits of a number (KIP-430)."""


class Permission(NamedTuple):
    """One operation on one type of resource."""

    operation: AclOperation
    resource: AclResource

    def __str__(self) -> str:
        return f"{self.resource.name} {self.operation.name}"
