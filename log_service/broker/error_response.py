"""The error response of an API: the same code for everything that a request asked for.

Decides how a request that failed as a whole is answered where its API has no error code at the top: every item of the request is echoed
with the code, as the API's own handler would have done it. Knows only the APIs whose handlers wait (async ones); all others answer by
themselves.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from log_service.common.errors import KafkaError
from log_service.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from log_service.protocol.messages.alter_configs import AlterConfigsResourceResponse as ReplacedConfigs
from log_service.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopicResult
from log_service.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from log_service.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from log_service.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from log_service.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic


def error_response(request: Any, response_type: type[Any], error: KafkaError) -> Any:
    """Return the response that answers ``request`` with ``error`` throughout."""
    echo = _ECHOES.get(type(request))
    if echo is not None:
        return echo(request, error)
    response = response_type()
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = str(error)
    return response


def _create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    results = [CreatableTopicResult(name=topic.name, error_code=error.code, error_message=str(error)) for topic in request.topics]
    return CreateTopicsResponse(topics=results)


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    by_state = [(topic.name, topic.topic_id) for topic in request.topics]
    results = [DeletableTopicResult(name=name, error_code=error.code, error_message=str(error)) for name in request.topic_names]
    results += [
        DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error)) for name, topic_id in by_state
    ]
    return DeleteTopicsResponse(responses=results)


def _create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    results = [CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=str(error)) for topic in request.topics]
    return CreatePartitionsResponse(results=results)


def _alter_configs(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    text = str(error)
    results = [
        ReplacedConfigs(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_code=error.code, error_message=text
        )
        for resource in request.resources
    ]
    return AlterConfigsResponse(responses=results)


def _incremental_alter_configs(request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    results = [
        AlterConfigsResourceResponse(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=error.code,
            error_message=str(error),
        )
        for resource in request.resources
    ]
    return IncrementalAlterConfigsResponse(responses=results)


def _metadata(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    topics = [MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, error_code=error.code) for topic in request.topics or ()]
    return MetadataResponse(topics=topics)


def _find_coordinator(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    text = str(error)
    coordinators = [
        Coordinator(key=key, node_id=-1, port=-1, error_code=error.code, error_message=text) for key in request.coordinator_keys
    ]
    if coordinators:
        return FindCoordinatorResponse(error_message=None, coordinators=coordinators)
    return FindCoordinatorResponse(error_code=error.code, error_message=text, node_id=-1, port=-1)


def _list_offsets(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


_ECHOES: Mapping[type[Any], Callable[[Any, KafkaError], Any]] = MappingProxyType(
    {
        CreateTopicsRequest: _create_topics,
        DeleteTopicsRequest: _delete_topics,
        CreatePartitionsRequest: _create_partitions,
        AlterConfigsRequest: _alter_configs,
        IncrementalAlterConfigsRequest: _incremental_alter_configs,
        MetadataRequest: _metadata,
        FindCoordinatorRequest: _find_coordinator,
        ListOffsetsRequest: _list_offsets,
    }
)
