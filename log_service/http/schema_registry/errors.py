"""Errors of the registry, with the codes and texts that Confluent's clients match.

A code of five digits has the HTTP status in its first three. Source: Confluent's REST API.
"""

from dataclasses import dataclass

from log_service.common.registry_errors import (
    NO_OWN_CONFIG,
    SCHEMA_NOT_FOUND,
    SUBJECT_NOT_FOUND,
    VERSION_NOT_FOUND,
)


@dataclass(slots=True)
class RegistryError(Exception):
    """A request is refused. ``code`` is the error code in the response's body."""

    code: int
    text: str

    @property
    def status(self) -> int:
        """The HTTP status, which is in the first three digits of the code."""
        return self.code if self.code < 1_000 else self.code // 100

    def __str__(self) -> str:
        return self.text


INCOMPATIBLE = 409
UNPROCESSABLE = 422
BUSY = 503
INVALID_SCHEMA = 42201
INVALID_RULE_SET = 42210
OPERATION_TIMEOUT = 50002
STORE_FAILED = 50001
FORWARDING_FAILED = 50003
UNKNOWN_LEADER = 50004


def subject_not_found(subject: str) -> RegistryError:
    """No version of the subject exists."""
    return RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    """The subject has no such version."""
    return RegistryError(VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(key: object = None) -> RegistryError:
    """No schema has this id or guid, or this content."""
    return RegistryError(
        SCHEMA_NOT_FOUND, "Schema not found" if key is None else f"Schema {key} not found"
    )


def subject_soft_deleted(subject: str) -> RegistryError:
    """The subject was deleted before, so only a permanent deletion can follow."""
    text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    return RegistryError(40404, text)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """A permanent deletion was requested before a soft deletion."""
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return RegistryError(40405, text)


def version_soft_deleted(subject: str, version: str) -> RegistryError:
    """The version was deleted before, so only a permanent deletion can follow."""
    text = (
        f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete"
        " permanently"
    )
    return RegistryError(40406, text)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """A permanent deletion was requested before a soft deletion."""
    text = (
        f"Subject '{subject}' Version {version} was not deleted first before being permanently"
        " deleted"
    )
    return RegistryError(40407, text)


def no_subject_compatibility(subject: str) -> RegistryError:
    """The subject has no settings of its own."""
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return RegistryError(NO_OWN_CONFIG, text)


def no_subject_mode(subject: str) -> RegistryError:
    """The subject has no mode of its own."""
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def association_not_found(resource: str) -> RegistryError:
    """No subject is associated with the resource. Clients then use the name of the topic."""
    return RegistryError(40410, f"Association for '{resource}' not found.")


def incompatible(subject: str, reasons: list[str]) -> RegistryError:
    """The new schema breaks the compatibility level of its subject."""
    start = "Schema being registered is incompatible with an earlier schema for subject"
    return RegistryError(INCOMPATIBLE, f'{start} "{subject}", details: [{", ".join(reasons)}]')


def invalid_schema(schema_type: str, reason: str) -> RegistryError:
    """The text is not a schema of its type."""
    return RegistryError(INVALID_SCHEMA, f"Invalid schema of type {schema_type}, details: {reason}")


def invalid_version(version: str) -> RegistryError:
    """The version in a request is not a number from 1 on, -1 or ``latest``."""
    text = (
        f"The specified version '{version}' is not a valid version id. Allowed values are between"
        ' [1, 2^31-1] and the string "latest"'
    )
    return RegistryError(42202, text)


def invalid_compatibility() -> RegistryError:
    """The compatibility level is not one of the seven, from NONE to FULL_TRANSITIVE."""
    levels = (
        "NONE, BACKWARD, FORWARD, FULL, BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE, and"
        " FULL_TRANSITIVE"
    )
    return RegistryError(42203, f"Invalid compatibility level. Valid values are {levels}")


def invalid_policy() -> RegistryError:
    """The compatibility policy is not STRICT, LENIENT or LOGICAL."""
    return RegistryError(
        42203, "Invalid compatibility policy. Valid values are STRICT, LENIENT, and LOGICAL"
    )


def invalid_mode() -> RegistryError:
    """The mode of a subject or context is not one of the five modes."""
    modes = "READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD"
    return RegistryError(42204, f"Invalid mode. Valid values are {modes}")


def not_permitted(reason: str) -> RegistryError:
    """The subject's mode forbids the change."""
    return RegistryError(42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    """Another schema refers to the version."""
    text = (
        "One or more references exist to the schema"
        f" {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    )
    return RegistryError(42206, text)


def id_does_not_match(reason: str) -> RegistryError:
    """The id in the request belongs to another schema."""
    return RegistryError(42207, reason)


def invalid_subject(subject: str) -> RegistryError:
    """The name has control characters, is empty or reserved."""
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large(reason: str) -> RegistryError:
    """The schema is larger than a record or the registry's limit allows."""
    return RegistryError(42209, reason)


def context_not_empty(context: str) -> RegistryError:
    """Subjects are left in the context."""
    return RegistryError(42211, f"The specified context '{context}' is not empty.")
