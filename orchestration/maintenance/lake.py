"""Upkeep of the lake, as an asset: many small files of a table become few, and files that no recent version needs are deleted.

Decides which tables are worth it: those with many small files. A table that is left alone gets no new version, so that nothing downstream
is computed anew for nothing. Rows and checkpoints never change.
"""

from dataclasses import dataclass

import dagster as dg

from orchestration.maintenance.retention import GROUP
from orchestration.resources.lake import LakeResource
from orchestration.tables import DEFAULT_RETENTION_HOURS, CommitConflictError, Lake

MANY_FILES = 16
SMALL_FILE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """What was done to one table."""

    table: str
    files_merged: int
    files_deleted: int
    is_busy: bool = False


def lake_asset(*, name: str = "lake", retention_hours: int = DEFAULT_RETENTION_HOURS, many_files: int = MANY_FILES) -> dg.AssetsDefinition:
    """Return the asset whose run keeps all tables of the lake in good order; files stay readable for ``retention_hours``."""

    @dg.asset(key=[GROUP, name], group_name=GROUP, kinds={"deltalake"}, description="Merges small files of tables and deletes old ones")
    def keep_lake(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[None]:
        opened = lake.open()
        done = [keep_table(opened, table, retention_hours=retention_hours, many_files=many_files) for table in opened.names()]
        for one in done:
            if one.is_busy:
                context.log.info("%s was written to at the same time; its files are merged next time", one.table)
        rows = [dg.TableRecord({"table": one.table, "merged": one.files_merged, "deleted": one.files_deleted}) for one in done]
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
    """Merge the files of one table if that is worth it, and delete those that are old."""
    merged, is_busy = 0, False
    if is_fragmented(lake, table, many_files):
        try:
            merged = int(lake.compact(table).get("numFilesRemoved", 0))
        except CommitConflictError:
            is_busy = True
    return TableUpkeep(
        table=table, files_merged=merged, files_deleted=len(lake.vacuum(table, retention_hours=retention_hours)), is_busy=is_busy
    )


def is_fragmented(lake: Lake, table: str, many_files: int) -> bool:
    """Return whether a table has many files and they are small."""
    snapshot = lake.existing(table)
    files = len(snapshot.files)
    return files >= many_files and snapshot.size_bytes / files < SMALL_FILE_BYTES
