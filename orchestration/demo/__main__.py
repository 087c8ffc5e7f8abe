"""Runs ``python -m orchestration.demo``: the supervisor in trio, the story in a thread.

The exit code is 0 if all checks of the demo pass. It is 1 if a step or a check failed, and a
sentence gives the reason. It is 130 after an interrupt.
"""

import argparse
import signal
import sys
from pathlib import Path

import dagster as dg
import trio
from rich.console import Console

from log_service.common.errors import TidelogError, first_error
from log_service.common.stop_signals import StopRequests
from log_service.config.client_properties import FILE_VARIABLE
from log_service.supervisor.supervisor import Supervisor
from orchestration.demo.directory import DemoError, prepare_directory
from orchestration.demo.freshness import Pipeline
from orchestration.demo.installation import installation
from orchestration.demo.report import Outcome, print_outcome
from orchestration.demo.source import ADVICE
from orchestration.demo.story import StoppedError, Story, ui_command
from orchestration.installation.services import platform_environment
from orchestration.project.location import ProjectError, find_project, import_project
from orchestration.settings import export_environment, load_settings

EXPECTED = (DemoError, ProjectError, TidelogError)
INTERRUPTED = 130
DEFAULT_TIMEOUT_S = 900.0


def main() -> int:
    """Run the demo and return its exit code."""
    arguments = _arguments()
    console = Console(highlight=False)
    try:
        story, supervisor = _prepared(arguments, console)
        outcome = trio.run(_run, story, supervisor)
    except (StoppedError, KeyboardInterrupt):
        console.print("interrupted")
        return INTERRUPTED
    except EXPECTED as error:
        console.print(f"[red]The demo failed:[/red] {error}", soft_wrap=True)
        return 1
    print_outcome(outcome, console)
    return 1 if outcome.faults else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tidelog demo", description="The whole path on real data")
    parser.add_argument("--data", type=Path, default=Path(".tidelog-demo"))
    parser.add_argument("--project", type=Path, default=Path())
    parser.add_argument("--flights", type=int, default=None)
    parser.add_argument("--secure", action="store_true")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S)
    return parser.parse_args()


def _prepared(arguments: argparse.Namespace, console: Console) -> tuple[Story, Supervisor]:
    data_directory, current, named = (
        arguments.data.resolve(),
        Path.cwd(),
        arguments.project.resolve(),
    )
    try:
        project = find_project(named)
    except ProjectError as error:
        raise DemoError(f"{named} is not a project: {ADVICE}") from error
    modules = import_project(project)
    assets = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, dg.AssetsDefinition)
    }
    prepare_directory(data_directory)
    spec = installation(data_directory, project, is_secure=arguments.secure)
    if spec.context.operator_config is not None:
        # The demo acts as the installation's operator.
        export_environment({FILE_VARIABLE: str(spec.context.operator_config)})
    story = Story(
        pipeline=Pipeline.of(list(assets.values())),
        settings=load_settings(platform_environment(spec.context)),
        console=console,
        flights=arguments.flights,
        deadline_s=arguments.timeout,
        next_command=ui_command(data_directory, project, current),
    )
    return story, Supervisor(spec, lambda line: console.print(f"  [dim]{line}[/dim]"))


async def _run(story: Story, supervisor: Supervisor) -> Outcome:
    """Run the steps of the demo beside the supervisor, and return their outcome.

    The supervisor is stopped in order afterwards, whatever happened.
    """
    outcome: list[Outcome] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signals, story, supervisor, nursery.cancel_scope)
            nursery.start_soon(_announce_when_up, story, supervisor)
            outcome.append(await trio.to_thread.run_sync(story.run, abandon_on_cancel=True))
            story.console.print("stopping")
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from None
    finally:
        story.is_stopping.set()
    if not outcome:
        raise StoppedError
    return outcome[0]


async def _announce_when_up(story: Story, supervisor: Supervisor) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        story.is_up.set()


async def _stop_on_signals(story: Story, supervisor: Supervisor, scope: trio.CancelScope) -> None:
    requests = StopRequests()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if requests.is_repeated():
                continue
            if requests.is_second:
                supervisor.kill()
                return
            story.console.print(
                "stopping; Ctrl-C once more, after a second or later, kills everything at once"
            )
            story.is_stopping.set()
            scope.cancel()


if __name__ == "__main__":
    sys.exit(main())
