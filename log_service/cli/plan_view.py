"""Shows plans on a terminal and carries them out.

Prints the moves and their costs before anything happens, a progress bar meanwhile, and advice after
Ctrl-C.
"""

import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import trio

from log_service.cli.numbers import WholeNumber
from log_service.cli.output import counted, even_unread, note, print_json, print_rows, sized
from log_service.cli.sizes import rate_of
from log_service.client.admin.admin import Admin
from log_service.cluster_operations.moving import Mover
from log_service.cluster_plans.execution import DEFAULT_LIMIT, PlanProgress
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from log_service.cluster_plans.plan import Plan
from log_service.cluster_plans.plans import lack_of_room
from log_service.cluster_plans.reassignment_file import written, written_back

SHOWN_MOVES = 20
POLL_SECONDS = 1.0
TOLD_EVERY_SECONDS = 10.0
SETTLE_ATTEMPTS = 5
NO_THROTTLE = "none"
DEFAULT_THROTTLE = "50MiB"


def parsed_throttle(_context: click.Context, _parameter: click.Parameter, value: str) -> int | None:
    """Return the bytes per second of a text like 50MiB, or None for ``none``."""
    return None if value.lower() == NO_THROTTLE else rate_of(value, f", and not {NO_THROTTLE!r}")


def new_file(
    _context: click.Context, _parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Refuse a file that exists.

    The file may be the plan that undoes yesterday's moves, which must not be lost.
    """
    if value is not None and value.is_file():
        raise click.BadParameter(f"{value} is there already: name another file, or remove that one")
    return value


throttle_option: Callable[[click.decorators.FC], click.decorators.FC] = click.option(
    "--throttle",
    "throttle_bytes",
    default=DEFAULT_THROTTLE,
    show_default=True,
    metavar="BYTES",
    callback=parsed_throttle,
    help="What a broker sends or receives a second for the moves; none is as fast as it can.",
)


def plan_options(command: click.decorators.FC) -> click.decorators.FC:
    """Add the options of every command that makes a plan."""
    options = [
        throttle_option,
        click.option(
            "--execute", is_flag=True, help="Carry the plan out; without it, it is only shown."
        ),
        click.option("--dry-run", is_flag=True, help="Only show the plan, as without --execute."),
        click.option(
            "--at-once",
            "limit",
            type=WholeNumber(min=1),
            default=DEFAULT_LIMIT,
            show_default=True,
            metavar="N",
            help="Copies that a broker takes part in at a time.",
        ),
        click.option(
            "--write",
            "plan_file",
            type=click.Path(dir_okay=False, path_type=Path),
            callback=new_file,
            help="Write the plan into a new file, in Kafka's format.",
        ),
        click.option(
            "--write-back",
            "back_file",
            type=click.Path(dir_okay=False, path_type=Path),
            callback=new_file,
            help="Write the plan that takes it back into a new file.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@asynccontextmanager
async def plan_refusals() -> AsyncIterator[None]:
    """Turn a refused plan into an error of the command.

    It is async only so that one ``async with`` can open it together with an admin.
    """
    try:
        yield
    except PlanRefused as error:
        raise click.ClickException(str(error)) from error


async def present(
    admin: Admin,
    layout: ClusterLayout,
    plan: Plan,
    *,
    execute: bool,
    dry_run: bool,
    limit: int,
    plan_file: Path | None,
    back_file: Path | None,
    as_json: bool,
    nothing: str,
) -> bool:
    """Show a plan, write its files, and carry it out if ``execute`` is set.

    Return whether the cluster is now as the plan wants it.

    Raises:
        ClickException: the plan cannot be carried out.
        Exit: 130, Ctrl-C while the plan was carried out.
    """
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    if plan_file is not None and plan_file == back_file:
        raise click.UsageError("--write and --write-back name the same file")
    problems = lack_of_room(layout, plan)
    for path, text in ((plan_file, written(plan)), (back_file, written_back(plan))):
        if path is not None:
            path.write_text(text)
    if not as_json:
        with even_unread(execute):
            show(layout, plan, nothing)
        for problem in problems:
            click.echo(f"it does not fit: {problem}", err=True)
    if execute and problems:
        raise click.ClickException(f"nothing was changed: {problems[0]}")
    if execute and not plan.is_empty:
        await carry_out(admin, plan, limit=limit)
        if not as_json:
            click.echo("done")
    elif not plan.is_empty and not as_json:
        click.echo("nothing was changed; --execute carries it out")
    if as_json:
        print_json(
            as_values(layout, plan)
            | {
                "problems": problems,
                "executed": execute and not plan.is_empty,
            }
        )
    return execute or plan.is_empty


def show(layout: ClusterLayout, plan: Plan, nothing: str) -> None:
    """Print the moves, each broker's load before and after, and the plan's costs."""
    for text in plan.notes:
        click.echo(text, err=True)
    if plan.is_empty:
        click.echo(nothing)
        return
    if plan.moves:
        print_rows(
            move_rows(plan)[:SHOWN_MOVES],
            ["topic", "partition", "from", "to", "copies"],
            as_json=False,
            flexible=["topic"],
        )
        if len(plan.moves) > SHOWN_MOVES:
            click.echo(
                f"and {counted(len(plan.moves) - SHOWN_MOVES, 'more move')}; --write FILE or --json"
                " tell them all"
            )
        click.echo()
        columns = ["broker", "rack", "replicas", "leaders", "receives", "sends"]
        print_rows(broker_rows(layout, plan), columns, as_json=False)
        click.echo()
    click.echo(summary(plan))


def summary(plan: Plan) -> str:
    """Return a plan in one line."""
    parts = [
        f"{counted(len(plan.moves), 'move')}, {counted(plan.copied_replicas, 'replica')} to copy"
        f" ({sized(plan.copied_bytes)})"
    ]
    if plan.elections:
        parts.append(f"{counted(len(plan.elections), 'leader')} to elect")
    if plan.copied_replicas:
        throttle = (
            "no throttle"
            if plan.throttle_bytes is None
            else f"at most {sized(plan.throttle_bytes)}/s for each broker"
        )
        seconds = plan.expected_seconds
        parts.append(throttle if seconds is None else f"{throttle}: {duration(seconds)} or more")
    return "; ".join(parts)


def duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def move_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return each move as a row."""
    return [
        {
            "topic": move.where.topic,
            "partition": move.where.partition,
            "from": list(move.before),
            "to": list(move.after),
            "copies": sized(move.copied_bytes) if move.adding else None,
            "copied_bytes": move.copied_bytes,
        }
        for move in plan.moves
    ]


def broker_rows(layout: ClusterLayout, plan: Plan) -> list[dict[str, Any]]:
    """Return each broker's load before and after a plan."""
    after = {each.where: each.replicas for each in layout.partitions} | {
        move.where: move.after for move in plan.moves
    }
    counts = [
        (
            Counter(broker for replicas in placed for broker in replicas),
            Counter(replicas[0] for replicas in placed if replicas),
        )
        for placed in ([each.replicas for each in layout.partitions], list(after.values()))
    ]
    (replicas_before, leaders_before), (replicas_after, leaders_after) = counts
    return [
        {
            "broker": broker.broker_id,
            "rack": broker.rack,
            "replicas": (
                f"{replicas_before[broker.broker_id]} -> {replicas_after[broker.broker_id]}"
            ),
            "leaders": f"{leaders_before[broker.broker_id]} -> {leaders_after[broker.broker_id]}",
            "receives": sized(plan.received_bytes.get(broker.broker_id, 0)),
            "sends": sized(plan.sent_bytes.get(broker.broker_id, 0)),
        }
        for broker in layout.brokers
    ]


def as_values(layout: ClusterLayout, plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values for programs."""
    return {
        "moves": [
            {name: value for name, value in row.items() if name != "copies"}
            for row in move_rows(plan)
        ],
        "elections": [
            {"topic": where.topic, "partition": where.partition} for where in plan.elections
        ],
        "copied_bytes": plan.copied_bytes,
        "copied_replicas": plan.copied_replicas,
        "throttle_bytes": plan.throttle_bytes,
        "expected_seconds": plan.expected_seconds,
        "brokers": [
            {
                "broker": broker.broker_id,
                "received_bytes": plan.received_bytes.get(broker.broker_id, 0),
                "sent_bytes": plan.sent_bytes.get(broker.broker_id, 0),
            }
            for broker in layout.brokers
        ],
        "notes": list(plan.notes),
    }


# Carrying out


class ProgressLine:
    """Prints the progress of moves: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown_at = time.monotonic()
        self._shown = ""

    def show(self, progress: PlanProgress) -> None:
        """Print the progress."""
        share = (
            progress.copied_bytes / progress.total_bytes
            if progress.total_bytes
            else progress.complete / max(progress.total, 1)
        )
        copied = f"{sized(progress.copied_bytes)} of {sized(progress.total_bytes)}"
        text = (
            f"{progress.complete} of {counted(progress.total, 'move')}, {copied}, {progress.moving}"
            " under way"
        )
        if self._is_terminal:
            filled = round(30 * share)
            note(
                f"\r[{'#' * filled}{'.' * (30 - filled)}] {100 * share:3.0f} %  {text}\x1b[K",
                nl=False,
            )
        elif text != self._shown and time.monotonic() - self._shown_at >= TOLD_EVERY_SECONDS:
            note(text)
            self._shown, self._shown_at = text, time.monotonic()

    def close(self) -> None:
        """End the line."""
        if self._is_terminal:
            note("")


async def carry_out(admin: Admin, plan: Plan, *, limit: int) -> None:
    """Carry out a plan to its end.

    Ctrl-C leaves the moves under way to the cluster, and prints what to do about them.

    Raises:
        ClickException: a partition did not become as planned.
        Exit: 130, Ctrl-C.
    """
    mover = Mover(plan, limit=limit)
    line = ProgressLine()
    try:
        await mover.begin(admin)
        line.show(await mover.step(admin))
        while not mover.is_done:
            await trio.sleep(POLL_SECONDS)
            line.show(await mover.step(admin))
        line.close()
        problems = await settled_problems(admin, mover)
        await mover.finish(admin)
    except KeyboardInterrupt:
        line.close()
        click.echo(left_behind(mover, plan), err=True)
        raise click.exceptions.Exit(130) from None
    except Exception:
        line.close()
        click.echo(left_behind(mover, plan), err=True)
        raise
    if problems:
        raise click.ClickException("\n".join(problems))


async def settled_problems(admin: Admin, mover: Mover) -> list[str]:
    """Return the differences between the cluster and the plan.

    If there are some, check a few times more, because a broker may report an old state for a
    moment.
    """
    problems = await mover.problems(admin)
    for _ in range(SETTLE_ATTEMPTS):
        if not problems:
            break
        await trio.sleep(POLL_SECONDS)
        problems = await mover.problems(admin)
    return problems


def left_behind(mover: Mover, plan: Plan) -> str:
    """Return the state of the moves after a plan was stopped, with advice how to continue."""
    complete = len(plan.moves) - len(mover.waiting) - len(mover.moving)
    moves = counted(len(plan.moves), "move")
    stopped = (
        f"stopped: {complete} of {moves} complete, {len(mover.moving)} under way,"
        f" {len(mover.waiting)} not begun."
    )
    if not mover.moving:
        return (
            f"{stopped}\nThe same command plans what is left.\n  see that nothing moves, and take"
            " the throttle away:  tidelog cluster watch"
        )
    lines = [
        stopped,
        "The cluster completes what is under way. The same command plans what is left.",
        "  watch it, and take the throttle away at its end:  tidelog cluster watch",
        "  put back what is under way:                       tidelog cluster cancel",
    ]
    return "\n".join(lines)


def topics_of(plan: Plan) -> Sequence[str]:
    """Return the topics that a plan moves."""
    return sorted({move.where.topic for move in plan.moves})
