"""Decides by the cluster's ACLs what a principal may do with a subject.

A subject maps to a topic: ``orders-value`` and ``orders-key`` to ``orders``, any other name to the
topic of that name. WRITE on the topic allows to register its schemas, and DESCRIBE to read them.
Settings of a context or of the whole registry are the cluster's.
"""

from collections.abc import Callable
from enum import Enum

from log_service.common.access import AclOperation, AclResource
from log_service.http.schema_registry.errors import RegistryError
from log_service.http.schema_registry.subjects import Subject
from log_service.http.server.values import HttpRequest

FORBIDDEN = 40301
CLUSTER_NAME = "kafka-cluster"
SUFFIXES = ("-key", "-value")


class Need(Enum):
    """The kinds of requests, each with the operation that an ACL has to allow."""

    NOTHING = None
    READ = AclOperation.DESCRIBE
    REGISTER = AclOperation.WRITE
    DELETE = AclOperation.DELETE
    READ_SETTINGS = AclOperation.DESCRIBE_CONFIGS
    CHANGE_SETTINGS = AclOperation.ALTER_CONFIGS


DEEDS = {
    Need.READ: "read",
    Need.REGISTER: "register schemas of",
    Need.DELETE: "delete versions of",
    Need.READ_SETTINGS: "read the settings of",
    Need.CHANGE_SETTINGS: "change the settings of",
}

Access = Callable[[HttpRequest, AclOperation, AclResource, str], bool]
"""Whether the request's principal may perform an operation on a named resource."""


def open_access(_request: HttpRequest, _operation: AclOperation, _resource: AclResource, _name: str) -> bool:
    """Allow everything, as in a cluster without an authorizer."""
    return True


def topic_of(subject: str) -> str:
    """Return the topic whose ACLs count for a subject. Its context does not count."""
    name = Subject.parse(subject).name
    suffix = next((each for each in SUFFIXES if name.endswith(each) and name != each), "")
    return name.removesuffix(suffix)


def may(access: Access, request: HttpRequest, need: Need, subject: str) -> bool:
    """Return whether a request may do something with a subject, a context or everything."""
    if need is Need.NOTHING:
        return True
    topic = topic_of(subject)
    if topic:
        return access(request, need.value, AclResource.TOPIC, topic)
    return access(request, need.value, AclResource.CLUSTER, CLUSTER_NAME)


def require(access: Access, request: HttpRequest, need: Need, subject: str) -> None:
    """Refuse a request without the right.

    Raises:
        RegistryError: the principal has no ACL that allows it.
    """
    if not may(access, request, need, subject):
        topic = topic_of(subject)
        what = f"subject '{subject}'" if topic else "the registry"
        where = f"topic {topic}" if topic else "the cluster"
        text = f"{request.principal} may not {DEEDS[need]} {what}"
        raise RegistryError(FORBIDDEN, f"{text}: that takes {need.value.name} on {where}")
