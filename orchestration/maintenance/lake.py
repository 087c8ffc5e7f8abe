"""Upkeep of the lake, as an asset: merges small files of tables and deletes old ones.

An old file is one that no recent version needs. A table is due if many of its files are smaller
than one of the ``SIZE_CLASSES_BYTES``. Its files are then merged up to that size. So a row is
rewritten once per size and not with every run. That saves space, because replaced files stay on the
disk until their retention ends. A table that is not due gets no new version, so that nothing
downstream is computed anew. Rows and checkpoints never change.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from orchestration.lake.tables import DEFAULT_RETENTION_HOURS, CommitConflictError, Lake
from orchestration.maintenance.retention import GROUP
from orchestration.resources.lake import LakeResource

MANY_FILES = 16
SIZE_CLASSES_BYTES = (64 << 10, 512 << 10, 4 << 20, 32 << 20, 128 << 20)
"""Sizes of files, step by step.

Each step is eight times the previous one, the last step four times. So several files fill the next
class, and larger files are rewritten less often. The last size suits readers of Parquet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """The results of upkeep for one table."""

    table: str
    files_merged: int
    files_deleted: int
    is_busy: bool = False


def lake_asset(
    *,
    name: str = "lake",
    retention_hours: int = DEFAULT_RETENTION_HOURS,
    many_files: int = MANY_FILES,
) -> dg.AssetsDefinition:
    """Return the asset whose run maintains all tables of the lake.

    Replaced files stay readable for ``retention_hours``.
    """

    @dg.asset(
        key=[GROUP, name],
        group_name=GROUP,
        kinds={"deltalake"},
        description="Merges small files of tables and deletes old ones",
    )
    def keep_lake(
        context: dg.AssetExecutionContext, lake: LakeResource
    ) -> dg.MaterializeResult[None]:
        opened = lake.open()
        done = [
            keep_table(opened, table, retention_hours=retention_hours, many_files=many_files)
            for table in opened.names()
        ]
        for one in done:
            if one.is_busy:
                context.log.info(
                    "%s was written to at the same time; its files are merged next time", one.table
                )
        rows = [
            dg.TableRecord(
                {"table": one.table, "merged": one.files_merged, "deleted": one.files_deleted}
            )
            for one in done
        ]
        return dg.MaterializeResult(
            metadata={
                "tables": len(done),
                "files_merged": sum(one.files_merged for one in done),
                "files_deleted": sum(one.files_deleted for one in done),
                **({"by_table": dg.MetadataValue.table(rows)} if rows else {}),
            }
        )

    return keep_lake


def keep_table(lake: Lake, table: str, *, retention_hours: int, many_files: int) -> TableUpkeep:
    """Merge the files of one table if it is due, and delete old files."""
    merged, is_busy = 0, False
    try:
        for size in SIZE_CLASSES_BYTES:
            if is_due(lake.existing(table).file_sizes, size, many_files):
                merged += int(lake.compact(table, target_bytes=size).get("numFilesRemoved", 0))
    except CommitConflictError:
        is_busy = True
    return TableUpkeep(
        table=table,
        files_merged=merged,
        files_deleted=len(lake.vacuum(table, retention_hours=retention_hours)),
        is_busy=is_busy,
    )


def is_due(file_sizes: Sequence[int], class_bytes: int, many_files: int) -> bool:
    """Return whether to merge files: at least ``many_files`` are smaller than ``class_bytes``."""
    return sum(size < class_bytes for size in file_sizes) >= many_files
