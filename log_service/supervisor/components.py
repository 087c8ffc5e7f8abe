"""Makes an installation's components: broker, mirror, registry, and those of other packages.

It decides how the broker of ``tidelog up`` is configured, and chooses and checks ports. A project
with a ``mirror.properties`` has a mirror.

Other packages register callables in the entry point group ``tidelog.services``, which make their
components. This module knows nothing more of these components. Without the platform extra there
are none.
"""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from random import Random

from log_service.client.settings_files import settings_from_environment
from log_service.common.errors import ConfigError
from log_service.common.installation_names import MIRROR_FILE, SERVERS_SETTING
from log_service.common.listeners import DEFAULT_REGISTRY_PORT, DEFAULT_REST_PORT, LOOPBACK
from log_service.common.urls import host_port
from log_service.config.client import ClientConfig
from log_service.config.schema_registry_keys import URL as REGISTRY_URL_KEY
from log_service.mirror.settings_file import read_mirror_settings
from log_service.security.outgoing import outgoing_security
from log_service.supervisor.authority import CERTIFICATE_FILE, write_private
from log_service.supervisor.protection import (
    ANY_ADDRESS,
    LOGIN_LISTENER,
    REGISTRY,
    REST,
    SECURE_LISTENER,
    InstallationProtection,
    login_server,
)
from log_service.supervisor.spec import (
    Component,
    ComponentFactory,
    HeartbeatReadiness,
    HttpReadiness,
    KafkaReadiness,
    ServiceContext,
)

ENTRY_POINT_GROUP = "tidelog.services"
BROKER, MIRROR = "broker", "mirror"
"""The names of the components of a broker and of a project's mirror."""
DECLARED_TOPICS_FILE = "declared_topics.json"
"""The file of the project's declared topics in the data directory, for brokers that create a topic
automatically.
"""
DAY_MS = 24 * 3_600_000
METRICS_PORT = 9404
METRICS_KEY = "metrics.listener"


def external_broker(context: ServiceContext) -> Component:
    """Return the component that stands for the user's own cluster.

    Its readiness is checked with the client settings of the environment.

    Raises:
        ConfigError: the environment's settings of clients, or the files that they name, cannot be
            read or understood.
    """
    security = ClientConfig.of(context.bootstrap_servers, settings_from_environment()).security()
    outgoing_security(security, Random())  # noqa: S311 - it opens no connection
    return Component(
        name=BROKER,
        argv=(),
        readiness=KafkaReadiness(
            bootstrap_servers=context.bootstrap_servers, is_as_environment_says=True
        ),
        address=context.bootstrap_servers,
        start_deadline_s=30.0,
        external_setting=SERVERS_SETTING,
    )


def broker_component(
    context: ServiceContext,
    overrides: Sequence[str] = (),
    protection: InstallationProtection | None = None,
) -> Component:
    """Return the broker's component, and write its properties file.

    The user's own lines come last in the file. Only its owner may read it, because the lines may be
    secret. The timers of retention and compaction are long, because the platform's maintenance
    assets request both and show the results. The timers are only the backstop. The broker still
    compacts internal topics by itself.
    """
    directory = context.data_directory / BROKER
    directory.mkdir(parents=True, exist_ok=True)
    properties = directory / "server.properties"
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": (
            f"{'PLAINTEXT' if protection is None else SECURE_LISTENER}://{context.bootstrap_servers}"
        ),
        "log.dirs": str(directory / "logs"),
        "log.retention.check.interval.ms": str(DAY_MS),
        "log.cleaner.backoff.ms": str(DAY_MS),
        "auto.create.topics.declarations": str(context.data_directory / DECLARED_TOPICS_FILE),
        **registry_properties(context, BROKER, protection),
    }
    if protection is not None:
        settings |= protection.node_properties(BROKER)
        port = int(context.bootstrap_servers.rpartition(":")[2])
        settings["listeners"] += f",{LOGIN_LISTENER}://{login_server(port)}"
    if context.metrics_port is not None:
        settings[METRICS_KEY] = host_port(context.host, context.metrics_port)
    lines = [f"{key}={value}" for key, value in settings.items()]
    text = "\n".join(
        [
            "# Written anew by `tidelog up`; change it there with --broker key=value.",
            *lines,
            *overrides,
            "",
        ]
    )
    write_private(properties, text.encode())
    return Component(
        name=BROKER,
        argv=(sys.executable, "-m", "log_service.cli.main", "serve", str(properties)),
        readiness=KafkaReadiness(
            bootstrap_servers=context.bootstrap_servers, client_config=context.operator_config
        ),
        address=context.bootstrap_servers,
        metrics_url=metrics_url([*lines, *overrides]),
        start_deadline_s=60.0,
        stop_deadline_s=30.0,
    )


def prepared(brokers: Sequence[Component], others: Sequence[Component]) -> list[Component]:
    """Return ``brokers``. The essential ones run the ``before_brokers`` of ``others`` first.

    These are commands. One that fails does not keep a broker from starting.
    """
    commands = tuple(
        ("sh", "-c", '"$@"; true', "sh", *argv) for each in others for argv in each.before_brokers
    )
    return [
        replace(each, prepare=(*each.prepare, *commands)) if each.is_essential else each
        for each in brokers
    ]


def mirror_components(context: ServiceContext, after: Sequence[str]) -> list[Component]:
    """Return the component that mirrors clusters, in a list.

    The list is empty if the project has no ``mirror.properties``. ``after`` are the brokers' names.

    Raises:
        ConfigError: the file cannot be read, or has a value that cannot be used.
    """
    settings = context.project_directory / MIRROR_FILE
    if not settings.is_file():
        return []
    flows = read_mirror_settings(settings).flows
    directory = context.data_directory / MIRROR
    directory.mkdir(parents=True, exist_ok=True)
    heartbeat, complaint = directory / "mirror.alive", directory / "complaint.txt"
    signs = ("--heartbeat", str(heartbeat), "--complaint", str(complaint))
    return [
        Component(
            name=MIRROR,
            argv=(
                sys.executable,
                "-m",
                "log_service.cli.main",
                "mirror",
                "run",
                str(settings),
                *signs,
            ),
            readiness=HeartbeatReadiness(path=heartbeat),
            address=", ".join(flow.name for flow in flows),
            after=tuple(after),
            prepare=(("rm", "-f", str(heartbeat), str(complaint)),),
            complaint_path=complaint,
            is_essential=False,
        )
    ]


def registry_properties(
    context: ServiceContext, name: str, protection: InstallationProtection | None
) -> dict[str, str]:
    """Return the node's properties for its client of the schema registry.

    They are empty without a registry. ``name`` is the node's name.
    """
    if context.registry_port is None:
        return {}
    host = LOOPBACK if context.host in ANY_ADDRESS else context.host
    settings = {REGISTRY_URL_KEY: _service_url(host, context.registry_port, protection)}
    return settings if protection is None else {**settings, **protection.registry_access(name)}


def registry_component(
    context: ServiceContext, after: Sequence[str], protection: InstallationProtection | None = None
) -> list[Component]:
    """Return the component of the schema registry, in a list, and write its settings file.

    The list is empty if no port is set. ``after`` are the brokers' names.
    """
    if context.registry_port is None:
        return []
    lines = {"kafkastore.bootstrap.servers": context.bootstrap_servers}
    granting: tuple[tuple[str, ...], ...] = ()
    if protection is not None:
        lines |= protection.registry_properties() | lines
        granting = (
            (
                sys.executable,
                "-m",
                "log_service.supervisor.grants",
                context.bootstrap_servers,
                str(context.operator_config),
                REGISTRY,
            ),
        )
    service = _http_component(
        context, REGISTRY, context.registry_port, "schema-registry.properties", lines, protection
    )
    return [replace(service, after=tuple(after), prepare=granting)]


def rest_component(
    context: ServiceContext, after: Sequence[str], protection: InstallationProtection | None = None
) -> list[Component]:
    """Return the component of the REST proxy, in a list, and write its settings file.

    The list is empty if no port is set. ``after`` are the brokers' names.
    """
    if context.rest_port is None:
        return []
    lines = {"bootstrap.servers": context.bootstrap_servers}
    if context.registry_port is not None and find_spec("fastavro") is not None:
        scheme = "http" if protection is None else "https"
        at = host_port(context.host, context.registry_port)
        lines["schema.registry.url"] = f"{scheme}://{at}"
    if protection is not None:
        lines |= protection.rest_properties() | lines
    service = _http_component(
        context, REST, context.rest_port, "kafka-rest.properties", lines, protection
    )
    return [replace(service, after=tuple(after))]


def _http_component(  # noqa: PLR0917 - the facts of one service
    context: ServiceContext,
    name: str,
    port: int,
    file_name: str,
    lines: Mapping[str, str],
    protection: InstallationProtection | None,
) -> Component:
    """Return the component that runs ``tidelog NAME serve``, and write its settings file.

    Only the owner may read the file, because it may have the secrets of a client.
    """
    url = _service_url(context.host, port, protection)
    directory = context.data_directory / name
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / file_name
    pairs = {"listeners": url, **lines}
    text = "\n".join(
        ["# Written anew by `tidelog up`.", *(f"{key}={value}" for key, value in pairs.items()), ""]
    )
    write_private(settings, text.encode())
    authority = None if protection is None else protection.directory / CERTIFICATE_FILE
    return Component(
        name=name,
        argv=(sys.executable, "-m", "log_service.cli.main", name, "serve", str(settings)),
        readiness=HttpReadiness(url=f"{url}/readyz", authority=authority),
        address=url,
        metrics_url=f"{url}/metrics",
        is_essential=False,
    )


def _service_url(host: str, port: int, protection: InstallationProtection | None) -> str:
    scheme = "http" if protection is None else "https"
    return f"{scheme}://{host_port(host, port)}"


def registry_port_of(host: str, wanted: int | None) -> int | None:
    """Return the port of the schema registry, None for no registry.

    The port is chosen as by ``port_of``. Without the packages of the extra ``http`` there is no
    registry.

    Raises:
        ConfigError: the wanted port is occupied.
    """
    if find_spec("h11") is None or find_spec("jsonschema") is None:
        return None
    return port_of(host, wanted, DEFAULT_REGISTRY_PORT, "the schema registry", "--registry-port")


def rest_port_of(host: str, wanted: int | None) -> int | None:
    """Return the port of the REST proxy, None for no proxy.

    The port is chosen as by ``port_of``. Without the package ``h11`` there is no proxy.

    Raises:
        ConfigError: the wanted port is occupied.
    """
    if find_spec("h11") is None:
        return None
    return port_of(host, wanted, DEFAULT_REST_PORT, "the REST proxy", "--rest-port")


def metrics_url(lines: Sequence[str]) -> str:
    """Return the URL of the metrics page, empty if there is none.

    ``lines`` are properties. The last ``metrics.listener`` among them counts.
    """
    asked = [
        value.strip()
        for key, _, value in (line.partition("=") for line in lines)
        if key.strip() == METRICS_KEY
    ]
    return f"http://{asked[-1]}/metrics" if asked and asked[-1] else ""


def registered_components(context: ServiceContext) -> list[Component]:
    """Return the components that installed packages add.

    A package that lacks its optional dependencies adds none.
    """
    components: list[Component] = []
    for entry_point in sorted(
        entry_points(group=ENTRY_POINT_GROUP), key=lambda entry_point: entry_point.name
    ):
        try:
            factory: ComponentFactory = entry_point.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in {"orchestration", "log_service"}:
                raise
            continue
        components += factory(context)
    return components


def check_is_address(host: str) -> None:
    """Refuse a host that is not an address of this machine.

    Call it before ports are checked, because their errors would blame the port instead.

    Raises:
        ConfigError: the name is unknown, or the address is not this machine's.
    """
    try:
        _bind_once(host, 0)
    except OSError as error:
        raise ConfigError(
            f"--host {host} is not an address of this machine ({error.strerror or error}): name one"
            " that it has"
        ) from error


def check_port_is_free(host: str, port: int, what: str, option: str) -> None:
    """Refuse an occupied port before anything starts.

    The error names the listener by ``what``, and its command-line option by ``option``.

    Raises:
        ConfigError: another process listens there already, or the host is not an address of this
            machine.
    """
    try:
        _bind_once(host, port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigError(
            f"{what} cannot listen on {host}:{port} ({reason}): name another one with {option}"
        ) from error


def check_ports_are_free(wanted: Sequence[tuple[str, int, str, str]]) -> None:
    """Refuse occupied ports, with a sentence for each.

    The items of ``wanted`` are arguments of ``check_port_is_free``.

    Raises:
        ConfigError: one or more ports cannot be bound.
    """
    refusals = []
    for one in wanted:
        try:
            check_port_is_free(*one)
        except ConfigError as error:
            refusals.append(str(error))
    if refusals:
        raise ConfigError("\n".join(refusals))


def check_servers(bootstrap_servers: str) -> None:
    """Refuse invalid addresses of a cluster. The error names the setting that they come from.

    Raises:
        ConfigError: the addresses are not ``host:port,...``.
    """
    try:
        ClientConfig.of(bootstrap_servers, {})
    except ConfigError as error:
        text = (
            f"{SERVERS_SETTING} (or --bootstrap-servers) is {bootstrap_servers!r}: it has to be"
            " host:port, several separated by commas"
        )
        raise ConfigError(text) from error


def _bind_once(host: str, port: int) -> None:
    """Bind to an address and release it. Raises OSError if that fails."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def metrics_port_of(host: str, wanted: int | None, *, usual: int = METRICS_PORT) -> int | None:
    """Return the port of a broker's metrics page, None for no page.

    The port is chosen as by ``port_of``.

    Raises:
        ConfigError: the wanted port is occupied.
    """
    return port_of(host, wanted, usual, "the metrics page", "--metrics-port")


def port_of(host: str, wanted: int | None, usual: int, what: str, option: str) -> int | None:
    """Return the port of a service: ``wanted``, or without it ``usual`` or any free port.

    ``wanted`` 0 means no port, so None is returned. ``wanted`` None leaves the choice to this
    function: ``usual`` unless it is occupied, else any free port. ``what`` and ``option`` are those
    of ``check_port_is_free``.

    Raises:
        ConfigError: the wanted port is occupied.
    """
    if wanted is not None:
        if wanted:
            check_port_is_free(host, wanted, what, option)
        return wanted or None
    try:
        check_port_is_free(host, usual, what, option)
    except ConfigError:
        with socket.create_server((host, 0)) as probe:
            port: int = probe.getsockname()[1]
        return port
    return usual


def service_context(
    *,
    data: Path,
    project: Path,
    host: str,
    broker_port: int,
    ui_port: int,
    spark_port: int,
    metrics_port: int | None = 0,
    registry_port: int | None = 0,
    rest_port: int | None = 0,
    console_port: int | None = None,
    bootstrap_servers: str | None = None,
    spark_remote: str | None = None,
    is_watching: bool = False,
    has_platform: bool = True,
) -> ServiceContext:
    """Return the settings that all components share. Make sure that their ports are free.

    ``metrics_port``, ``registry_port`` and ``rest_port`` are chosen as by ``port_of``.
    ``console_port`` was chosen by the caller (``console_port_of``). None means no console.

    ``bootstrap_servers`` and ``spark_remote`` name a cluster and a Spark Connect server of the
    user's own. The installation then starts none itself. Without the platform nothing listens on
    ``ui_port`` and ``spark_port``.

    Raises:
        ConfigError: ports are occupied (the text names them all), ``host`` is not an address of
            this machine, or ``bootstrap_servers`` are not addresses.
    """
    check_is_address(host)
    if bootstrap_servers is not None:
        check_servers(bootstrap_servers)
    check_ports_are_free(
        [
            *(
                [(host, broker_port, "the broker", "--broker-port")]
                if bootstrap_servers is None
                else []
            ),
            *(
                [(host, metrics_port, "the metrics page", "--metrics-port")]
                if bootstrap_servers is None and metrics_port
                else []
            ),
            *([(host, ui_port, "the Dagster UI", "--ui-port")] if has_platform else []),
            *(
                [(LOOPBACK, spark_port, "the Spark server", "--spark-port")]
                if has_platform and spark_remote is None
                else []
            ),
        ]
    )
    return ServiceContext(
        data_directory=data.resolve(),
        project_directory=project.resolve(),
        host=host,
        bootstrap_servers=bootstrap_servers or host_port(host, broker_port),
        ui_port=ui_port,
        spark_port=spark_port,
        metrics_port=metrics_port_of(host, metrics_port) if bootstrap_servers is None else None,
        registry_port=registry_port_of(host, registry_port),
        rest_port=rest_port_of(host, rest_port),
        console_port=console_port,
        is_broker_external=bootstrap_servers is not None,
        spark_remote=spark_remote,
        is_watching=is_watching,
    )
