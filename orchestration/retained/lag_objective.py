"""Judges whether a table commits every record within the seconds of its declared objective.

The verdict is exact, and needs one look-up by time per topic. The log returns the first offset that
is younger than the objective, and every offset below it must be committed. The watchdog judges
while no run commits, and a run judges after each of its commits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import dagster as dg

from orchestration.log_client.protocol import LogClient
from orchestration.retained.lag import TopicLag

CHECK_NAME = "keeps_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagVerdict:
    """The result of the check whether a table meets its lag objective.

    ``late`` counts offsets that are older than the objective and not committed.
    """

    late: int
    lag: int
    within_s: int

    @property
    def is_kept(self) -> bool:
        """Whether no record is late."""
        return self.late == 0

    @property
    def text(self) -> str:
        """The verdict in one word, by which a later verdict is compared with it."""
        return "kept" if self.is_kept else "missed"

    def metadata(self) -> dict[str, int]:
        """Numbers for the UI."""
        return {"late_records": self.late, "lag": self.lag, "within_seconds": self.within_s}


def decide_keeps_up(
    lag: TopicLag, first_young: Mapping[int, int | None], within_s: int
) -> LagVerdict:
    """Return whether a table meets its lag objective of ``within_s`` seconds.

    ``first_young`` holds, by partition, the first offset whose record is not yet older than that.
    None means that all records are older.
    """
    late = 0
    for one in lag.partitions:
        young = first_young.get(one.partition)
        boundary = one.high_watermark if young is None else min(young, one.high_watermark)
        late += max(boundary - one.committed_offset, 0)
    return LagVerdict(late=late, lag=lag.lag, within_s=within_s)


def lag_verdict(log: LogClient, lag: TopicLag, within_s: int, now: int) -> LagVerdict:
    """Return whether a table meets its lag objective, by asking the log which offsets are young.

    A topic without lag is not asked about. ``now`` is in milliseconds.
    """
    verdicts = []
    for one in (replace(of, others=()) for of in lag.each):
        young = log.offsets_at(one.topic, now - within_s * 1000) if one.lag else {}
        verdicts.append(decide_keeps_up(one, young, within_s))
    return LagVerdict(late=sum(one.late for one in verdicts), lag=lag.lag, within_s=within_s)


def evaluation(key: dg.AssetKey, verdict: LagVerdict) -> dg.AssetCheckEvaluation:
    """Return the asset check evaluation that reports a verdict on a table."""
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=CHECK_NAME,
        passed=verdict.is_kept,
        metadata=verdict.metadata(),
        severity=dg.AssetCheckSeverity.WARN,
    )


_declared: dict[dg.AssetKey, int] = {}


def declare_objective(key: dg.AssetKey, within_s: int) -> None:
    """Remember the lag objective of a table by its asset key.

    A project that is loaded anew declares it again.
    """
    _declared[key] = within_s


def declared_objective(key: dg.AssetKey) -> int | None:
    """Return the seconds that a table's objective allows, or None if it has no objective."""
    return _declared.get(key)
