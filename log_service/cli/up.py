"""``tidelog up``: one command that runs an installation until Ctrl-C."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import click
import trio

from log_service.common.errors import TidelogError
from log_service.supervisor.components import SERVERS_SETTING, broker_component, external_broker, registered_components, service_context
from log_service.supervisor.spec import InstallationSpec
from log_service.supervisor.state import held_lock
from log_service.supervisor.supervisor import Supervisor, leaf

REMOTE_SETTING = "TIDELOG_SPARK_REMOTE"


@click.command()
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), default=Path(".tidelog"), envvar="TIDELOG_DATA", show_default=True,
    show_envvar=True, help="Where all state lies; a second start on it carries on.",
)  # fmt: skip
@click.option(
    "--project", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path(), show_default=True,
    help="The project to load: a folder with a package assets/, and sensors/ if it has some.",
)  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind to.")
@click.option("--broker-port", default=9092, show_default=True, help="Where Kafka clients connect.")
@click.option("--ui-port", default=3000, show_default=True, help="Where the Dagster UI is.")
@click.option("--spark-port", default=15002, show_default=True, help="Where the warm Spark server listens, on 127.0.0.1.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Where Prometheus reads the broker's metrics; 0 is nowhere.  [default: 9404, or one that is free]",
)  # fmt: skip
@click.option("--broker", "overrides", multiple=True, metavar="KEY=VALUE", help="A server property for the broker; may be repeated.")
@click.option(
    "--bootstrap-servers", metavar="HOST:PORT,...", envvar=SERVERS_SETTING, show_envvar=True,
    help="A Kafka cluster of your own: no broker is started here.",
)  # fmt: skip
@click.option(
    "--spark-remote", metavar="sc://HOST:PORT", envvar=REMOTE_SETTING, show_envvar=True,
    help="A Spark Connect server of your own: none is started here.",
)  # fmt: skip
@click.option("--watch", is_flag=True, help="Load the project anew whenever a file of it changes.")
@click.option("--only-broker", is_flag=True, help="Leave the platform out.")
def up(
    *,
    data: Path,
    project: Path,
    host: str,
    broker_port: int,
    ui_port: int,
    spark_port: int,
    metrics_port: int | None,
    overrides: tuple[str, ...],
    bootstrap_servers: str | None,
    spark_remote: str | None,
    watch: bool,
    only_broker: bool,
) -> None:
    """Start broker, warm Spark server, Dagster webserver and daemon, and keep them running.

    One line per component tells when it is ready and where. What dies is started again. Ctrl-C stops everything in order: runs are
    cancelled, Dagster and Spark end, the broker last. Without the platform extra (pip install 'tidelog[platform]') the broker runs alone.
    """
    read_settings_of(project)
    bootstrap_servers = bootstrap_servers or os.environ.get(SERVERS_SETTING) or None
    spark_remote = spark_remote or os.environ.get(REMOTE_SETTING) or None
    for override in overrides:
        if "=" not in override:
            raise click.BadParameter(f"{override!r} is not KEY=VALUE", param_hint="--broker")
    if bootstrap_servers and (only_broker or overrides):
        raise click.UsageError(f"--only-broker and --broker are about a broker that is started here; {SERVERS_SETTING} names another")
    with held_lock(data):
        pass
    context = service_context(
        data=data,
        project=project,
        host=host,
        broker_port=broker_port,
        ui_port=ui_port,
        spark_port=spark_port,
        metrics_port=metrics_port,
        bootstrap_servers=bootstrap_servers,
        spark_remote=spark_remote,
        is_watching=watch,
    )
    components = [external_broker(context) if context.is_broker_external else broker_component(context, overrides)]
    if not only_broker:
        registered = registered_components(context)
        components += registered
        if not registered:
            click.echo("the platform extra is not installed: the broker runs alone (pip install 'tidelog[platform]')")
    trio.run(run_until_interrupted, Supervisor(InstallationSpec(context=context, components=tuple(components)), click.echo))


def read_settings_of(project: Path) -> None:
    """Take the settings of the project's ``.env`` into this process, for all that it starts; what is set already stays."""
    if find_spec("dotenv") is not None:
        from dotenv import load_dotenv  # noqa: PLC0415 - comes with the platform extra

        load_dotenv(project / ".env", override=False)


async def run_until_interrupted(supervisor: Supervisor) -> None:
    """Run; the first Ctrl-C or SIGTERM stops in order, the second kills at once."""
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        running = trio.CancelScope()
        await nursery.start(stop_on_signals, supervisor, running)
        with running:
            failure = await run_installation(supervisor)
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def run_installation(supervisor: Supervisor) -> BaseException | None:
    """Run until cancelled, and return what went wrong at the start."""
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            click.echo("everything is ready; Ctrl-C stops it")
    except BaseExceptionGroup as group:
        failure = leaf(group)
        if not isinstance(failure, TidelogError):
            raise
        return failure
    return None


async def stop_on_signals(
    supervisor: Supervisor, running: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Cancel what runs at the first signal, kill it at the second."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            if running.cancel_called:
                supervisor.kill()
                return
            click.echo("stopping; a second Ctrl-C kills everything at once")
            running.cancel()
