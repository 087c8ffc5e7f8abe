"""``tidelog up`` runs an installation until Ctrl-C."""

import shutil
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
import trio
from click.core import ParameterSource

from log_service.cli.numbers import WholeNumber
from log_service.cli.output import data_option, key_values
from log_service.cli.project_settings import read_settings_of
from log_service.common.errors import TidelogError, first_error
from log_service.common.installation_names import (
    DEFAULT_SPARK_PORT,
    SERVERS_SETTING,
    SPARK_REMOTE_SETTING,
)
from log_service.common.listeners import DEFAULT_BROKER_PORT
from log_service.common.stop_signals import StopRequests
from log_service.config.definition import unknown_keys_warning
from log_service.config.describe import broker_key
from log_service.config.server_keys import SERVER_KEYS
from log_service.supervisor import control
from log_service.supervisor.components import (
    BROKER,
    broker_component,
    external_broker,
    mirror_components,
    prepared,
    registered_components,
    registry_component,
    rest_component,
    service_context,
)
from log_service.supervisor.console_component import (
    console_component,
    console_port_of,
    in_project,
)
from log_service.supervisor.fleet import Fleet
from log_service.supervisor.nodes import (
    MAX_BROKERS,
    ClusterSpec,
    NodeFactory,
    check_login_ports,
    check_node_ports,
    cluster_of,
    login_servers,
    read_cluster,
    refuse_factors,
    write_cluster,
)
from log_service.supervisor.nodes import bootstrap_servers as bootstrap_of
from log_service.supervisor.protection import (
    OPERATOR,
    PLATFORM,
    InstallationProtection,
    is_protected,
    keep_certificates,
    protect,
)
from log_service.supervisor.spec import Component, InstallationSpec, ServiceContext
from log_service.supervisor.state import held_lock
from log_service.supervisor.supervisor import Supervisor

START_TIMEOUT_SETTING = "TIDELOG_START_TIMEOUT_S"
SECONDS = WholeNumber(1, 86_400)
Upkeep = Callable[[], Awaitable[None]]
PORT = WholeNumber(1, 65_535)
"""The type of a component's port. 0 is refused, because other components need to know the port."""
PORT_SETTINGS = (
    "TIDELOG_BROKER_PORT",
    "TIDELOG_UI_PORT",
    "TIDELOG_SPARK_PORT",
    "TIDELOG_METRICS_PORT",
    "TIDELOG_REGISTRY_PORT",
    "TIDELOG_REST_PORT",
    "TIDELOG_CONSOLE_PORT",
)


def read_project_settings(
    _context: click.Context, _parameter: click.Parameter, project: Path
) -> Path:
    """Read the project's ``.env`` into this process, before options that depend on it."""
    read_settings_of(project)
    return project


@click.command()
@data_option("Where all state lies; a second start on it carries on.")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default=True,
    is_eager=True,
    callback=read_project_settings,
    help="The project to load: a folder with a package assets/, and sensors/ if it has some.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to bind to. Beyond 127.0.0.1 the Dagster UI is open to all who reach it: it"
    " has no login, and its users run code.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Encrypt and authorize: a local authority, certificates, ACLs. Later starts keep it.",
)
@click.option(
    "--broker-port",
    type=PORT,
    metavar="PORT",
    default=DEFAULT_BROKER_PORT,
    show_default=True,
    envvar=PORT_SETTINGS[0],
    show_envvar=True,
    help="Where Kafka clients connect.",
)
@click.option(
    "--ui-port",
    type=PORT,
    metavar="PORT",
    default=3000,
    show_default=True,
    envvar=PORT_SETTINGS[1],
    show_envvar=True,
    help="Where the Dagster UI is.",
)
@click.option(
    "--spark-port",
    type=PORT,
    metavar="PORT",
    default=DEFAULT_SPARK_PORT,
    show_default=True,
    envvar=PORT_SETTINGS[2],
    show_envvar=True,
    help="Where the warm Spark server listens, on 127.0.0.1.",
)
@click.option(
    "--metrics-port",
    type=WholeNumber(0, 65_535),
    metavar="PORT",
    envvar=PORT_SETTINGS[3],
    show_envvar=True,
    help="Where Prometheus reads the broker's metrics; 0 is nowhere."
    "  [default: 9404, or one that is free]",
)
@click.option(
    "--registry-port",
    type=WholeNumber(0, 65_535),
    metavar="PORT",
    envvar=PORT_SETTINGS[4],
    show_envvar=True,
    help="Where the schema registry is; 0 is nowhere.  [default: 8081, or one that is free]",
)
@click.option(
    "--no-registry", is_flag=True, help="Start no schema registry, as with --registry-port 0."
)
@click.option("--rest", is_flag=True, help="Start a REST proxy, too.")
@click.option(
    "--rest-port",
    type=WholeNumber(0, 65_535),
    metavar="PORT",
    envvar=PORT_SETTINGS[5],
    show_envvar=True,
    help="Start a REST proxy there; 0 is nowhere."
    "  [default: 8082 with --rest, or one that is free]",
)
@click.option(
    "--console-port",
    type=WholeNumber(0, 65_535),
    metavar="PORT",
    envvar=PORT_SETTINGS[6],
    show_envvar=True,
    help="Where the web console is; 0 is nowhere.  [default: 8080, or one that is free]",
)
@click.option("--no-console", is_flag=True, help="Start no web console, as with --console-port 0.")
@click.option(
    "--broker",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A server property for the broker; may be repeated.",
)
@click.option(
    "--brokers",
    "broker_count",
    type=WholeNumber(1, MAX_BROKERS),
    metavar="N",
    help="Run a cluster of N brokers, a process each; from 3 on, three are controllers.",
)
@click.option(
    "--rack",
    metavar="NAME",
    help="With --brokers: the broker.rack of all nodes; the host's name where none is given.",
)
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT,...",
    envvar=SERVERS_SETTING,
    show_envvar=True,
    help="A Kafka cluster of your own: no broker is started here.",
)
@click.option(
    "--spark-remote",
    metavar="sc://HOST:PORT",
    envvar=SPARK_REMOTE_SETTING,
    show_envvar=True,
    help="A Spark Connect server of your own: none is started here.",
)
@click.option(
    "--start-timeout",
    type=SECONDS,
    metavar="SECONDS",
    envvar=START_TIMEOUT_SETTING,
    show_envvar=True,
    help="How long a component may take until it is ready, before it is started again."
    "  [default: 30 to 120, by component]",
)
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
    registry_port: int | None,
    no_registry: bool,
    rest: bool,
    rest_port: int | None,
    console_port: int | None,
    no_console: bool,
    overrides: tuple[str, ...],
    broker_count: int | None,
    rack: str | None,
    bootstrap_servers: str | None,
    spark_remote: str | None,
    start_timeout: int | None,
    watch: bool,
    only_broker: bool,
    secure: bool,
) -> None:
    """Start broker, Spark, Dagster's webserver and daemon, and keep them running.

    A schema registry, a web console and a project's mirror run, too. Spark stays warm. One line per
    component tells when it is ready and where. A component that dies, or is not ready in time, is
    started again, and the others continue; only a broker whose first start fails ends all. tidelog
    status shows what waits for what. Ctrl-C stops all in order: runs, Dagster, Spark, and the
    broker last. Without the platform extra (pip install 'tidelog[platform]') the broker runs alone.
    """
    warn_of_unknown(key_values(overrides, "--broker"))
    is_own = not bootstrap_servers
    if not is_own and (only_broker or overrides or broker_count or rack or secure):
        refuse_own_brokers()
    with left_as_it_was(data):
        # Held while it is prepared, too: that takes seconds.
        click.get_current_context().with_resource(held_lock(data))
        cluster = wanted_cluster(data, broker_count, rack, overrides) if is_own else None
        context = service_context(
            data=data,
            project=project,
            host=host,
            broker_port=broker_port,
            ui_port=ui_port,
            spark_port=spark_port,
            metrics_port=metrics_port,
            registry_port=0 if no_registry else registry_port,
            rest_port=rest_port if rest or rest_port else 0,
            console_port=console_port_of(0 if no_console else console_port),
            bootstrap_servers=bootstrap_servers,
            spark_remote=spark_remote,
            is_watching=watch,
            has_platform=not only_broker,
        )
        context = clustered_context(context, cluster, broker_port)
        protection = protection_of(data, host, cluster, is_wanted=secure) if is_own else None
        context = protected_context(context, protection, cluster, broker_port)
        factory = formatted_nodes(
            context, cluster, overrides, broker_port, is_secure=protection is not None
        )
        brokers = broker_components(factory, cluster, protection)
        services = [] if only_broker else platform_components(context)
        components = patient(together(brokers, services), start_timeout)
    installation = InstallationSpec(context=context, components=tuple(components))
    supervisor = Supervisor(installation, click.echo, is_data_held=True)
    fleet = None if cluster is None else Fleet(supervisor, cluster, factory)
    trio.run(run_until_interrupted, supervisor, fleet, upkeep_of(data, host, protection))


def refuse_own_brokers() -> None:
    """Refuse options about brokers that ``up`` starts, because it uses other brokers.

    Raises:
        UsageError: always. The text names the option or variable with the other brokers.
    """
    source_of = click.get_current_context().get_parameter_source
    is_option = source_of("bootstrap_servers") is ParameterSource.COMMANDLINE
    servers_by = "--bootstrap-servers" if is_option else SERVERS_SETTING
    raise click.UsageError(
        "--only-broker, --broker, --brokers, --rack and --secure are about brokers started"
        f" here; {servers_by} names others"
    )


def clustered_context(
    context: ServiceContext, cluster: ClusterSpec | None, first_port: int
) -> ServiceContext:
    """Return the context with the addresses of a cluster's nodes. Their ports must be free."""
    if cluster is None:
        return context
    check_node_ports(cluster, context.host, first_port)
    servers = bootstrap_of(cluster, context.host, first_port)
    return replace(context, bootstrap_servers=servers)


def wanted_cluster(
    data: Path, broker_count: int | None, rack: str | None, overrides: Sequence[str]
) -> ClusterSpec | None:
    """Return the nodes that ``up`` starts, or None for a single broker. Raises UsageError."""
    cluster = cluster_of(data, broker_count, rack)
    refuse_factors(overrides, 1 if cluster is None else len(cluster.nodes))
    if rack and cluster is None:
        raise click.UsageError("--rack is about the nodes of a cluster: give --brokers, too")
    return cluster


def formatted_nodes(
    context: ServiceContext,
    cluster: ClusterSpec | None,
    overrides: tuple[str, ...],
    first_port: int,
    *,
    is_secure: bool,
) -> NodeFactory:
    """Return the factory of the brokers, after it has formatted the nodes of a new cluster."""
    factory = NodeFactory(
        context=context, first_port=first_port, overrides=overrides, is_secure=is_secure
    )
    if cluster is not None:
        data = context.data_directory
        factory.format(cluster, cluster.nodes if read_cluster(data) is None else ())
        write_cluster(data, cluster)
    return factory


def together(brokers: Sequence[Component], platform: Sequence[Component]) -> list[Component]:
    """Return all components.

    Each broker first runs the commands that platform components want done before brokers.
    """
    return in_project([*prepared(brokers, platform), *platform])


def patient(components: list[Component], start_timeout: int | None) -> list[Component]:
    """Return the components with the start deadline in ``start_timeout``, if the user gave one."""
    return (
        components
        if start_timeout is None
        else [replace(each, start_deadline_s=float(start_timeout)) for each in components]
    )


def warn_of_unknown(given: Iterable[str]) -> None:
    """Warn of names that are not keys of a broker.

    The node warns of them too, but only in its log.
    """
    if warning := unknown_keys_warning(
        [name for name in given if broker_key(name) is None], SERVER_KEYS
    ):
        click.echo(f"warning: --broker: {warning}", err=True)


def protection_of(
    data: Path, host: str, cluster: ClusterSpec | None, *, is_wanted: bool
) -> InstallationProtection | None:
    """Return the protection of the installation, if it is wanted now or was made before.

    Return None if the installation is not secured.
    """
    if not is_wanted and not is_protected(data):
        return None
    return protect(
        data, host, [BROKER] if cluster is None else [node.name for node in cluster.nodes]
    )


def protected_context(
    context: ServiceContext,
    protection: InstallationProtection | None,
    cluster: ClusterSpec | None,
    broker_port: int,
) -> ServiceContext:
    """Return the context. If the installation is protected, add its files for clients and logins.

    Raises:
        ConfigError: a port for logins is occupied.
    """
    if protection is None:
        return context
    check_login_ports(cluster, broker_port)
    return replace(
        context,
        client_config=protection.client_file(PLATFORM),
        operator_config=protection.client_file(OPERATOR),
        login_config=protection.write_login_file(login_servers(cluster, broker_port)),
    )


def upkeep_of(data: Path, host: str, protection: InstallationProtection | None) -> Sequence[Upkeep]:
    """Return the tasks that run beside the installation: renewing its certificates, if any."""
    return () if protection is None else (partial(keep_certificates, data, host, click.echo),)


def broker_components(
    factory: NodeFactory,
    cluster: ClusterSpec | None,
    protection: InstallationProtection | None = None,
) -> list[Component]:
    """Return the components of the brokers, of the HTTP services and of the project's mirror.

    The brokers are the user's own, a single one, or all nodes of a cluster.
    """
    if factory.context.is_broker_external:
        brokers = [external_broker(factory.context)]
    elif cluster is None:
        brokers = [broker_component(factory.context, factory.overrides, protection)]
    else:
        brokers = list(factory.components(cluster))
    names = [each.name for each in brokers]
    return [
        *brokers,
        *registry_component(factory.context, names, protection),
        *rest_component(factory.context, names, protection),
        *console_component(factory.context, brokers, protection),
        *mirror_components(factory.context, names),
    ]


def platform_components(context: ServiceContext) -> list[Component]:
    """Return the platform's components.

    Without the extra it prints a note and returns none.
    """
    registered = registered_components(context)
    if not registered:
        click.echo(
            "the platform extra is not installed: the broker runs alone (pip install"
            " 'tidelog[platform]')"
        )
    return registered


@contextmanager
def left_as_it_was(data: Path) -> Iterator[None]:
    """Remove a new data directory if the start in the block is refused."""
    is_new = not data.exists()
    try:
        yield
    except TidelogError:
        if is_new:
            shutil.rmtree(data, ignore_errors=True)
        raise


async def run_until_interrupted(
    supervisor: Supervisor, fleet: Fleet | None = None, upkeep: Sequence[Upkeep] = ()
) -> None:
    """Run the installation until the first Ctrl-C or SIGTERM, and then stop it in order.

    A later signal kills it at once. Nodes of ``fleet`` are added and removed on request. The tasks
    in ``upkeep`` run beside the installation, once the brokers are ready.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        running = trio.CancelScope()
        await nursery.start(stop_on_signals, supervisor, running)
        with running:
            failure = await run_installation(supervisor, fleet, upkeep)
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def run_installation(
    supervisor: Supervisor, fleet: Fleet | None, upkeep: Sequence[Upkeep]
) -> BaseException | None:
    """Run until cancelled. Return the error that ended the installation before, if any."""
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            for each in upkeep:
                nursery.start_soon(each)
            if fleet is not None:
                nursery.start_soon(control.serve, supervisor.data_directory, fleet.handle)
            await supervisor.wait_until_all_are_ready()
            click.echo("everything is ready; Ctrl-C stops it")
    except BaseExceptionGroup as group:
        failure = first_error(group)
        if not isinstance(failure, TidelogError):
            raise
        return failure
    return None


async def stop_on_signals(
    supervisor: Supervisor,
    running: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Cancel ``running`` at the first signal, and kill the supervisor's processes at the second."""
    requests = StopRequests()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            if requests.is_repeated():
                continue
            if requests.is_second:
                supervisor.kill()
                return
            click.echo(
                "stopping; Ctrl-C once more, after a second or later, kills everything at once"
            )
            running.cancel()
