"""Chooses the version of a request: the highest that both sides speak.

The versions and features of the peer are in its ApiVersions response. Ours are in
``protocol.api_versions``. APIs that only tidelog has are not listed there, so a feature shows
whether the peer has such an API. Knows no connections.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.api_versions import ApiKey, spec_of
from log_service.protocol.messages.api_versions import ApiVersionsResponse

MAINTENANCE_FEATURE = "tidelog.maintenance"
SHARE_RECORDS_FEATURE = "tidelog.share.records"
OWN_FEATURES: Mapping[int, str] = MappingProxyType(
    {
        ApiKey.TIDELOG_MAINTENANCE: MAINTENANCE_FEATURE,
        ApiKey.TIDELOG_SHARE_RECORDS: SHARE_RECORDS_FEATURE,
    }
)
"""The feature by which brokers report that they support a request of tidelog's own.

Its level is the version plus one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenVersions:
    """The versions that a peer speaks, as (lowest, highest) by API key, and its features.

    ``levels`` are the features' levels in the peer's cluster at the time when the connection was
    opened.
    """

    ranges: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]
    levels: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, response: ApiVersionsResponse) -> "SpokenVersions":
        """Read an ApiVersions response."""
        return cls(
            ranges=MappingProxyType(
                {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            ),
            features=MappingProxyType(
                {feature.name: feature.max_version for feature in response.supported_features}
            ),
            levels=MappingProxyType(
                {feature.name: feature.max_version_level for feature in response.finalized_features}
            ),
        )

    def choose(self, key: int, max_version: int | None = None) -> int:
        """Return the highest version that both sides speak, no higher than ``max_version``.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, there is none.
        """
        ours = spec_of(key)
        if ours.advertised_min_version is None:
            level = self.features.get(OWN_FEATURES[key], 0)
            if level:
                return min(ours.max_version, level - 1)
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker is not tidelog: it has no {ours.name} request",
            )
        first, last = self.ranges.get(key, (0, -1))
        version = min(
            last, ours.max_version, ours.max_version if max_version is None else max_version
        )
        if version < max(first, ours.min_version):
            if (
                key == ApiKey.METADATA
                and ApiKey.METADATA not in self.ranges
                and ApiKey.VOTE in self.ranges
            ):
                text = (
                    "this is a controller's listener, which serves no clients: name the address of"
                    " a broker's listener"
                )
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
            theirs = f"{first}-{last}" if last >= 0 else "none"
            text = (
                f"no common version of {ours.name}: the broker speaks {theirs}, this client"
                f" {ours.min_version}-{ours.max_version}"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return version


BEFORE_NEGOTIATION = SpokenVersions(
    ranges=MappingProxyType({ApiKey.API_VERSIONS: (0, 3)}), features=MappingProxyType({})
)
"""The requests that may be sent before the peer has reported its versions."""
