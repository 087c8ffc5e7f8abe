"""Gates of configuration and the cluster's description: permission checks before the handlers.

Each resource of a request is authorized by itself. Topics and groups need a permission on the
resource itself, all others one on the cluster. The broker that gets a request alters the levels of
its own loggers. Its gate looks only at those, because the rest of the request goes to the
controller and through the gate there.

Keys for logins and super users also need ALTER on the cluster. ACLs are changed by the same right.
Without it, a client that may change a broker's configuration could make itself any user. Each such
change is logged.
"""

import logging
from collections.abc import Callable, Collection
from typing import Any

from log_service.broker.authorization.access import CLUSTER, GROUP, REFUSALS, TOPIC
from log_service.broker.authorization.gate_shapes import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    Question,
    admit_part,
    require_on_cluster,
)
from log_service.broker.requests.call import Gate
from log_service.common.access import AclOperation, AclResource, Admission
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.describe import access_keys
from log_service.metadata.image import ResourceType
from log_service.protocol.api_versions import ApiKey
from log_service.security.acls.values import CLUSTER_NAME

logger = logging.getLogger(__name__)
RESOURCES = {ResourceType.TOPIC: TOPIC, ResourceType.GROUP: GROUP}
ON_CLUSTER = frozenset(
    {ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS}
)

OperationOf = Callable[[int], AclOperation | None]
"""The operation that a resource of a type needs. None if the gate ignores the type."""


def _each_resource(operation_of: OperationOf) -> Gate:
    """Return the gate of an API that responds resource by resource."""

    def gate(question: Question) -> Admission | None:
        denied: dict[AclResource, list[int]] = {}
        decided: dict[tuple[AclOperation, AclResource, str], bool] = {}
        for item in question.request.resources:
            operation = operation_of(item.resource_type)
            resource = RESOURCES.get(
                item.resource_type, CLUSTER if item.resource_type in ON_CLUSTER else None
            )
            if operation is None or resource is None:
                continue
            key = (operation, resource, CLUSTER_NAME if resource is CLUSTER else item.resource_name)
            if key not in decided:
                decided[key] = question.access.may(*key)
            if not (decided[key] and _may_decide_access(question, item, operation)):
                denied.setdefault(resource, []).append(id(item))
        return _refused_each(question, denied)

    return gate


def _may_decide_access(question: Question, item: Any, operation: AclOperation) -> bool:
    """Return whether the client may change an item's keys about logins and identity.

    True if the item changes no such key.
    """
    if operation is not ALTER_CONFIGS or item.resource_type != ResourceType.BROKER:
        return True
    names = access_keys(_changed_keys(question, item))
    if not names:
        return True
    if not question.access.may(ALTER, CLUSTER, CLUSTER_NAME):
        return False
    if not question.request.validate_only:
        where = f"broker {item.resource_name}" if item.resource_name else "all brokers"
        logger.warning(
            "%s changes who may log in at %s, or its identity: %s",
            question.access.principal,
            where,
            ", ".join(names),
        )
    return True


def _changed_keys(question: Question, item: Any) -> Collection[str]:
    """Return the keys that an item sets or resets.

    AlterConfigs resets all keys that it does not name.
    """
    named = [entry.name for entry in item.configs]
    if question.api.key is not ApiKey.ALTER_CONFIGS:
        return named
    return {*named, *question.image.configs.of(ResourceType.BROKER, item.resource_name)}


def _refused_each(question: Question, denied: dict[AclResource, list[int]]) -> Admission | None:
    """Admit the items that are not denied. Each denied one gets the error code of its resource."""
    codes = {each: REFUSALS[resource] for resource, items in denied.items() for each in items}
    text = "the operation is not allowed"
    admission = admit_part(
        question,
        lambda item: id(item) not in codes,
        KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text),
    )
    if admission is None:
        return None
    by_name = {
        (item.resource_type, item.resource_name): codes[id(item)]
        for item in question.request.resources
        if id(item) in codes
    }

    def with_codes(response: Any) -> Any:
        for result in getattr(response, question.api.items.response_field):
            if result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                result.error_code = by_name.get(
                    (result.resource_type, result.resource_name), result.error_code
                )
        return response

    if admission.response is not None:
        return Admission(request=admission.request, response=with_codes(admission.response))
    later = admission.amend
    assert later is not None, "a part that is let through has refusals to add"
    return Admission(request=admission.request, amend=lambda response: with_codes(later(response)))


def describe_cluster(question: Question) -> None:
    """Check ALTER on the cluster, on the controller's listeners only.

    The response there names all controllers.
    """
    require_on_cluster(question.access, ALTER)


_describe_each = _each_resource(lambda _: DESCRIBE_CONFIGS)


def describe_configs(question: Question) -> Admission | None:
    """Check the permission to describe each resource of the request.

    A request with an unknown resource type is not checked, because the handler refuses all of it.
    """
    known: Collection[int] = {*RESOURCES, *ON_CLUSTER}
    if any(item.resource_type not in known for item in question.request.resources):
        return None
    return _describe_each(question)


alter_configs = _each_resource(
    lambda kind: None if kind == ResourceType.BROKER_LOGGER else ALTER_CONFIGS
)
incremental_alter_configs = _each_resource(
    lambda kind: CLUSTER_ACTION if kind == ResourceType.BROKER_LOGGER else ALTER_CONFIGS
)
alter_loggers = _each_resource(
    lambda kind: ALTER_CONFIGS if kind == ResourceType.BROKER_LOGGER else None
)
