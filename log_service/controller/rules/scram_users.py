"""Decides on AlterUserScramCredentials: passwords of users, salted by the client (KIP-554).

The controller decides on each user of a request separately. A repeated user is refused, with the
first error that occurred for this user. All accepted changes are written in one batch.

Invariants: a written credential has a salt, keys of the mechanism's length, and iterations within
the bounds. A salted password is never written, because it would suffice to log in as the user. An
empty salt and a salted password of another length are refused, although Apache Kafka accepts them.
"""

from collections.abc import Mapping

from log_service.common.errors import ErrorCode, KafkaError, kept
from log_service.common.features import METADATA_VERSION
from log_service.common.secrets import SecretBytes
from log_service.metadata.access import ScramUser
from log_service.metadata.access_records import credential_record
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from log_service.protocol.stored.metadata_records import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
)
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, credential_from

FIRST_LEVEL = 11
"""The metadata.version (3.5-IV2) from which on the metadata may hold SCRAM credentials."""
MAX_SALT_BYTES = 1_024

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_scram_users(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> tuple[list[MetadataRecord], AlterUserScramCredentialsResponse]:
    """Return the records of changed credentials, and the response with a result for each user.

    Raises:
        KafkaError: UNSUPPORTED_VERSION, the cluster's metadata.version has no such records.
    """
    level = image.features.get(METADATA_VERSION, 0)
    if level < FIRST_LEVEL:
        text = f"metadata.version is {level}; SCRAM credentials are there from {FIRST_LEVEL} on"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    changes: list[Change] = [*request.deletions, *request.upsertions]
    errors: dict[str, KafkaError] = {}
    accepted: dict[str, MetadataRecord] = {}
    for change in changes:
        if change.name not in errors:
            try:
                accepted[change.name] = _decide(image, change, accepted)
            except KafkaError as error:
                errors[change.name] = kept(error)
                accepted.pop(change.name, None)
    results = [
        _result(name, errors.get(name)) for name in dict.fromkeys(change.name for change in changes)
    ]
    return list(accepted.values()), AlterUserScramCredentialsResponse(results=results)


def _result(name: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=name, error_message=None)
    return AlterUserScramCredentialsResult(
        user=name, error_code=error.code, error_message=str(error)
    )


def _decide(
    image: MetadataImage, change: Change, accepted: Mapping[str, MetadataRecord]
) -> MetadataRecord:
    if change.name in accepted:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"user {change.name!r} is changed more than once in the request",
        )
    return (
        _delete(image, change) if isinstance(change, ScramCredentialDeletion) else _upsert(change)
    )


def _delete(
    image: MetadataImage, deletion: ScramCredentialDeletion
) -> RemoveUserScramCredentialRecord:
    mechanism = _mechanism(deletion.name, deletion.mechanism)
    if ScramUser(mechanism, deletion.name) not in image.access.scram_credentials:
        text = f"user {deletion.name!r} has no credential of {mechanism.mechanism_name}"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
    return RemoveUserScramCredentialRecord(name=deletion.name, mechanism=mechanism)


def _upsert(upsertion: ScramCredentialUpsertion) -> MetadataRecord:
    mechanism = _mechanism(upsertion.name, upsertion.mechanism)
    if not MIN_ITERATIONS <= upsertion.iterations <= MAX_ITERATIONS:
        raise _unacceptable(
            f"{upsertion.iterations} iterations; they must be {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    if not 0 < len(upsertion.salt) <= MAX_SALT_BYTES:
        raise _unacceptable(
            f"a salt of {len(upsertion.salt)} bytes; it must have 1 to {MAX_SALT_BYTES}"
        )
    if len(upsertion.salted_password) != mechanism.key_bytes:
        raise _unacceptable(
            f"a salted password of {len(upsertion.salted_password)} bytes; it must have"
            f" {mechanism.key_bytes}"
        )
    salted = SecretBytes(bytes(upsertion.salted_password))
    credential = credential_from(mechanism, salted, bytes(upsertion.salt), upsertion.iterations)
    return credential_record(ScramUser(mechanism, upsertion.name), credential)


def _mechanism(name: str, number: int) -> ScramMechanism:
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user name is empty")
    try:
        return ScramMechanism(number)
    except ValueError:
        text = (
            f"mechanism {number} is not there;"
            f" {', '.join(f'{each.value} is {each.mechanism_name}' for each in ScramMechanism)}"
        )
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text) from None


def _unacceptable(text: str) -> KafkaError:
    return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the credential has {text}")
