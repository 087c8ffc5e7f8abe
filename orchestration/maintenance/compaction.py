"""Compaction of topics, as an asset: makes brokers compact due topics, and shows the result.

Decides nothing about records. Each topic's configuration (``cleanup.policy``,
``min.cleanable.dirty.ratio`` and the lags) decides what is due and which records stay. Brokers that
do not know the request (Apache Kafka's) compact by themselves, and the run says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from orchestration.log_client.protocol import CompactionPass, LogClient
from orchestration.maintenance.retention import BY_ITSELF, GROUP
from orchestration.resources.log_service import LogServiceResource

DEFAULT_TIMEOUT_S = 540
"""Longest wait of a run for passes. Unfinished passes go on in the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """The result of a run. ``passes`` is None if the brokers compact by themselves."""

    passes: tuple[CompactionPass, ...] | None

    @property
    def problems(self) -> list[str]:
        """Return a sentence for each problem that needs a person."""
        return [
            f"{one.topic}-{one.partition} was not compacted: {one.reason}"
            for one in self.passes or ()
            if one.reason is not None
        ]

    def metadata(self) -> dict[str, dg.MetadataValue]:
        """Return the metadata that the UI shows and plots."""
        passes = self.passes or ()
        return {
            "records_before": dg.MetadataValue.int(sum(one.records_before for one in passes)),
            "records_after": dg.MetadataValue.int(sum(one.records_after for one in passes)),
            "bytes_before": dg.MetadataValue.int(sum(one.bytes_before for one in passes)),
            "bytes_after": dg.MetadataValue.int(sum(one.bytes_after for one in passes)),
            "tombstones_removed": dg.MetadataValue.int(
                sum(one.tombstones_removed for one in passes)
            ),
            "tombstones_kept": dg.MetadataValue.int(sum(one.tombstones_kept for one in passes)),
            "dirty_ratio_before": dg.MetadataValue.float(
                max((one.dirty_ratio_before for one in passes), default=0.0)
            ),
            "dirty_ratio_after": dg.MetadataValue.float(
                max((one.dirty_ratio_after for one in passes), default=0.0)
            ),
            "seconds": dg.MetadataValue.float(sum((one.seconds for one in passes), 0.0)),
            "partitions_compacted": dg.MetadataValue.int(sum(one.passes > 0 for one in passes)),
            "partitions_looked_at": dg.MetadataValue.int(len(passes)),
            "partitions_under_way": dg.MetadataValue.int(sum(one.is_under_way for one in passes)),
            "partitions_refused": dg.MetadataValue.int(len(self.problems)),
            "pass": dg.MetadataValue.text(BY_ITSELF if self.passes is None else "done"),
            **_table(passes),
        }


def _table(passes: Sequence[CompactionPass]) -> dict[str, dg.MetadataValue]:
    rows = [
        dg.TableRecord(
            {
                "topic": one.topic,
                "partition": one.partition,
                "records_before": one.records_before,
                "records_after": one.records_after,
                "bytes_before": one.bytes_before,
                "bytes_after": one.bytes_after,
                "dirty_ratio_before": one.dirty_ratio_before,
                "dirty_ratio_after": one.dirty_ratio_after,
                "note": one.reason or ("under way" if one.is_under_way else ""),
            }
        )
        for one in passes
        if one.passes or one.is_under_way or one.reason is not None
    ]
    return {"compacted": dg.MetadataValue.table(rows)} if rows else {}


def compaction_asset(
    *, name: str = "compaction", timeout_s: int = DEFAULT_TIMEOUT_S
) -> dg.AssetsDefinition:
    """Return the asset whose run compacts due topics, and waits ``timeout_s`` seconds at most."""

    @dg.asset(
        key=[GROUP, name],
        group_name=GROUP,
        kinds={"kafka"},
        description="Keeps of each key the latest record, in compacted topics",
    )
    def apply_compaction(
        context: dg.AssetExecutionContext, log_service: LogServiceResource
    ) -> dg.MaterializeResult[None]:
        with log_service.open() as log:
            report = run_compaction(log, timeout_s=timeout_s)
        for problem in report.problems:
            context.log.warning(problem)
        if report.passes is None:
            context.log.info(BY_ITSELF)
        return dg.MaterializeResult(metadata=report.metadata())

    return apply_compaction


def run_compaction(log: LogClient, *, timeout_s: int = DEFAULT_TIMEOUT_S) -> CompactionReport:
    """Make the brokers compact due topics.

    :raises LogServiceError: the log service does not respond.
    """
    return CompactionReport(passes=log.apply_compaction(timeout_s * 1000))
