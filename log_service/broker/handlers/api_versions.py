"""ApiVersions (API key 18), versions 0-4.

Behaviour: responds with every API of the listener and its versions, the features that this broker
supports and those that the cluster has finalized. A request in an unknown version is answered in
version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions here, so the client can step
down. The response header is always version 0 (KIP-511). A client name or version that KIP-511 does
not allow gets INVALID_REQUEST.

An API that is forwarded to an active controller on another node is listed with the versions that
both nodes speak. The APIs by which clients push metrics are listed only if there is a metrics page,
because every client that knows of them begins to ask (KIP-714).

Versions: 1 throttle time; 3 flexible, the client's name and version, features (KIP-511, KIP-584); 4
features whose lowest level is 0 (KIP-1022). Older clients would fail on such features, so they are
listed only from version 4 on.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from log_service.broker.node import Node
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Call, Side
from log_service.common.errors import ErrorCode
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.protocol.api_versions import KNOWN, ApiKey, ApiSpec
from log_service.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from log_service.rpc.versions import SpokenVersions

TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
FIRST_VERSION_WITH_CLIENT = 3
FIRST_VERSION_WITH_LEVEL_ZERO = 4

OWN_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"tidelog.maintenance": (1, 2), "tidelog.share.records": (1, 1)}
)
"""Features by which tidelog's own clients recognize this software.

Other clients ignore unknown feature names.
"""

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle_api_versions(node: Node, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Respond with the APIs and features of this listener."""
    if call.version >= FIRST_VERSION_WITH_CLIENT:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE_NAME.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        call.connection.client_software = names
    features, side = node.image().features, call.route.side
    spoken = node.controller.spoken_versions() if side is Side.BROKER else None
    served = _served(side, has_telemetry=side is Side.BROKER and node.telemetry.is_shown)
    return ApiVersionsResponse(
        api_keys=served if spoken is None else _passed_on(served, spoken),
        supported_features=_supported(has_level_zero=call.version >= FIRST_VERSION_WITH_LEVEL_ZERO),
        finalized_features_epoch=node.image().offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(features.items())
            if level > 0
        ],
    )


@cache
def _served(side: Side, *, has_telemetry: bool) -> list[ApiVersion]:
    """Return the APIs on the listeners of a side. Cached, because they never change."""
    specs = (
        KNOWN[key]
        for key, api in REGISTRY.items()
        if side in api.sides and (has_telemetry or key not in TELEMETRY)
    )
    return [_advertised(spec) for spec in specs if spec.advertised_min_version is not None]


def _passed_on(served: list[ApiVersion], spoken: "SpokenVersions") -> list[ApiVersion]:
    """Return the APIs of a broker's listener with their versions.

    APIs that the broker forwards have only the versions that the controller's node speaks, too.
    """
    ranges = (
        _spoken_by_both(version_range, spoken)
        if REGISTRY[ApiKey(version_range.api_key)].is_forwardable
        else version_range
        for version_range in served
    )
    return [
        version_range
        for version_range in ranges
        if version_range.min_version <= version_range.max_version
    ]


def _spoken_by_both(version_range: ApiVersion, spoken: "SpokenVersions") -> ApiVersion:
    lowest, highest = spoken.ranges.get(ApiKey(version_range.api_key), (0, -1))
    return ApiVersion(
        api_key=version_range.api_key,
        min_version=max(version_range.min_version, lowest),
        max_version=min(version_range.max_version, highest),
    )


@cache
def _supported(*, has_level_zero: bool) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted({**SUPPORTED_FEATURES, **OWN_FEATURES}.items())
        if lowest > 0 or has_level_zero
    ]


def unsupported_version_response() -> ApiVersionsResponse:
    """Return the version 0 response to an ApiVersions request in an unknown version."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_advertised(KNOWN[ApiKey.API_VERSIONS])]
    )


def _advertised(spec: ApiSpec) -> ApiVersion:
    lowest = (
        spec.min_version if spec.advertised_min_version is None else spec.advertised_min_version
    )
    return ApiVersion(api_key=spec.key, min_version=lowest, max_version=spec.max_version)
