"""The building blocks of gates, which check the permissions of requests before the handlers.

They are the input of a gate, partial admission, and gates that several APIs share. If a part of a
request is admitted, the handler gets the request without the denied items, and their refusals are
added to its response. So a handler never sees a name that its client must not use.

Invariants: a gate changes no request, because the same one may be sent again. The response about a
denied resource does not depend on whether it exists.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from log_service.broker.authorization.access import CLUSTER, GROUP, TOPIC, Access, refusal
from log_service.broker.requests.call import Api, Gate
from log_service.common.access import AclOperation, AclResource, Admission
from log_service.common.errors import KafkaError
from log_service.common.steps import Steps, finish
from log_service.common.types import TopicId
from log_service.config.views import NodeConfig
from log_service.metadata.image import MetadataImage
from log_service.protocol.schema import Message

READ, WRITE, CREATE, DELETE, ALTER = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)
DESCRIBE, CLUSTER_ACTION = AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The input of a gate: a request, its API and version, and the permissions of its client."""

    api: Api
    version: int
    request: Any
    response_type: type[Message]
    access: Access
    image: MetadataImage
    config: NodeConfig

    @property
    def items(self) -> Sequence[Any]:
        """The items of the request, for an API that responds to its items one by one."""
        items: Sequence[Any] = getattr(self.request, self.api.items.request_field)
        return items

    def refused(self, error: KafkaError, request: Any = None) -> Any:
        """Return the API's error response, with the error in every field that can hold one.

        ``request`` stands in for the question's request, if it is given. It may be a part of that.
        """
        return self.api.echo(self if request is None else replace(self, request=request), error)


def by_permissions(question: Question) -> None:
    """Check that the client has one of the API's permissions.

    Those on the cluster are checked if the API has any, else the one on the request's group.
    """
    permissions = question.api.permissions
    operations = [wanted.operation for wanted in permissions if wanted.resource is CLUSTER]
    if operations:
        require_on_cluster(question.access, *operations)
    else:
        question.access.require(permissions[0].operation, GROUP, question.request.group_id)


def require_on_cluster(access: Access, *operations: AclOperation) -> None:
    """Refuse the whole request, unless one of the operations on the cluster is allowed.

    Raises:
        KafkaError: CLUSTER_AUTHORIZATION_FAILED.
    """
    *others, last = operations
    if not (
        any(access.could_cluster(operation) for operation in others) or access.may_cluster(last)
    ):
        raise refusal(last, CLUSTER)


def on_topics(
    operation: AclOperation, *, name_of: Callable[[Any], str] = attrgetter("name")
) -> Gate:
    """Return the gate of an API that responds topic by topic."""

    def gate(question: Question) -> Admission | None:
        allowed = question.access.allowed(operation, TOPIC, map(name_of, question.items))
        return admit_part(
            question, lambda item: name_of(item) in allowed, refusal(operation, TOPIC)
        )

    return gate


def on_plain_names(operation: AclOperation, resource: AclResource) -> Gate:
    """Return the gate of an API whose requests list names. Its response has an item for each."""

    def gate(question: Question) -> Admission | None:
        allowed = question.access.allowed(operation, resource, dict.fromkeys(question.items))
        return admit_part(question, lambda name: name in allowed, refusal(operation, resource))

    return gate


def admit_part(
    question: Question, is_allowed: Callable[[Any], bool], error: KafkaError
) -> Admission | None:
    """Admit the allowed items of a request.

    The others get the error, and their results come after those of the handler. If no item is
    allowed, the handler is not called.
    """
    items, lists = question.items, question.api.items
    allowed = [item for item in items if is_allowed(item)]
    if len(allowed) == len(items):
        return None
    denied = replace(
        question.request, **{lists.request_field: [item for item in items if not is_allowed(item)]}
    )
    refused = question.refused(error, denied)
    if not allowed:
        return Admission(request=question.request, response=refused)

    def amend(response: Any) -> Any:
        getattr(response, lists.response_field).extend(getattr(refused, lists.response_field))
        return response

    return Admission(
        request=replace(question.request, **{lists.request_field: allowed}), amend=amend
    )


def amended(
    question: Question, admission: Admission | None, amend: Callable[[Any], Any]
) -> Admission:
    """Return an admission that has ``amend`` change the response before refusals are added."""
    if admission is None:
        return Admission(request=question.request, amend=amend)
    later = admission.amend
    return replace(
        admission, amend=amend if later is None else lambda response: later(amend(response))
    )


def amended_in_steps(
    question: Question, admission: Admission | None, amend: Callable[[Any], Steps[Any]]
) -> Admission:
    """Return an admission as ``amended`` does, with an ``amend`` that works in steps.

    It is for responses that may be large.
    """
    later = None if admission is None else admission.amend

    def in_steps(response: Any) -> Steps[Any]:
        response = yield from amend(response)
        return response if later is None else later(response)

    return Admission(
        request=question.request if admission is None else admission.request,
        amend=lambda response: finish(in_steps(response)),
        amend_in_steps=in_steps,
    )


def keep(items: list[Any], is_kept: Callable[[Any], bool]) -> list[Any]:
    """Return the items of a response that its client may see."""
    return [item for item in items if is_kept(item)]


def topic_name(image: MetadataImage, topic_id: Any) -> str | None:
    """Return the name of a topic by its id, or None if there is no such topic."""
    topic = image.topics.by_id.get(TopicId(topic_id))
    return None if topic is None else topic.name


def names_of_topics(
    image: MetadataImage, items: Sequence[Any], *, is_by_id: bool
) -> Iterable[str | None]:
    """Return the name of each topic in a request, by ``name`` or by ``topic_id``.

    The name of an unknown id is None.
    """
    return (topic_name(image, item.topic_id) if is_by_id else item.name for item in items)


def on_named_topics(
    question: Question, operation: AclOperation, *, first_version_by_id: int
) -> Admission | None:
    """Admit the topics of a request that the operation is allowed on, and refuse the others.

    An unknown id is admitted, because the handler responds that it is unknown.
    """
    items = question.items
    names = list(
        names_of_topics(question.image, items, is_by_id=question.version >= first_version_by_id)
    )
    allowed = question.access.allowed(
        operation, TOPIC, (name for name in names if name is not None)
    )
    denied = {
        id(item)
        for item, name in zip(items, names, strict=True)
        if name is not None and name not in allowed
    }
    return admit_part(question, lambda item: id(item) not in denied, refusal(operation, TOPIC))
