"""Converts records about access in the metadata log to values and back.

Each value of ``metadata.access`` has one record that describes it completely, for the log and for
snapshots.
"""

from collections.abc import Mapping, Sequence

from log_service.common.secrets import SecretBytes
from log_service.metadata.access import AclEntry, DelegationToken, QuotaEntity, QuotaPart, ScramUser
from log_service.protocol.stored.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    UserScramCredentialRecord,
)
from log_service.security.sasl.credentials import ScramCredential


def acl_of(record: AccessControlEntryRecord) -> AclEntry:
    """Return the ACL that a record adds."""
    return AclEntry(
        acl_id=record.id,
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission_type=record.permission_type,
    )


def acl_record(entry: AclEntry) -> AccessControlEntryRecord:
    """Return the record that adds an ACL."""
    return AccessControlEntryRecord(
        id=entry.acl_id,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    """Return the credential that a record sets."""
    return ScramCredential(
        salt=SecretBytes(record.salt),
        stored_key=SecretBytes(record.stored_key),
        server_key=SecretBytes(record.server_key),
        iterations=record.iterations,
    )


def credential_record(user: ScramUser, credential: ScramCredential) -> UserScramCredentialRecord:
    """Return the record that sets a user's credential."""
    return UserScramCredentialRecord(
        name=user.name,
        mechanism=user.mechanism,
        salt=credential.salt.reveal(),
        stored_key=credential.stored_key.reveal(),
        server_key=credential.server_key.reveal(),
        iterations=credential.iterations,
    )


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    """Return the token that a record makes or renews."""
    return DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp_ms=record.issue_timestamp,
        max_timestamp_ms=record.max_timestamp,
        expiration_timestamp_ms=record.expiration_timestamp,
    )


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    """Return the record that makes a token."""
    return DelegationTokenRecord(
        token_id=token.token_id,
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expiration_timestamp_ms,
    )


def quota_entity(parts: Sequence[EntityData]) -> QuotaEntity:
    """Return the entity of a quota's record. A part without a name is the type's default."""
    return tuple(
        sorted(
            QuotaPart(part.entity_type, part.entity_name or "", part.entity_name is None)
            for part in parts
        )
    )


def quota_records(entity: QuotaEntity, quotas: Mapping[str, float]) -> list[ClientQuotaRecord]:
    """Return the records that set an entity's quotas, one per key, in the order of the keys."""
    parts = [
        EntityData(entity_type=part.entity_type, entity_name=None if part.is_default else part.name)
        for part in entity
    ]
    return [
        ClientQuotaRecord(entity=parts, key=key, value=value)
        for key, value in sorted(quotas.items())
    ]
