"""Objectives of lag: every record of a topic is in its table within so many seconds. An asset check per table, which the watchdog
evaluates.

Decides exactly and cheaply: the log says which offset was the first one so many seconds ago, and whatever lies below it must be committed.
A verdict is told when it changes. A run of the check by hand gives the verdict of that moment.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import dagster as dg

from orchestration.lag import TopicLag, measure_lag
from orchestration.log_client import LogClient
from orchestration.resources.lake import LakeResource
from orchestration.resources.log_service import LogServiceResource
from orchestration.transforms import TopicFeed, topic_feeds

CHECK_NAME = "keeps_up"
OBJECTIVE_METADATA = "tidelog/within_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a table keeps up. ``late`` counts offsets that are older than the objective and not committed."""

    late: int
    lag: int
    within_s: int

    @property
    def is_kept(self) -> bool:
        """Whether no record is late."""
        return self.late == 0

    @property
    def text(self) -> str:
        """The verdict in one word, for remembering what was told."""
        return "kept" if self.is_kept else "missed"

    def metadata(self) -> dict[str, int]:
        """Numbers for the UI."""
        return {"late_records": self.late, "lag": self.lag, "within_seconds": self.within_s}


def decide_keeps_up(lag: TopicLag, first_young: Mapping[int, int | None], within_s: int) -> Verdict:
    """Return the verdict on a table. ``first_young`` holds, by partition, the first offset that is young enough to wait; None: no record
    is.
    """
    late = 0
    for one in lag.partitions:
        young = first_young.get(one.partition)
        boundary = one.high_watermark if young is None else min(young, one.high_watermark)
        late += max(boundary - one.committed_offset, 0)
    return Verdict(late=late, lag=lag.lag, within_s=within_s)


def lag_objective(table: dg.AssetsDefinition, *, within_s: int) -> dg.AssetChecksDefinition:
    """Return the check that every record of the table's topic is in the table within ``within_s`` seconds.

    :raises ValueError: the table does not follow a topic.
    """
    feeds = topic_feeds([table])
    if len(feeds) != 1:
        raise ValueError(f"{table.key.to_user_string()} follows no topic: only tables from topics have a lag")
    feed = feeds[0]

    @dg.asset_check(
        asset=feed.asset_key,
        name=CHECK_NAME,
        description=f"Every record of the topic {' and '.join(feed.topics)} is in the table within {within_s} s",
        metadata={OBJECTIVE_METADATA: within_s},
    )
    def keeps_up(log_service: LogServiceResource, lake: LakeResource) -> dg.AssetCheckResult:
        with log_service.open() as log:
            lag = measure_lag(log, lake.open(), topic=feed.topic, table=feed.table, also=feed.also)
            if lag is None:
                return dg.AssetCheckResult(
                    passed=False, description=f"there is no topic {' or '.join(feed.topics)}", severity=dg.AssetCheckSeverity.WARN
                )
            verdict = judge(log, lag, within_s, int(time.time() * 1000))
        return dg.AssetCheckResult(passed=verdict.is_kept, metadata=verdict.metadata(), severity=dg.AssetCheckSeverity.WARN)

    return keeps_up


def objectives(checks: Iterable[dg.AssetChecksDefinition | dg.AssetsDefinition]) -> dict[dg.AssetKey, int]:
    """Return the objectives among ``checks``: seconds by the table's asset key."""
    found = {}
    for definition in checks:
        for spec in definition.check_specs:
            within_s = (spec.metadata or {}).get(OBJECTIVE_METADATA)
            if spec.name == CHECK_NAME and within_s is not None:
                found[spec.asset_key] = int(getattr(within_s, "value", within_s))
    return found


def judge(log: LogClient, lag: TopicLag, within_s: int, now: int) -> Verdict:
    """Ask the log what is old and return the verdict; ``now`` is in milliseconds. Without lag there is nothing to ask."""
    verdicts = []
    for one in (replace(of, others=()) for of in lag.each):
        young = log.offsets_at(one.topic, now - within_s * 1000) if one.lag else {}
        verdicts.append(decide_keeps_up(one, young, within_s))
    return Verdict(late=sum(one.late for one in verdicts), lag=lag.lag, within_s=within_s)


def verdict_event(feed: TopicFeed, verdict: Verdict) -> dg.AssetCheckEvaluation:
    """Return the event that tells of a verdict without a run."""
    return dg.AssetCheckEvaluation(
        asset_key=feed.asset_key,
        check_name=CHECK_NAME,
        passed=verdict.is_kept,
        metadata=verdict.metadata(),
        severity=dg.AssetCheckSeverity.WARN,
    )
