"""Lag objectives: asset checks that every record reaches its table within a number of seconds.

A verdict is the result of such a check: kept or missed. The watchdog evaluates the checks, and
reports a verdict that changed. Each commit of the table is followed by a verdict as well, because
Dagster treats a check that is older than the newest materialization as not evaluated. A manual run
of the check reports the verdict of that moment.
"""

import time
from collections.abc import Iterable

import dagster as dg

from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.retained.lag import measure_lag
from orchestration.retained.lag_objective import (
    CHECK_NAME,
    LagVerdict,
    declare_objective,
    evaluation,
    lag_verdict,
)
from orchestration.transforms import TopicFeed, topic_feeds

OBJECTIVE_METADATA = "tidelog/within_s"


def lag_objective(table: dg.AssetsDefinition, *, within_s: int) -> dg.AssetChecksDefinition:
    """Return the check that each record of the topic is in the table within ``within_s`` seconds.

    :raises ValueError: the table does not follow a topic.
    """
    feeds = topic_feeds([table])
    if len(feeds) != 1:
        raise ValueError(
            f"{table.key.to_user_string()} follows no topic: only tables from topics have a lag"
        )
    feed = feeds[0]
    declare_objective(feed.asset_key, within_s)

    @dg.asset_check(
        asset=feed.asset_key,
        name=CHECK_NAME,
        description=(
            f"Every record of the topic {' and '.join(feed.topics)} is in the table within"
            f" {within_s} s"
        ),
        metadata={OBJECTIVE_METADATA: within_s},
    )
    def keeps_up(log_service: LogServiceResource, lake: LakeResource) -> dg.AssetCheckResult:
        with log_service.open() as log:
            lag = measure_lag(log, lake.open(), topic=feed.topic, table=feed.table, also=feed.also)
            if lag is None:
                return dg.AssetCheckResult(
                    passed=False,
                    description=f"there is no topic {' or '.join(feed.topics)}",
                    severity=dg.AssetCheckSeverity.WARN,
                )
            verdict = lag_verdict(log, lag, within_s, int(time.time() * 1000))
        return dg.AssetCheckResult(
            passed=verdict.is_kept, metadata=verdict.metadata(), severity=dg.AssetCheckSeverity.WARN
        )

    return keeps_up


def objectives(
    checks: Iterable[dg.AssetChecksDefinition | dg.AssetsDefinition],
) -> dict[dg.AssetKey, int]:
    """Return the objectives among ``checks``: seconds by the table's asset key."""
    found = {}
    for definition in checks:
        for spec in definition.check_specs:
            within_s = (spec.metadata or {}).get(OBJECTIVE_METADATA)
            if spec.name == CHECK_NAME and within_s is not None:
                found[spec.asset_key] = int(getattr(within_s, "value", within_s))
    return found


def verdict_event(feed: TopicFeed, verdict: LagVerdict) -> dg.AssetCheckEvaluation:
    """Return the event that reports a verdict without a run."""
    return evaluation(feed.asset_key, verdict)
