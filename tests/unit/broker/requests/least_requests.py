"""The least request of every API, in every version."""

from typing import Any

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.protocol.api_versions import ApiKey, request_class
from log_service.protocol.messages.describe_acls import DescribeAclsRequest
from log_service.protocol.messages.produce import ProduceRequest


def versions_of(side: Side) -> list[tuple[ApiKey, int]]:
    """Every API that listeners of that side take, in each of its versions."""
    specs = [api.spec for api in REGISTRY.values() if side in api.sides]
    return [
        (spec.key, version)
        for spec in specs
        for version in range(spec.min_version, spec.max_version + 1)
    ]


VERSIONS = versions_of(Side.BROKER)


def least_request(key: ApiKey) -> Any:
    """Return a request in which a client fills in nothing."""
    if key is ApiKey.DESCRIBE_ACLS:
        return DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    return ProduceRequest(acks=-1) if key is ApiKey.PRODUCE else request_class(key)()
