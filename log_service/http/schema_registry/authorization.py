"""Decides by the cluster's ACLs what a principal may do with a subject.

A subject maps to a topic: ``orders-value`` and ``orders-key`` to ``orders``, any other name to the
topic of that name. Contexts do not count. WRITE on the topic allows to register its schemas, and
DESCRIBE to read them. Settings of a context or of the whole registry need rights on the cluster.

- For an alias the rights on its subject count. Only the settings of an alias are its own.
- A principal may read a schema by its id if it may read one of the schema's subjects. Lists leave
  out the other subjects.
- A schema may refer to the schemas that its author may read. A response that inlines them shows
  them to each reader of the schema, because they are a part of it.
- Registering needs DESCRIBE, too, because a refusal shows the schema of the version before.
- Registering without a comparison (``force``) needs the right to change the subject's settings,
  because these demand the comparison. Importing needs that right on the cluster, because the
  subjects of a context share its ids.
- An instance that forwards a change names the client if the client logged in by a certificate. For
  that the instance needs CLUSTER_ACTION on the cluster, as a broker does.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from urllib.parse import unquote

from log_service.common.access import AclOperation, AclResource
from log_service.http.schema_registry.errors import RegistryError
from log_service.http.schema_registry.subjects import Subject, within
from log_service.http.schema_registry.values import Reference
from log_service.http.server.values import HttpRequest

FORBIDDEN = 40301
CLUSTER_NAME = "kafka-cluster"
SUFFIXES = ("-key", "-value")
CALLER_HEADER = "x-forward-principal"
"""The header with the caller's name.

It is percent-encoded, because names in certificates may have any character.
"""
CALLER_HOST_HEADER = "x-forward-host"


class Right(Enum):
    """The rights that requests need, each with the operations that ACLs have to allow."""

    NOTHING = ()
    READ = (AclOperation.DESCRIBE,)
    REGISTER = (AclOperation.WRITE, AclOperation.DESCRIBE)
    DELETE = (AclOperation.DELETE,)
    READ_SETTINGS = (AclOperation.DESCRIBE_CONFIGS,)
    CHANGE_SETTINGS = (AclOperation.ALTER_CONFIGS,)


DEEDS = {
    Right.READ: "read",
    Right.REGISTER: "register schemas of",
    Right.DELETE: "delete versions of",
    Right.READ_SETTINGS: "read the settings of",
    Right.CHANGE_SETTINGS: "change the settings of",
}

Access = Callable[[HttpRequest, AclOperation, AclResource, str], bool]
"""Whether the request's principal may perform an operation on a named resource."""


def open_access(
    _request: HttpRequest, _operation: AclOperation, _resource: AclResource, _name: str
) -> bool:
    """Allow everything, as in a cluster without an authorizer."""
    return True


def topic_of(subject: str) -> str:
    """Return the topic whose ACLs count for a subject. Its context does not count."""
    name = Subject.parse(subject).name
    suffix = next((each for each in SUFFIXES if name.endswith(each) and name != each), "")
    return name.removesuffix(suffix)


def may(access: Access, request: HttpRequest, right: Right, subject: str) -> bool:
    """Return whether ACLs allow a kind of request on a subject, a context or the whole registry."""
    return _missing(access, request, right, subject) is None


def require(access: Access, request: HttpRequest, right: Right, subject: str) -> None:
    """Refuse a request whose principal lacks ``right`` on a subject, a context or the registry.

    Raises:
        RegistryError: the principal has no ACL that allows it.
    """
    missing = _missing(access, request, right, subject)
    if missing is not None:
        topic = topic_of(subject)
        what = f"subject '{subject}'" if topic else "the registry"
        where = f"topic {topic}" if topic else "the cluster"
        text = f"{request.principal} may not {DEEDS[right]} {what}"
        raise RegistryError(FORBIDDEN, f"{text}: that takes {missing.name} on {where}")


def require_references(
    access: Access, request: HttpRequest, references: Iterable[Reference], subject: str
) -> None:
    """Refuse a schema with references to subjects that the principal may not read.

    Raises:
        RegistryError: the principal may not read one of the subjects.
    """
    for reference in references:
        require(access, request, Right.READ, within(reference.subject, subject))


def unreadable_schema(request: HttpRequest, schema: str) -> RegistryError:
    """Return the error for a schema that may not be read.

    It names the id or the guid, but no subject.
    """
    text = f"{request.principal} may not read the schema {schema}"
    return RegistryError(
        FORBIDDEN, f"{text}: that takes DESCRIBE on the topic of one of its subjects"
    )


def with_caller(access: Access, request: HttpRequest) -> HttpRequest:
    """Return a forwarded request with its original client as the principal, if a header names it.

    Raises:
        RegistryError: the forwarding principal may not act for others.
    """
    caller = request.headers.get(CALLER_HEADER)
    if caller is None:
        return request
    if not access(request, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME):
        text = f"{request.principal} may not forward requests of others"
        raise RegistryError(FORBIDDEN, f"{text}: that takes CLUSTER_ACTION on the cluster")
    host = request.headers.get(CALLER_HOST_HEADER, request.peer)
    return replace(request, principal=unquote(caller), peer=host)


def _missing(
    access: Access, request: HttpRequest, right: Right, subject: str
) -> AclOperation | None:
    """Return the first operation of ``right`` that no ACL allows, or None if all are allowed."""
    topic = topic_of(subject)
    resource, name = (AclResource.TOPIC, topic) if topic else (AclResource.CLUSTER, CLUSTER_NAME)
    return next((each for each in right.value if not access(request, each, resource, name)), None)
