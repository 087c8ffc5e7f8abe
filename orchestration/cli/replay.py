"""``tidelog replay``: reads committed records once more into a table.

Without ``--execute`` it only shows the offsets of these records.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from log_service.cli.output import counted, json_option, print_json
from log_service.cli.times import TimeParameter
from orchestration.cli.table_names import TableParameter

if TYPE_CHECKING:
    import dagster as dg

OFFSETS = re.compile(r"(\d+):(\d+)-(\d+)")
Bounds = tuple[int, int, int]


class OffsetsParameter(click.ParamType[Bounds]):
    """``PARTITION:START-END``, END exclusive."""

    name = "partition:start-end"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Bounds:
        """Return partition, start and end."""
        if isinstance(value, tuple):
            return value
        found = OFFSETS.fullmatch(str(value))
        if found is None or int(found[2]) > int(found[3]):
            self.fail(
                f"{value!r} is not a range like 0:100-200: partition, first offset, and the offset"
                " after the last",
                param,
                ctx,
            )
        return int(found[1]), int(found[2]), int(found[3])


@click.command()
@click.argument("table", type=TableParameter())
@click.option(
    "--offsets",
    type=OffsetsParameter(),
    multiple=True,
    metavar="P:START-END",
    help="A range of a partition; may be repeated. It adds to a span of time.",
)
@click.option(
    "--from", "from_ms", type=TimeParameter(), metavar="TIME", help="From this time of records on."
)
@click.option(
    "--to",
    "to_ms",
    type=TimeParameter(),
    metavar="TIME",
    help="Up to this time of records, exclusive.",
)
@click.option(
    "--everything",
    is_flag=True,
    help="All that the table has committed and that log or archive holds.",
)
@click.option("--dead-letters", is_flag=True, help="What the table rejected.")
@click.option("--execute", is_flag=True, help="Do it; without this the offsets are only shown.")
@json_option
def replay(
    *,
    table: str,
    offsets: Sequence[Bounds],
    from_ms: int | None,
    to_ms: int | None,
    everything: bool,
    dead_letters: bool,
    execute: bool,
    as_json: bool,
) -> None:
    """Read records of TABLE's topic once more, and replace exactly their rows.

    TABLE is a name, or the asset as the Dagster UI shows it: clean_orders or lake/clean_orders.

    Use it after a transform was corrected, a rule changed, or records were rejected. The table's
    checkpoint does not change, and rows of other records are not touched. Run it in the folder of
    the project. A replay that is stopped, or killed, has replaced some pieces whole and the others
    not at all. Then run it again.

    \b
      tidelog replay clean_orders --from 2026-01-01 --to 2026-02-01
      tidelog replay clean_orders --offsets 0:100-200 --execute
      tidelog replay clean_orders --dead-letters --execute
    """
    is_chosen = bool(offsets or dead_letters) or from_ms is not None or to_ms is not None
    if not (everything or is_chosen):
        raise click.UsageError(
            "say what to replay: --offsets, --from and --to, --everything or --dead-letters"
        )
    if everything and is_chosen:
        raise click.UsageError(
            "--everything leaves nothing to choose: give it alone, or leave it out"
        )
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise click.UsageError("--from is not before --to: no record lies between them")
    from orchestration.cli.surroundings import (  # noqa: PLC0415
        found_settings,
        loaded_project,
        project_folder,
        run_replay,
    )

    settings = found_settings()
    project_folder()
    definitions = loaded_project()
    is_of_dead_letters = dead_letters and not offsets and from_ms is None and to_ms is None
    refuse_transforms(table, is_everything=everything, is_of_dead_letters=is_of_dead_letters)
    from orchestration.transforms.kinds import replayable_names  # noqa: PLC0415

    if table not in (known := replayable_names()):
        raise unknown_table(table, known, definitions)
    config = {
        "offsets": [
            {"partition": partition, "start": start, "end": end}
            for partition, start, end in offsets
        ],
        "from_time": iso(from_ms),
        "to_time": iso(to_ms),
        "everything": everything,
        "dead_letters": dead_letters,
        "dry_run": not execute,
    }
    given = {name: value for name, value in config.items() if value is not None}
    replayed = run_replay(definitions, table, given, settings)
    show_replay(table, replayed, execute=execute, as_json=as_json)


def unknown_table(
    table: str, known: Sequence[str], definitions: "dg.Definitions"
) -> click.ClickException:
    """Return the error for a table that cannot be replayed. ``known`` are those that can."""
    assets = definitions.get_repository_def().assets_defs_by_key.values()
    return click.ClickException(
        why_built_anew(table, assets)
        or (
            f"the project has no table {table} that follows a topic; it has"
            f" {', '.join(known) or 'none'}"
        )
    )


def show_replay(table: str, totals: Mapping[str, Any], *, execute: bool, as_json: bool) -> None:
    """Print what a replay did, or would do without ``execute``."""
    if lost := totals.get("no_longer_in_the_log"):
        click.echo(f"{table}: not whole: {lost}", err=True)
    if as_json:
        print_json({"table": table, "executed": execute, **totals})
    elif not execute:
        click.echo(
            f"{table}: {counted(totals['offset_count'], 'offset')} would be replayed:"
            f" {totals['offsets']}{from_archive(totals)}"
        )
        click.echo("nothing was done; --execute does it")
    else:
        click.echo(
            f"{table}: {counted(totals['records'], 'record')} replayed in"
            f" {counted(totals['commits'], 'commit')}: {counted(totals['rows'], 'row')},"
            f" {counted(totals['dead_letters'], 'dead letter')}; offsets"
            f" {totals['offsets']}{from_archive(totals)}"
        )


def from_archive(totals: Mapping[str, Any]) -> str:
    """Return a note on the offsets that are read from the archive, empty if there are none."""
    count = totals.get("offsets_from_the_archive")
    return f"; {count} of them from the archive" if count else ""


def refuse_transforms(
    name: str, *, is_everything: bool = False, is_of_dead_letters: bool = False
) -> None:
    """Refuse a replay that the project's table ``name`` cannot do, and give the reason.

    :raises ClickException: ``name`` allows no replay, or only one of everything or of dead letters.
    """
    from orchestration.transforms.kinds import (  # noqa: PLC0415 - with the command, not with its help
        why_no_replay,
    )

    why = why_no_replay(name, is_everything=is_everything, is_of_dead_letters=is_of_dead_letters)
    if why is not None:
        raise click.ClickException(why)


def why_built_anew(name: str, assets: "Iterable[dg.AssetsDefinition]") -> str | None:
    """Return why a mart, a table from tables or a SQL table is not replayed, and how to rebuild it.

    ``assets`` are those of the project. The result is None if none of them has the name.
    """
    from orchestration.marts.mart import (  # noqa: PLC0415 - with the command, not with its help
        BUILT_ANEW,
    )

    for asset in sorted(assets, key=lambda one: one.key):
        kind = BUILT_ANEW.get(asset.key.path[0])
        inputs = sorted(
            one.to_user_string() for one in asset.asset_deps[asset.key] if one.path[0] in BUILT_ANEW
        )
        if kind is None or not inputs or asset.key.path[1:] != [name]:
            continue
        is_automated = asset.automation_conditions_by_key.get(asset.key) is not None
        when = "when one of these changes, as by a replay into it, or " if is_automated else ""
        return (
            f"{name} is {kind}: nothing is replayed into it. It is built anew from"
            f" {', '.join(inputs)} {when}when {asset.key.to_user_string()} is materialized in the"
            " Dagster UI"
        )
    return None


def iso(moment_ms: int | None) -> str | None:
    """Return a time in milliseconds as ISO 8601 text (UTC), which the job's config takes."""
    return None if moment_ms is None else datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat()
