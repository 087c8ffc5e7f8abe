"""The settings of a share group's records: its own, or the broker's defaults.

A group's setting was checked against the broker's limits when it was made. The limits may change
later, so a value is clamped when it is read. A change applies from the next request on.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from log_service.config.resource_keys import DEAD_LETTER_TOPIC
from log_service.config.views import ShareFetchConfig
from log_service.coordinator.share.acquiring import ShareSettings
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.replication.partition_state import Isolation

_DURATION = re.compile(r"by_duration:p(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?)?")


class OffsetReset(Enum):
    """The start of a group in a partition without stored state."""

    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShareSettings:
    """The settings of one group.

    ``reset_duration_ms`` is how far ``BY_DURATION`` looks back. An empty ``dead_letter_topic``
    means that there is none.
    """

    records: ShareSettings
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    reset: OffsetReset = OffsetReset.LATEST
    reset_duration_ms: int = 0
    dead_letter_topic: str = ""


class ShareGroupSettings:
    """The settings of all share groups. ``image`` returns the newest metadata."""

    def __init__(self, config: ShareFetchConfig, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image
        self._default = self._settings({})

    def of(self, group_id: str) -> GroupShareSettings:
        """Return the present settings of a group."""
        own = self._image().configs.of(ResourceType.GROUP, group_id)
        return self._settings(own) if own else self._default

    def _settings(self, own: Mapping[str, str]) -> GroupShareSettings:
        config = self._config

        def clamped(name: str, default: int, least: int, most: int) -> int:
            return min(max(int(own.get(name, default)), least), most)

        reset, reset_duration_ms = reset_of(
            own.get("share.auto.offset.reset", OffsetReset.LATEST.value)
        )
        dead_letter_topic = own.get(DEAD_LETTER_TOPIC, "")
        records = ShareSettings(
            delivery_count_limit=clamped(
                "share.delivery.count.limit",
                config.delivery_count_limit,
                config.min_delivery_count_limit,
                config.max_delivery_count_limit,
            ),
            max_record_locks=clamped(
                "share.partition.max.record.locks",
                config.max_record_locks,
                config.min_max_record_locks,
                config.max_max_record_locks,
            ),
            record_lock_duration_ms=clamped(
                "share.record.lock.duration.ms",
                config.record_lock_duration_ms,
                config.min_record_lock_duration_ms,
                config.max_record_lock_duration_ms,
            ),
            is_renew_enabled=own.get("share.renew.acknowledge.enable", "true").lower() == "true",
            has_dead_letters=bool(dead_letter_topic),
        )
        is_committed = (
            own.get("share.isolation.level", "read_uncommitted").lower() == "read_committed"
        )
        return GroupShareSettings(
            records=records,
            isolation=Isolation.READ_COMMITTED if is_committed else Isolation.READ_UNCOMMITTED,
            reset=reset,
            reset_duration_ms=reset_duration_ms,
            dead_letter_topic=dead_letter_topic,
        )


def reset_of(text: str) -> tuple[OffsetReset, int]:
    """Return the policy and the duration in ms of a valid ``share.auto.offset.reset``."""
    lower = text.lower()
    found = _DURATION.fullmatch(lower)
    if found is None:
        return OffsetReset(lower), 0
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return OffsetReset.BY_DURATION, int(
        (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000
    )
