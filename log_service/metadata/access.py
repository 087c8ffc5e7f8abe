"""Access records of the metadata: ACLs, SCRAM credentials, delegation tokens and client quotas.

This module holds only values. Other packages decide who may do what, how a password is checked and
when a client must slow down. Resource types, operations and mechanisms are Kafka's numbers, so that
the metadata also keeps numbers that those packages do not know.

Invariant: no value here prints a salt or a key.
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AclEntry:
    """One ACL: it allows or denies an operation on matching resources to a principal on a host."""

    acl_id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class ScramUser(NamedTuple):
    """A user and the number of a SCRAM mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A delegation token, with which a client acts as the token's owner.

    Its HMAC is not stored. It is computed from the cluster's secret and the token's id.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int


class QuotaPart(NamedTuple):
    """One part of a quota's entity: a user, a client id or an address.

    The part has a name, or is the default for all names of its type.
    """

    entity_type: str
    name: str = ""
    is_default: bool = False


QuotaEntity = tuple[QuotaPart, ...]
"""The clients that a quota is for: parts of different types, sorted.

A client must match all of them.
"""
