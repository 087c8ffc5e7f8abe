"""``tidelog dead-letters``: counts, shows, fixes and replays the records that tables rejected."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from log_service.cli.output import counted, for_terminal, json_option, print_json, print_rows
from log_service.cli.times import as_time
from orchestration.cli.table_names import TableParameter, refuse_unknown
from orchestration.project.importing import kept_imports

if TYPE_CHECKING:
    from orchestration.calls.fix_trial import RecordPlace
    from orchestration.dead_letters.fixes import Fix
    from orchestration.dead_letters.places import Place
    from orchestration.dead_letters.table import DeadLetters
    from orchestration.offsets.ranges import OffsetRange
    from orchestration.settings import Settings

WHERE = "[TOPIC/]PARTITION:OFFSET"
LISTED = 50
LOOK_TIMEOUT_MS = 10_000
COUNTED = ["target", "topic", "rule", "reason", "count"]
SHOWN = ["place", "record_time", "rule", "reason", "duplicate_of", "value"]


class PlaceParameter(click.ParamType["Place"]):
    """A click parameter ``PARTITION:OFFSET`` or ``TOPIC/PARTITION:OFFSET``."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Place":
        """Return the place."""
        from orchestration.dead_letters.places import (  # noqa: PLC0415 - with the command, not with its help
            Place,
            PlaceError,
        )

        if isinstance(value, Place):
            return value
        try:
            return Place.parse(str(value))
        except PlaceError as error:
            self.fail(str(error), param, ctx)


@click.group(name="dead-letters")
def dead_letters() -> None:
    """Count, list, show, fix and replay the records that tables rejected.

    Call it in the folder of the project. A fix is the corrected value of a record. The log itself
    never changes. A replay puts each record where it belongs now: into the table, or back among the
    dead letters with its new reason.
    """


@dead_letters.command(name="list", short_help="Count dead letters, or list those of a table.")
@click.argument("table", type=TableParameter(), required=False)
@click.option(
    "--rule", help="Only those that this rule rejected; `schema` and `unique_by` are rules, too."
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=LISTED,
    show_default=True,
    help="With TABLE: at most so many.",
)
@json_option
def list_letters(*, table: str | None, rule: str | None, limit: int, as_json: bool) -> None:
    """Count the dead letters by table, rule and reason. With TABLE list them one by one."""
    with opened_letters() as (letters, _):
        if table is None:
            summary = [row for row in letters.summary() if rule in {None, row["rule"]}]
            print_rows(
                summary,
                COUNTED,
                as_json=as_json,
                empty="no table has rejected anything",
                flexible=("reason",),
            )
            return
        from orchestration.dead_letters.places import (  # noqa: PLC0415 - with the command, not with its help
            names_of_topics,
        )

        refuse_unknown(table, letters)
        names = names_of_topics(letters, table)
        rows = [
            told(row, names) for row in letters.of_target(table, chosen_rule(rule), limit=limit)
        ]
        nothing = "" if rows else nothing_found(table, rule, letters)
        print_rows(rows, SHOWN, as_json=as_json, empty=nothing, flexible=("value", "reason"))


def nothing_found(table: str, rule: str | None, letters: "DeadLetters") -> str:
    """Return the message for a table or a rule without dead letters.

    The name may be misspelt, so the message lists the tables or rules that have dead letters.
    """
    summary = letters.summary()
    rules = sorted({str(row["rule"]) for row in summary if row["target"] == table})
    if rules:
        return f"the rule {rule} rejected nothing of {table}; these did: {', '.join(rules)}"
    tables = sorted({str(row["target"]) for row in summary})
    return f"{table} has no dead letters" + (
        f"; these tables have some: {', '.join(tables)}" if tables else ""
    )


@dead_letters.command(short_help="Show a dead letter whole.")
@click.argument("table", type=TableParameter())
@click.argument("place", type=PlaceParameter(), metavar=WHERE)
@json_option
def show(*, table: str, place: "Place", as_json: bool) -> None:
    """Show a dead letter whole, with the reason and the time of its rejection.

    A repeated record shows the place of its original, too. Key, headers and value follow. The topic
    is needed if a table rejected records of several topics, as a join does.
    """
    with opened_letters() as (letters, _):
        from orchestration.dead_letters.places import (  # noqa: PLC0415 - with the command, not with its help
            letter_at,
            names_of_topics,
        )

        refuse_unknown(table, letters)
        row = told(letter_at(letters, table, place), names_of_topics(letters, table))
    if as_json:
        print_json(row)
        return
    headers = "; ".join(
        one["key"] + ("" if one["value"] is None else f"={one['value']}") for one in row["headers"]
    )
    for label, value in {**row, "headers": headers}.items():
        click.echo(for_terminal(f"{label:<14} {'' if value is None else value}".rstrip()))


@dead_letters.command(short_help="Say what rejected records should have been.")
@click.argument("table", type=TableParameter())
@click.argument("place", type=PlaceParameter(), metavar=f"[{WHERE}]", required=False)
@click.option("--value", help="What the record's value should have been.")
@click.option("--edit", is_flag=True, help="Change the value in your editor.")
@click.option(
    "--with",
    "function",
    metavar="MODULE:FUNCTION",
    help="A function of the project: it gets a value, bytes, and returns it fixed.",
)
@click.option("--rule", help="With --with: only dead letters of this rule.")
@click.option(
    "--execute",
    is_flag=True,
    help="Keep the fixes and replay their records; without this they are only shown.",
)
@json_option
def fix(
    *,
    table: str,
    place: "Place | None",
    value: str | None,
    edit: bool,
    function: str | None,
    rule: str | None,
    execute: bool,
    as_json: bool,
) -> None:
    """Correct the values of rejected records, and put the records where they belong.

    --value or --edit corrects one record. --with corrects all of a table (or of a --rule) by a
    function of the project. Every later replay reads the fix, too, so that replaying all of history
    gives the same rows again. A join is replayed whole. Without --execute the command only shows
    the fixes, and which records the table would reject again.

    \b
      tidelog dead-letters fix clean_orders 0:17 --value '{"id": 17}' --execute
      tidelog dead-letters fix clean_orders --rule schema \\
          --with assets.repairs:dots_for_commas --execute
    """
    if sum([value is not None, edit, function is not None]) != 1:
        raise click.UsageError("say how: --value TEXT, --edit, or --with MODULE:FUNCTION")
    if (place is None) != (function is not None):
        raise click.UsageError(
            f"--value and --edit are about one record, {WHERE}; --with is about all of the table"
        )
    with opened_letters() as (letters, settings):
        from orchestration.cli.replay import (  # noqa: PLC0415
            refuse_transforms,
        )
        from orchestration.cli.surroundings import loaded_project  # noqa: PLC0415
        from orchestration.dead_letters.fixes import (  # noqa: PLC0415 - with the command, not with its help
            Fixes,
            fix_of,
            repaired,
            replay_ranges,
        )
        from orchestration.dead_letters.places import letter_at  # noqa: PLC0415

        loaded_project()
        refuse_unknown(table, letters)
        refuse_transforms(table, is_everything=True, is_of_dead_letters=True)
        if function is not None:
            fixes = repaired(letters, table, repair_named(function), rule=rule)
        else:
            assert place is not None
            text = value if value is not None else edited(letter_at(letters, table, place))
            fixes = [] if text is None else [fix_of(letters, table, place, text.encode())]
        deleted = deleted_topics(letters, table, settings) if fixes else {}
        if place is not None:
            refuse_deleted([one.topic_id for one in fixes], deleted)
        nothing = "" if fixes else nothing_to_fix(table, rule, letters)
        print_deleted(sum(one.topic_id in deleted for one in fixes))
        fixes = [one for one in fixes if one.topic_id not in deleted]
        if not execute or not fixes:
            found = letters.of_target(table) if fixes else []
            again, why_untried = (
                tried(letters, table, found, fixes, settings) if fixes else ({}, "")
            )
            show_fixes(letters, table, found, fixes, again, as_json=as_json, nothing=nothing)
            if why_untried:
                click.echo(why_untried, err=True)
            return
        Fixes(letters.lake).put(table, fixes, note=function or "by hand")
        print_replay(
            table, len(fixes), replayed(settings, table, replay_ranges(fixes)), as_json=as_json
        )


@dead_letters.command(short_help="Read dead letters of a table once more.")
@click.argument("table", type=TableParameter())
@click.argument("place", type=PlaceParameter(), metavar=f"[{WHERE}]", required=False)
@click.option("--rule", help="Only those that this rule rejected.")
@click.option("--execute", is_flag=True, help="Do it; without this the number is only shown.")
@json_option
def replay(
    *, table: str, place: "Place | None", rule: str | None, execute: bool, as_json: bool
) -> None:
    """Read all dead letters of TABLE once more, or those of a rule, or one.

    Records with offsets between those of a rule may be read again, too. A join is always replayed
    whole. Use it after a rule was relaxed, a transform corrected, or fixes were kept.
    """
    if place is not None and rule is not None:
        raise click.UsageError("a place is one dead letter: give it without --rule")
    with opened_letters() as (letters, settings):
        from orchestration.dead_letters.fixes import ranges_at  # noqa: PLC0415
        from orchestration.dead_letters.places import letter_at  # noqa: PLC0415

        refuse_unknown(table, letters)
        is_part = place is not None or rule is not None
        found = (
            letters.of_target(table, chosen_rule(rule))
            if place is None
            else [letter_at(letters, table, place)]
        )
        deleted = deleted_topics(letters, table, settings) if found else {}
        rows = [row for row in found if row["_topic_id"] not in deleted]
        print_deleted(len(found) - len(rows))
        if not execute or not rows:
            shown_count = {"table": table, "executed": False, "dead_letters": len(rows)}
            if as_json:
                print_json(shown_count)
            elif rows:
                click.echo(
                    f"{table}: {counted(len(rows), 'dead letter')} would be replayed; --execute"
                    " does it"
                )
            elif not found:
                click.echo(nothing_found(table, rule, letters))
            return
        ranges = ranges_at((row["_partition"], row["_offset"]) for row in rows)
        done = replayed(settings, table, ranges if is_part else None)
        print_replay(table, 0, done, as_json=as_json)


@contextmanager
def opened_letters() -> Iterator[tuple["DeadLetters", "Settings"]]:
    """Yield the dead letters of this lake, and the settings.

    Errors of the platform inside the block become one sentence at the terminal.
    """
    from orchestration.cli.surroundings import (  # noqa: PLC0415 - with the command
        explained,
        found_settings,
        project_folder,
    )

    settings = found_settings()
    project_folder()
    with kept_imports():
        from orchestration.dead_letters.table import DeadLetters  # noqa: PLC0415
        from orchestration.lake.tables import Lake  # noqa: PLC0415

    with explained():
        yield DeadLetters(Lake(settings.lake_root)), settings


def deleted_topics(letters: "DeadLetters", table: str, settings: "Settings") -> dict[str, str]:
    """Return the names, by id, of deleted topics of which a table still has dead letters.

    It is empty if the broker cannot be reached, because the replay then reports that itself.
    """
    from orchestration.log_client import (  # noqa: PLC0415 - with the command, not with its help
        connection,
    )
    from orchestration.log_client.protocol import LogServiceError  # noqa: PLC0415

    topics = letters.topics_of(table)
    try:
        with connection.connect(settings.bootstrap_servers, timeout_ms=LOOK_TIMEOUT_MS) as log:
            there = {
                one.topic_id
                for name in sorted(set(topics.values()))
                if (one := log.describe_topic(name)) is not None
            }
    except LogServiceError:
        return {}
    return {topic_id: name for topic_id, name in topics.items() if topic_id not in there}


def refuse_deleted(topic_ids: Sequence[str], deleted: Mapping[str, str]) -> None:
    """Refuse the fix of a record whose topic is deleted.

    ``deleted`` holds the names of deleted topics by id.

    :raises ClickException: one of ``topic_ids`` is deleted.
    """
    for topic_id in topic_ids:
        if topic_id in deleted:
            raise click.ClickException(
                f"the topic {deleted[topic_id]} of the id {topic_id} is deleted: its records can be"
                " replayed no more"
            )


def print_deleted(count: int) -> None:
    """Print how many dead letters cannot be replayed, because their topics are deleted."""
    if count:
        verbs = ("is", "stays") if count == 1 else ("are", "stay")
        click.echo(
            f"{counted(count, 'dead letter')} {verbs[0]} of a topic that is deleted, and"
            f" {verbs[1]}",
            err=True,
        )


def chosen_rule(rule: str | None) -> Any:
    """Return the filter for dead letters of one rule. None keeps all of them."""
    import pyarrow.dataset as pads  # noqa: PLC0415 - with the command, not with its help

    return None if rule is None else pads.field("rule") == rule


def told(row: dict[str, Any], names: Mapping[str, str | None]) -> dict[str, Any]:
    """Return a dead letter with the names and texts that commands print.

    ``names`` are those of ``names_of_topics``.
    """
    from orchestration.dead_letters.places import (  # noqa: PLC0415 - with the command, not with its help
        place_of,
    )

    return {
        "table": row["target"],
        "topic": row["topic"],
        "place": str(place_of(row, names)),
        "record_time": shown_time(row["_timestamp"]),
        "rule": row["rule"],
        "reason": row["reason"],
        "duplicate_of": row["duplicate_of"],
        "rejected_at": shown_time(row["rejected_at"]),
        "run": row["run_id"],
        "key": text_of(row["key"]),
        "headers": [
            {"key": one["key"], "value": text_of(one["value"])} for one in row["headers"] or ()
        ],
        "value": text_of(row["value"]),
    }


def shown_time(moment: datetime | None) -> str | None:
    """Return a time as all commands show it, in UTC with milliseconds."""
    return None if moment is None else as_time(round(moment.timestamp() * 1_000))


def text_of(data: bytes | None) -> str | None:
    """Return bytes as text. Bytes that are not UTF-8 are escaped."""
    return None if data is None else data.decode(errors="backslashreplace")


def edited(row: dict[str, Any]) -> str | None:
    """Let the user change a value in an editor, and return it, or None if it is unchanged.

    :raises ClickException: the dead letter has only the beginning of the value.
    """
    from orchestration.offsets.byte_limits import (  # noqa: PLC0415 - with the command, not with its help
        is_cut_short,
    )

    if is_cut_short(row["reason"]):
        raise click.ClickException(
            f"{row['reason']}: it cannot be edited; give a whole value with --value"
        )
    text = text_of(row["value"]) or ""
    found = click.edit(text, extension=".json")
    return None if found is None or found.rstrip("\n") == text.rstrip("\n") else found.rstrip("\n")


def repair_named(name: str) -> Callable[[bytes | None], bytes | None]:
    """Import a function of the project.

    :raises ClickException: no function has that name.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.ClickException(
            f"--with {name}: {error}. It has to be MODULE:FUNCTION, as"
            " assets.repairs:dots_for_commas"
        ) from error
    if not callable(found):
        raise click.ClickException(f"--with {name} is not a function")
    repair: Callable[[bytes | None], bytes | None] = found
    return repair


def tried(
    letters: "DeadLetters",
    table: str,
    found: Sequence[Mapping[str, Any]],
    fixes: Sequence["Fix"],
    settings: "Settings",
) -> tuple[Mapping["RecordPlace", str] | None, str]:
    """Return the reasons why the table would reject fixed records again, by record.

    They are None if the fixes could not be tried. The text then gives the reason. ``found`` are the
    table's dead letters.
    """
    from orchestration.calls.fix_trial import (  # noqa: PLC0415 - with the command, not with its help
        follower,
        rejected_again,
    )
    from orchestration.cli.surroundings import quiet_spark  # noqa: PLC0415
    from orchestration.spark.session import close_session, open_session  # noqa: PLC0415
    from orchestration.transforms.dagster_views.failures import FINAL, PASSING  # noqa: PLC0415

    declared = follower(table)
    if declared is None:
        return None, f"{table} does not say beforehand what it would reject again: --execute does"
    try:
        with quiet_spark(settings):
            session = open_session(settings)
        try:
            rejections = rejected_again(session, letters.lake, declared, found, fixes)
        finally:
            close_session(session, settings)
    except (*FINAL, *PASSING) as error:
        return (
            None,
            (
                f"whether {table} would reject some of it again could not be tried:"
                f" {str(error).partition(chr(10))[0]}"
            ),
        )
    repeats = {
        place: f" of {one.duplicate_of}" if one.duplicate_of else ""
        for place, one in rejections.items()
    }
    return {
        place: f"{one.rule}: {one.reason}{repeats[place]}" for place, one in rejections.items()
    }, ""


def show_fixes(
    letters: "DeadLetters",
    table: str,
    found: Sequence[Mapping[str, Any]],
    fixes: Sequence["Fix"],
    again: Mapping["RecordPlace", str] | None,
    *,
    as_json: bool,
    nothing: str,
) -> None:
    """Print the fixes, and which of them the table would reject again.

    ``again`` is the first result of ``tried``. ``nothing`` is printed if there are no fixes.
    """
    from orchestration.dead_letters.places import (  # noqa: PLC0415 - with the command, not with its help
        names_of_topics,
        place_of,
    )

    before = {(row["_topic_id"], row["_partition"], row["_offset"]): row for row in found}
    names = names_of_topics(letters, table) if fixes else {}
    rows = []
    for one in fixes:
        row = before[one.topic_id, one.partition, one.offset]
        fix = {
            "place": str(place_of(row, names)),
            "reason": row["reason"],
            "before": text_of(row["value"]),
            "after": text_of(one.value),
        }
        verdict = (
            {}
            if again is None
            else {"rejected_again": again.get((one.topic_id, one.partition, one.offset))}
        )
        rows.append({**fix, **verdict})
    columns = ["place", "reason", "before", "after", *(["rejected_again"] if again else [])]
    print_rows(
        rows,
        columns,
        as_json=as_json,
        empty=nothing,
        flexible=("before", "after", "reason", "rejected_again"),
    )
    if rows and not as_json:
        if again:
            click.echo(f"{len(again)} of {len(rows)} would be rejected again")
        click.echo("nothing was done; --execute keeps the fixes and replays their records")


def nothing_to_fix(table: str, rule: str | None, letters: "DeadLetters") -> str:
    """Return the message for a fix that changes no value.

    Either no dead letter was found, or each value stays as it was.
    """
    is_any = bool(letters.of_target(table, chosen_rule(rule), limit=1))
    return (
        "nothing to fix: each value stays as it is"
        if is_any
        else nothing_found(table, rule, letters)
    )


def replayed(
    settings: "Settings", table: str, ranges: Sequence["OffsetRange"] | None
) -> dict[str, Any]:
    """Replay ``ranges`` of a table by the project's job, or its dead letters if they are None.

    A table that cannot replay a part is replayed whole.
    """
    from orchestration.cli.replay import (  # noqa: PLC0415 - with the command, not with its help
        refuse_transforms,
    )
    from orchestration.cli.surroundings import loaded_project, run_replay  # noqa: PLC0415
    from orchestration.transforms.kinds import is_replayed_whole  # noqa: PLC0415

    definitions = loaded_project()
    refuse_transforms(table, is_everything=ranges is not None, is_of_dead_letters=True)
    if is_replayed_whole(table):
        return run_replay(definitions, table, {"everything": True}, settings)
    if ranges is None:
        return run_replay(definitions, table, {"dead_letters": True}, settings)
    offsets = [{"partition": one.partition, "start": one.start, "end": one.end} for one in ranges]
    return run_replay(definitions, table, {"offsets": offsets}, settings)


def print_replay(table: str, fixed: int, done: dict[str, Any], *, as_json: bool) -> None:
    """Print the results of a replay."""
    if as_json:
        sys.stdout.write(
            json.dumps({"table": table, "executed": True, "fixed": fixed, **done}) + "\n"
        )
        return
    start = f"{fixed} fixed; " if fixed else ""
    totals = f"{counted(done['rows'], 'row')}, {counted(done['dead_letters'], 'dead letter')}"
    click.echo(f"{table}: {start}{counted(done['records'], 'record')} replayed: {totals}")
