"""Dagster's events of a table's run: plotted numbers, offsets per partition as a table, and checks.

Decides the labels of metadata. They never change, because the UI plots int and float values only
under constant labels. Knows no Spark and writes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import dagster as dg
import pyarrow as pa
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData,
)
from pyspark.sql import types

from orchestration.offsets.planning import Checkpoint, PartitionOffsets
from orchestration.offsets.ranges import table_of_offsets
from orchestration.quality import Rule, Severity, Suite
from orchestration.quality.suites import Outcome
from orchestration.transforms.run.context import TopicRunResult, TopicState

Result = dg.AssetCheckResult | dg.MaterializeResult[None]
CHECKPOINT_METADATA = "tidelog/checkpoint"
VERSION_METADATA = "table_version"
RECORD_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "_topic_id": (
            "The id of the topic that the record came from: a topic that is created anew has"
            " another one"
        ),
        "_partition": "The partition that the record came from",
        "_offset": "The record's offset in its partition",
        "_timestamp": "The record's time",
        "_leader_epoch": "The leader epoch in which the record was appended",
        "_key": "The record's key",
        "_value": "The record's value as it came",
        "_headers": "The record's headers",
        "_left": "The place of the left topic's record",
        "_right": "The place of the right topic's record",
    }
)
"""Descriptions of the columns that say where a row came from."""


def check_specs(key: dg.AssetKey, rules: Sequence[Rule], suite: Suite) -> list[dg.AssetCheckSpec]:
    """Return the specs of the asset checks for a table's rules and expectations."""
    of_rules = [
        dg.AssetCheckSpec(
            rule.name,
            asset=key,
            description=rule.description or f"{rule.condition} ({rule.severity})",
            blocking=rule.severity is Severity.FAIL,
        )
        for rule in rules
    ]
    of_suite = [
        dg.AssetCheckSpec(
            one.check_name,
            asset=key,
            description=one.description or _described(one.type, one.arguments),
            blocking=one.is_blocking,
        )
        for one in suite.expectations
    ]
    return [*of_rules, *of_suite]


def check_results(
    key: dg.AssetKey,
    rules: Sequence[Rule],
    violations: Mapping[str, int],
    outcomes: Sequence[Outcome],
) -> Iterator[dg.AssetCheckResult]:
    """Yield one result per rule and per expectation that was evaluated."""
    for rule in rules:
        count = violations[rule.name]
        is_hard = rule.severity is Severity.FAIL
        yield dg.AssetCheckResult(
            passed=count == 0,
            asset_key=key,
            check_name=rule.name,
            severity=dg.AssetCheckSeverity.ERROR if is_hard else dg.AssetCheckSeverity.WARN,
            metadata={
                "rows_violating": count,
                "condition": rule.condition,
                "severity": rule.severity.value,
            },
        )
    for outcome in outcomes:
        yield dg.AssetCheckResult(
            passed=outcome.is_met,
            asset_key=key,
            check_name=outcome.expectation.check_name,
            severity=(
                dg.AssetCheckSeverity.ERROR
                if outcome.expectation.is_blocking
                else dg.AssetCheckSeverity.WARN
            ),
            metadata={**outcome.observed, "expectation": outcome.expectation.type},
        )


def topic_materialization(
    key: dg.AssetKey,
    result: TopicRunResult,
    now: datetime,
    fields: types.StructType | None = None,
    schema: Mapping[str, Any] | None = None,
) -> dg.MaterializeResult[None]:
    """Return the event of a committed batch or replay.

    ``fields`` are those of the topic, and ``schema`` the metadata of its schema in a registry.
    """
    assert result.batch is not None
    assert result.statistics is not None
    watermarks = result.state.high_watermarks
    rows = table_of_offsets(result.ranges, watermarks)
    lag = total_lag(result)
    metadata: dict[str, Any] = {
        "rows": result.batch.rows.num_rows,
        **_changed(result),
        **(result.sent or {}),
        **({} if result.row_count is None else {"dagster/row_count": result.row_count}),
        "dagster/column_schema": column_schema(_stored(result).schema, fields),
        "records": result.statistics.records,
        "bytes": result.statistics.bytes,
        "dead_letters": len(result.batch.rejections),
        "records_filtered": result.batch.filtered,
        "lag": lag,
        "seconds_behind": seconds_behind(lag, result.statistics.newest_timestamp_ms, now),
        "high_watermark": sum(watermarks.values()),
        VERSION_METADATA: result.version,
        "kind": result.kind,
        **(schema or {}),
        "offsets": dg.MetadataValue.table(
            [dg.TableRecord(dict(row)) for row in rows], schema=_OFFSETS_SCHEMA
        ),
        CHECKPOINT_METADATA: checkpoint_text(result.state.topic_id, result.next_offsets),
    }
    return dg.MaterializeResult(asset_key=key, metadata=metadata)


def _stored(result: TopicRunResult) -> pa.Table:
    """Return the rows as the table stores them. For aggregates these are the groups."""
    assert result.batch is not None
    return result.batch.rows if result.changes is None else result.changes.rows


def _changed(result: TopicRunResult) -> dict[str, int]:
    """Return how many rows a commit inserted, updated and deleted.

    It is empty except for a table that keeps the newest row of each key.
    """
    if result.changes is None:
        return {}
    return {
        "rows_inserted": result.changes.inserted,
        "rows_updated": result.changes.updated,
        "rows_deleted": result.changes.deleted,
    }


def plain_events(
    instance: dg.DagsterInstance, results: Iterable[Result]
) -> Iterator[dg.AssetCheckEvaluation | dg.AssetMaterialization]:
    """Yield results as plain events, each check linked to the materialization before it.

    Dagster accepts only one result per asset, check and run, but any number of plain events.
    """
    target: AssetCheckEvaluationTargetMaterializationData | None = None
    for result in results:
        assert result.asset_key is not None
        if isinstance(result, dg.MaterializeResult):
            yield dg.AssetMaterialization(result.asset_key, metadata=result.metadata)
            target = _newest_materialization(instance, result.asset_key)
            continue
        assert result.check_name is not None
        yield dg.AssetCheckEvaluation(
            asset_key=result.asset_key,
            check_name=result.check_name,
            passed=result.passed,
            metadata=result.metadata,
            target_materialization_data=target,
            severity=result.severity,
            blocking=result.severity is dg.AssetCheckSeverity.ERROR,
        )


def _newest_materialization(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> AssetCheckEvaluationTargetMaterializationData | None:
    found = instance.fetch_materializations(key, limit=1).records
    if not found:
        return None
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=found[0].storage_id, run_id=found[0].run_id, timestamp=found[0].timestamp
    )


def recovered_materialization(key: dg.AssetKey, state: TopicState) -> dg.MaterializeResult[None]:
    """Return the event for a commit of an earlier run that was killed before it could report it."""
    assert state.snapshot is not None
    offsets = {partition: one.next_offset for partition, one in state.committed.items()}
    watermarks = state.high_watermarks
    return dg.MaterializeResult(
        asset_key=key,
        metadata={
            "rows": 0,
            "lag": sum(
                max(watermarks[partition] - offset, 0) for partition, offset in offsets.items()
            ),
            "high_watermark": sum(watermarks.values()),
            VERSION_METADATA: state.snapshot.version,
            "kind": "recovered",
            CHECKPOINT_METADATA: checkpoint_text(state.topic_id, offsets),
        },
    )


def column_schema(schema: pa.Schema, fields: types.StructType | None = None) -> dg.TableSchema:
    """Return columns as Dagster shows them.

    Columns named as one of the topic's ``fields`` have that field's comment.
    """
    comments = {
        field.name: field.metadata["comment"]
        for field in fields or ()
        if "comment" in field.metadata
    }
    described = {**comments, **RECORD_COLUMNS}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(field.name, str(field.type), described.get(field.name))
            for field in schema
        ]
    )


def total_lag(result: TopicRunResult) -> int:
    """Return the lag of all partitions: uncommitted offsets below the high watermark."""
    return lag_after(result.state.log, result.next_offsets)


def lag_after(log: Sequence[PartitionOffsets], offsets: Mapping[int, int]) -> int:
    """Return the lag of a table that has committed ``offsets``, by partition."""
    return sum(
        max(one.high_watermark - offsets.get(one.partition, one.log_start_offset), 0) for one in log
    )


def seconds_behind(lag: int, newest_timestamp_ms: int | None, now: datetime) -> float:
    """Return the age of the newest committed record in seconds, 0.0 if no record waits."""
    if lag == 0 or newest_timestamp_ms is None:
        return 0.0
    return max(round(now.timestamp() - newest_timestamp_ms / 1000, 3), 0.0)


def checkpoint_text(topic_id: str, offsets: Mapping[int, int]) -> str:
    """Return checkpoints as a text. Equal checkpoints give equal texts."""
    return f"{topic_id} " + " ".join(
        f"{partition}:{offset}" for partition, offset in sorted(offsets.items())
    )


def checkpoints_text(topics: Mapping[str, Mapping[int, int]]) -> str:
    """Return the checkpoints of several topics as a text. Equal checkpoints give equal texts.

    ``topics`` maps a topic id to its offsets by partition.
    """
    return " ".join(
        checkpoint_text(topic_id, offsets) for topic_id, offsets in sorted(topics.items())
    )


def is_announced(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    topic_id: str,
    committed: Mapping[int, Checkpoint],
    others: Mapping[str, Mapping[int, Checkpoint]] | None = None,
) -> bool:
    """Return whether a materialization reported the checkpoints that the table holds.

    It is False after a kill between commit and event. ``others`` are the checkpoints of further
    topics that the table reads, by topic id.
    """
    topics = {topic_id: committed, **(others or {})}
    if not any(topics.values()):
        return True
    expected = {
        one: {partition: at.next_offset for partition, at in checkpoints.items()}
        for one, checkpoints in topics.items()
    }
    return bool(latest_metadata(instance, key, CHECKPOINT_METADATA) == checkpoints_text(expected))


def latest_metadata(instance: dg.DagsterInstance, key: dg.AssetKey, label: str) -> Any:
    """Return the metadata value ``label`` of the newest materialization, None if there is none."""
    event = instance.get_latest_materialization_event(key)
    materialization = event.asset_materialization if event else None
    return (
        materialization.metadata[label].value
        if materialization and label in materialization.metadata
        else None
    )


OFFSET_COLUMNS = ("partition", "start", "end", "high_watermark", "lag")
_OFFSETS_SCHEMA = dg.TableSchema(columns=[dg.TableColumn(name, "int") for name in OFFSET_COLUMNS])


def _described(kind: str, arguments: Mapping[str, Any]) -> str:
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
