"""ApiVersions (API key 18), versions 0-4.

Behaviour: tells every API of the listener with its versions, the features that this broker knows and those that the cluster has finalized.
A version that we do not know is answered in version 0 with UNSUPPORTED_VERSION and our own range, so that the client can step down; the
response header is always version 0 (KIP-511). A client that names itself in a way that KIP-511 does not allow gets INVALID_REQUEST.

An API whose requests are passed on to the active controller on another node is told in the versions that both speak. The APIs by which
clients push metrics are told only where there is a page to read them on: every client that knows of them begins to ask (KIP-714).

Versions: 1 throttle time; 3 flexible, the client's name and version, features (KIP-511, KIP-584); 4 features whose lowest level is 0
(KIP-1022: older clients would fail on them, so that they are told only from here on).
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from log_service.broker.call import Call, Side
from log_service.broker.node import Node
from log_service.broker.registry import REGISTRY
from log_service.common.errors import ErrorCode
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.protocol.api_versions import FORWARDABLE, KNOWN, ApiKey, ApiSpec
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

OWN_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType({"tidelog.maintenance": (1, 2)})
"""By these our own clients know that they talk to this software; other clients pass over names that they do not know."""

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle_api_versions(node: Node, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell what we serve."""
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
    """Return what this software answers on the listeners of a side: always the same, so that it is put together once."""
    specs = (KNOWN[key] for key, api in REGISTRY.items() if side in api.sides and (has_telemetry or key not in TELEMETRY))
    return [_told(spec) for spec in specs if spec.advertised_min_version is not None]


def _passed_on(served: list[ApiVersion], spoken: "SpokenVersions") -> list[ApiVersion]:
    """Return what a broker answers; of an API that it passes on to another node, only the versions that this one speaks, too."""
    ranges = (_spoken_by_both(told, spoken) if told.api_key in FORWARDABLE else told for told in served)
    return [told for told in ranges if told.min_version <= told.max_version]


def _spoken_by_both(told: ApiVersion, spoken: "SpokenVersions") -> ApiVersion:
    lowest, highest = spoken.ranges.get(ApiKey(told.api_key), (0, -1))
    return ApiVersion(api_key=told.api_key, min_version=max(told.min_version, lowest), max_version=min(told.max_version, highest))


@cache
def _supported(*, has_level_zero: bool) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted({**SUPPORTED_FEATURES, **OWN_FEATURES}.items())
        if lowest > 0 or has_level_zero
    ]


def unsupported_version_response() -> ApiVersionsResponse:
    """Return what an ApiVersions request in an unknown version is answered with, in version 0."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_told(KNOWN[ApiKey.API_VERSIONS])])


def _told(spec: ApiSpec) -> ApiVersion:
    lowest = spec.min_version if spec.advertised_min_version is None else spec.advertised_min_version
    return ApiVersion(api_key=spec.key, min_version=lowest, max_version=spec.max_version)
