"""Dead letters as an asset: their number, reasons and times, and examples with their originals.

``lake/dead_letters`` gets an event from each run that rejected records, without a run of its own.
So the UI plots rejections over time. Materializing it sums up the whole table. Decides which counts
and examples are shown. Knows no Spark.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from log_service.common.counts import counted
from orchestration.dead_letters.table import DEAD_LETTERS, DeadLetters
from orchestration.lake.tables import LAKE_PREFIX
from orchestration.resources.lake import LakeResource

DEAD_LETTERS_KEY = dg.AssetKey([LAKE_PREFIX, DEAD_LETTERS])
SAMPLE_SIZE = 10
SHOWN_BYTES = 200
SHOWN_DAYS = 60
COLUMNS = dg.TableSchema(
    columns=[
        dg.TableColumn(name, "string")
        for name in (
            "table",
            "place",
            "rule",
            "reason",
            "duplicate of",
            "record time (UTC)",
            "value",
        )
    ]
)


def dead_letters_asset(tables: Iterable[str]) -> dg.AssetsDefinition:
    """Return the asset of the dead letters of ``tables``.

    It is a virtual asset, which shows the commits of their runs and is never stale. Otherwise
    Dagster would call it unsynced after each commit of any of these tables.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return _dead_letters_asset(tables)


def _dead_letters_asset(tables: Iterable[str]) -> dg.AssetsDefinition:
    @dg.asset(
        key=DEAD_LETTERS_KEY,
        deps=[dg.AssetKey([LAKE_PREFIX, name]) for name in tables],
        description=(
            "The records that tables rejected, with the reason. `tidelog dead-letters` lists,"
            " shows, fixes and replays them."
        ),
        kinds={"deltalake"},
        group_name="lake",
        is_virtual=True,
    )
    def sum_up(lake: LakeResource) -> dg.MaterializeResult[None]:
        letters = DeadLetters(lake.open())
        return dg.MaterializeResult(metadata=summary_metadata(letters))

    return sum_up


def summary_metadata(letters: DeadLetters) -> dict[str, Any]:
    """Return the metadata of the whole table: counts, and the newest dead letters.

    The counts are by table, rule, reason and day.
    """
    summary = letters.summary()
    total = sum(int(row["count"]) for row in summary)
    reasons = [dg.TableRecord(dict(row)) for row in summary]
    days = letters.by_day()[-SHOWN_DAYS:]
    newest = letters.newest(SAMPLE_SIZE)
    return {
        "dagster/row_count": total,
        "dead_letters": total,
        "reasons": dg.MetadataValue.table(reasons) if reasons else "none",
        "by_day": (
            dg.MetadataValue.table([dg.TableRecord(dict(day)) for day in days]) if days else "none"
        ),
        "newest": _sample([_shown(row) for row in newest]),
    }


def rejection_events(table: str, letters: pa.Table | None) -> Iterator[dg.AssetMaterialization]:
    """Yield the event of a commit's rejections. A commit without rejections has none."""
    if letters is not None and letters.num_rows:
        yield _rejection_event(table, letters)


def _rejection_event(table: str, letters: pa.Table) -> dg.AssetMaterialization:
    """Return the event which says that a run of ``table`` rejected records.

    ``letters`` are its rows of the dead-letter table.
    """
    by_rule = Counter(letters["rule"].to_pylist())
    return dg.AssetMaterialization(
        DEAD_LETTERS_KEY,
        description=f"{counted(letters.num_rows, 'record')} that {table} rejected",
        metadata={
            "table": table,
            "rejected": letters.num_rows,
            **{f"rejected: {rule}": count for rule, count in sorted(by_rule.items())},
            "sample": _sample([_shown(row) for row in letters.slice(0, SAMPLE_SIZE).to_pylist()]),
        },
    )


def _sample(rows: Sequence[Mapping[str, str]]) -> Any:
    return (
        dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows], schema=COLUMNS)
        if rows
        else "none"
    )


def _shown(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "table": row["target"],
        "place": f"{row['_partition']}:{row['_offset']}",
        "rule": row["rule"],
        "reason": row["reason"],
        "duplicate of": row["duplicate_of"] or "",
        "record time (UTC)": f"{row['_timestamp']:%Y-%m-%d %H:%M:%S}" if row["_timestamp"] else "",
        "value": shortened(row["value"]),
    }


def shortened(value: bytes | None) -> str:
    """Return a value as text that fits into a table."""
    if value is None:
        return ""
    text = value[:SHOWN_BYTES].decode(errors="replace")
    return text if len(value) <= SHOWN_BYTES else f"{text}..."
