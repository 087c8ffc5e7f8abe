"""Gates of CreateTopics, DeleteTopics, CreatePartitions and maintenance, on the controller.

They check the permissions of the client that sent the request. Without DESCRIBE, a response does
not show whether a topic to delete exists. Without DESCRIBE_CONFIGS, the response to CreateTopics
shows nothing of the topic's configuration.
"""

from dataclasses import replace
from typing import Any

from log_service.broker.authorization.access import CLUSTER, TOPIC, refusal
from log_service.broker.authorization.gate_shapes import (
    ALTER,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    Question,
    admit_part,
    amended,
    topic_name,
)
from log_service.broker.cluster_view import is_internal
from log_service.common.access import Admission
from log_service.common.errors import ErrorCode
from log_service.common.repeated import repeated
from log_service.common.types import CLUSTER_METADATA_TOPIC, NO_TOPIC_ID
from log_service.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

UNKNOWN = -1
FIRST_CREATE_VERSION_WITH_CONFIGS = 5
FIRST_DELETE_VERSION_BY_ID = 6


def create_topics(question: Question) -> Admission | None:
    """Check CREATE on the cluster, or else on each topic.

    The handler refuses names that are given twice.
    """
    access, topics = question.access, question.request.topics
    names = [topic.name for topic in topics]
    wrong = {*repeated(names), CLUSTER_METADATA_TOPIC}
    asked = [name for name in names if name not in wrong]
    admission = None
    if not access.could_cluster(CREATE):
        allowed = access.allowed(CREATE, TOPIC, asked) | wrong
        admission = admit_part(
            question, lambda topic: topic.name in allowed, refusal(CREATE, TOPIC)
        )
    if question.version < FIRST_CREATE_VERSION_WITH_CONFIGS or (
        admission is not None and admission.response is not None
    ):
        return admission
    shown = access.visible(DESCRIBE_CONFIGS, TOPIC, asked)
    return amended(question, admission, lambda response: _without_configs(response, shown))


def _without_configs(response: Any, shown: set[str]) -> Any:
    for topic in response.topics:
        if not topic.error_code and topic.name not in shown:
            topic.num_partitions = topic.replication_factor = UNKNOWN
            topic.configs = []
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return response


def maintenance(question: Question) -> None:
    """Check ALTER or CLUSTER_ACTION on the cluster, or else ALTER on each topic.

    The request is refused or admitted as a whole. A request without topics is about all topics that
    are not internal.
    """
    access, asked = question.access, question.request.topics
    if access.could_cluster(ALTER) or access.could_cluster(CLUSTER_ACTION):
        return
    names = (
        {name for name in question.image.topics.by_name if not is_internal(name)}
        if asked is None
        else set(asked)
    )
    if access.allowed(ALTER, TOPIC, names) != names or not names:
        raise refusal(ALTER, CLUSTER)


def create_partitions(question: Question) -> Admission | None:
    """Check ALTER on each topic. The handler refuses names that are given twice."""
    names = [topic.name for topic in question.request.topics]
    twice = set(repeated(names))
    allowed = (
        question.access.allowed(ALTER, TOPIC, (name for name in names if name not in twice)) | twice
    )
    return admit_part(question, lambda topic: topic.name in allowed, refusal(ALTER, TOPIC))


# Deleting


def delete_topics(question: Question) -> Admission | None:
    """Check DELETE on the cluster, or else on each topic.

    A name needs DESCRIBE too. Without it the name is refused, whether there is such a topic or not.
    The id of a topic that must not be seen is refused without its name. The handler refuses unknown
    ids, and topics named twice or not at all.
    """
    access = question.access
    if access.could_cluster(DELETE):
        return None
    named = [(state, _name_to_ask_for(question, state)) for state in _states(question)]
    twice = set(repeated([name for _, name in named if name is not None]))
    asked = [name for _, name in named if name is not None and name not in twice]
    seen, deletable = access.allowed(DESCRIBE, TOPIC, asked), access.allowed(DELETE, TOPIC, asked)
    refused = {
        id(state): _refused(state, name, is_seen=name in seen)
        for state, name in named
        if name is not None
        and name not in twice
        and not _may_delete(question, state, name, seen, deletable)
    }
    if not refused:
        return None
    kept = [state for state, _ in named if id(state) not in refused]
    return _admitted(question, kept, list(refused.values()))


def _states(question: Question) -> list[DeleteTopicState]:
    """Return the topics to delete in a request of any version, as states of the later versions."""
    request: DeleteTopicsRequest = question.request
    return (
        request.topics
        if question.version >= FIRST_DELETE_VERSION_BY_ID
        else [DeleteTopicState(name=name) for name in request.topic_names]
    )


def _name_to_ask_for(question: Question, state: DeleteTopicState) -> str | None:
    """Return the name of a topic to delete, by which its permissions are checked.

    Return None if the handler refuses it anyway, because its id is unknown, or it
    has both a name and an id, or neither.
    """
    if state.topic_id == NO_TOPIC_ID:
        return state.name
    return topic_name(question.image, state.topic_id) if state.name is None else None


def _may_delete(
    question: Question, state: DeleteTopicState, name: str, seen: set[str], deletable: set[str]
) -> bool:
    if state.name is None:
        return name in deletable
    return name in seen and (name in deletable or name not in question.image.topics.by_name)


def _refused(state: DeleteTopicState, name: str, *, is_seen: bool) -> DeletableTopicResult:
    error = refusal(DELETE, TOPIC)
    shown_name = name if is_seen or state.name is not None else None
    return DeletableTopicResult(
        name=shown_name, topic_id=state.topic_id, error_code=error.code, error_message=str(error)
    )


def _admitted(
    question: Question, kept: list[DeleteTopicState], refused: list[DeletableTopicResult]
) -> Admission:
    request = question.request
    if not kept:
        return Admission(request=request, response=DeleteTopicsResponse(responses=refused))

    def amend(response: Any) -> Any:
        response.responses.extend(refused)
        return response

    if question.version >= FIRST_DELETE_VERSION_BY_ID:
        return Admission(request=replace(request, topics=kept), amend=amend)
    return Admission(
        request=replace(request, topic_names=[state.name for state in kept]), amend=amend
    )
