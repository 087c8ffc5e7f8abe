"""What gates are made of: the question that a request is, what a gate may say to it, and the shapes that most gates have.

Decides how a part of a request is let through: the handler gets the request without what is denied, and what is denied is added to its
response. So a handler never sees a name that its client must not use.

Invariants: a gate changes no request, because the same one may be sent again; a response says as much of what is denied whether it exists
or not.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from log_service.broker.authorization.access import CLUSTER, GROUP, TOPIC, Access, refusal
from log_service.broker.call import Api
from log_service.common.access import AclOperation, AclResource, Admission
from log_service.common.errors import KafkaError
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
    """A request that a gate looks at: of which API, in which version, and what its client may do."""

    api: Api
    version: int
    request: Any
    response_type: type[Message]
    access: Access
    image: MetadataImage
    config: NodeConfig

    def refused(self, error: KafkaError, request: Any = None) -> Any:
        """Return the response that tells an error throughout; of ``request`` where it is a part of the question's."""
        return self.api.echo(self if request is None else replace(self, request=request), error)


Gate = Callable[[Question], Admission | None]
"""Looks at a request. None lets it through as it is. Raises KafkaError: the request is refused as a whole, with this code."""


def no_gate(question: Question) -> None:
    """Let everything through: everyone may ask, or the handler decides."""


def on_cluster(*operations: AclOperation) -> Gate:
    """Return the gate of an API that needs one of the operations on the cluster."""
    *others, last = operations

    def gate(question: Question) -> None:
        access = question.access
        if not (any(access.could_cluster(operation) for operation in others) or access.may_cluster(last)):
            raise refusal(last, CLUSTER)

    return gate


def on_group(operation: AclOperation) -> Gate:
    """Return the gate of an API whose requests are about one group."""

    def gate(question: Question) -> None:
        question.access.require(operation, GROUP, question.request.group_id)

    return gate


def on_topics(operation: AclOperation, *, asked: str = "topics", told: str = "topics", name_of: Callable[[Any], str] | None = None) -> Gate:
    """Return the gate of an API that responds topic by topic; ``asked`` and ``told`` are the lists of its request and its response."""
    named = name_of or _name

    def gate(question: Question) -> Admission | None:
        items = getattr(question.request, asked)
        allowed = question.access.allowed(operation, TOPIC, map(named, items))
        return admit_part(question, asked, told, lambda item: named(item) in allowed, refusal(operation, TOPIC))

    return gate


def on_plain_names(operation: AclOperation, resource: AclResource, *, asked: str, told: str) -> Gate:
    """Return the gate of an API whose requests list names, of which each has an item of the response."""

    def gate(question: Question) -> Admission | None:
        allowed = question.access.allowed(operation, resource, dict.fromkeys(getattr(question.request, asked)))
        return admit_part(question, asked, told, lambda name: name in allowed, refusal(operation, resource))

    return gate


def _name(item: Any) -> str:
    name: str = item.name
    return name


def admit_part(question: Question, asked: str, told: str, is_allowed: Callable[[Any], bool], error: KafkaError) -> Admission | None:
    """Let through the items of a list that are allowed. The others are told the error, behind what the handler says of the rest.

    ``asked`` is the list of the request, ``told`` that of the response. Where nothing is allowed, the handler is not asked.
    """
    items = getattr(question.request, asked)
    allowed = [item for item in items if is_allowed(item)]
    if len(allowed) == len(items):
        return None
    denied = replace(question.request, **{asked: [item for item in items if not is_allowed(item)]})
    refused = question.refused(error, denied)
    if not allowed:
        return Admission(request=question.request, response=refused)

    def amend(response: Any) -> Any:
        getattr(response, told).extend(getattr(refused, told))
        return response

    return Admission(request=replace(question.request, **{asked: allowed}), amend=amend)


def amended(question: Question, admission: Admission | None, amend: Callable[[Any], Any]) -> Admission:
    """Return an admission whose response is also amended by ``amend``, before what was refused is added."""
    if admission is None:
        return Admission(request=question.request, amend=amend)
    later = admission.amend
    return replace(admission, amend=amend if later is None else lambda response: later(amend(response)))


def keep(items: list[Any], is_kept: Callable[[Any], bool]) -> list[Any]:
    """Return the items of a response that its client may see."""
    return [item for item in items if is_kept(item)]


def topic_name(image: MetadataImage, topic_id: Any) -> str | None:
    """Return the name of a topic by its id, None where there is none."""
    topic = image.topics.by_id.get(TopicId(topic_id))
    return None if topic is None else topic.name


def names_of_topics(image: MetadataImage, items: Sequence[Any], *, is_by_id: bool) -> Iterable[str | None]:
    """Return the name of each topic that a request names by ``name``, or by ``topic_id``; None where an id is of no topic."""
    return (topic_name(image, item.topic_id) if is_by_id else item.name for item in items)


def on_named_topics(question: Question, operation: AclOperation, *, asked: str, told: str, first_version_by_id: int) -> Admission | None:
    """Let through the topics that are allowed. An id of no topic is let through: the handler says that it is of none."""
    items = getattr(question.request, asked)
    names = list(names_of_topics(question.image, items, is_by_id=question.version >= first_version_by_id))
    allowed = question.access.allowed(operation, TOPIC, (name for name in names if name is not None))
    denied = {id(item) for item, name in zip(items, names, strict=True) if name is not None and name not in allowed}
    return admit_part(question, asked, told, lambda item: id(item) not in denied, refusal(operation, TOPIC))
