"""IncrementalAlterConfigs (API key 44), versions 0-1.

Behaviour: sets, deletes, appends to and subtracts from the configuration of each resource by itself, all of a resource or nothing of it.
Topics, this broker and the default of all brokers, groups and client metrics go into the metadata and take effect at once; the levels of
this broker's loggers (type 8, KIP-412) are set here and not kept. ``validate_only`` decides and changes nothing. The answers stand in the
order of the request.

Versions: 1 flexible. KIP-339.
"""

from collections import Counter

from log_service.broker.call import Call, Deferred
from log_service.broker.handlers.broker_resource import validate_own_broker
from log_service.broker.loggers import alter_loggers
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.image import ResourceType
from log_service.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle_incremental_alter_configs(node: Node, call: Call, request: IncrementalAlterConfigsRequest) -> Deferred:
    """Set levels here, and have the controller decide on the rest."""
    return call.run(_alter(node, request))


async def _alter(node: Node, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    own = [resource for resource in request.resources if resource.resource_type == ResourceType.BROKER_LOGGER]
    rest = [resource for resource in request.resources if resource.resource_type != ResourceType.BROKER_LOGGER]
    decided = IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only)
    answers = iter((await node.controller.request(decided, IncrementalAlterConfigsResponse)).responses) if rest else iter(())
    levels = iter(
        [_alter_levels(node, each, counts[each.resource_type, each.resource_name], validate_only=request.validate_only) for each in own]
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            next(levels) if resource.resource_type == ResourceType.BROKER_LOGGER else next(answers) for resource in request.resources
        ]
    )


def _alter_levels(node: Node, resource: AlterConfigsResource, count: int, *, validate_only: bool) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        validate_own_broker(node, resource.resource_name)
        changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
        _check_repetitions(count, [name for name, _, _ in changes])
        alter_loggers(changes, validate_only=validate_only)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
    return answer


def _check_repetitions(count: int, names: list[str]) -> None:
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the loggers of this broker stand more than once in the request")
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{repeated[0]} is changed more than once")
