"""Tells when the asset of a failed run is tried again, by the sensor that starts it.

The sensors of topics and of sources pause longer after each failure. Tables from tables, marts and
copies in SQL databases are tried again at full minutes (``on_fresh_inputs``). For other assets this
is unknown, because a person, a schedule or a sensor of the project starts them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

import dagster as dg

from orchestration.marts.mart import BUILT_ANEW
from orchestration.sensing.past_runs import past_runs, retry_text
from orchestration.sensing.sources import SOURCE_TAG
from orchestration.sensing.topic_sensor import TABLE_TAG, interval_of
from orchestration.settings import load_settings
from orchestration.sources.assets import SourceFeed, source_feeds
from orchestration.transforms.dagster_views.failures import FAILED_AGAIN_MINUTES
from orchestration.transforms.kinds import TopicFeed, topic_feeds

STARTED_BY_OTHERS = "tried again when a person or a schedule starts it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The assets of a project, grouped by the sensor that starts their runs."""

    feeds: Mapping[dg.AssetKey, TopicFeed] = field(default_factory=dict)
    sources: Mapping[dg.AssetKey, SourceFeed] = field(default_factory=dict)
    is_automated: Mapping[dg.AssetKey, bool] = field(default_factory=dict)
    """Whether a table from tables, a mart or a copy is started when its inputs change."""

    def reported(self, key: dg.AssetKey, instance: dg.DagsterInstance, now_s: float) -> str:
        """Return when an asset whose last run failed is tried again, as a part of a sentence.

        It is empty if that is not known. If no sensor starts the asset, the text says so.
        """
        if feed := self.feeds.get(key):
            interval_s = interval_of(feed, load_settings().minimum_interval_s)
            return retry_text(past_runs(instance, TABLE_TAG, feed.table).due_s(interval_s), now_s)
        if source := self.sources.get(key):
            return retry_text(
                past_runs(instance, SOURCE_TAG, source.source).due_s(source.every_s), now_s
            )
        if key not in self.is_automated:
            return ""
        pause_s = FAILED_AGAIN_MINUTES * 60
        return (
            retry_text(ceil(now_s / pause_s) * pause_s, now_s)
            if self.is_automated[key]
            else STARTED_BY_OTHERS
        )


def retries_of(assets: Iterable[dg.AssetsDefinition]) -> Retries:
    """Return which sensors try ``assets`` again."""
    found = tuple(assets)
    feeds = {feed.asset_key: feed for feed in topic_feeds(found)}
    conditions = {
        key: asset.automation_conditions_by_key.get(key) for asset in found for key in asset.keys
    }
    return Retries(
        feeds=feeds,
        sources={feed.asset_key: feed for feed in source_feeds(found)},
        is_automated={
            key: one is not None
            for key, one in conditions.items()
            if key.path[0] in BUILT_ANEW and key not in feeds
        },
    )


NO_RETRIES = Retries()
