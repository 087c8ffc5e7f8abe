"""A component as plain values: how to start it, when it is ready, and how it stops.

Nothing here runs a process. Packages register components through the entry point group
``tidelog.services``: a callable that takes a ``ServiceContext`` and returns ``Component`` values.
Components start in the order of their ``after``, and stop in the opposite order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Argv = tuple[str, ...]
CODE = "code"
"""The name of the component that serves a project with tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReadiness:
    """Ready once a request to the URL gets a response with a status below 400.

    ``authority`` is the certificate file of the authority that an https server must have.
    """

    url: str
    authority: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaReadiness:
    """Ready once one of the addresses, ``host:port,host:port``, responds to a Kafka request.

    ``client_config`` is a properties file with the clients' settings for encryption and login. None
    means neither. With ``is_as_environment_says`` the settings are those of
    ``TIDELOG_CLIENT_CONFIG`` and similar variables, as for all clients of the user's own cluster.
    They are read with each probe, so that a component holds no secret.
    """

    bootstrap_servers: str
    client_config: Path | None = None
    is_as_environment_says: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcReadiness:
    """Ready once a call of ``method`` (``/package.Service/Method``) gets a response.

    ``message`` is the body of the call. An error is a response, too. gRPC's own threads respond to
    the first frames of a connection, even if the program behind them hangs. So the probe calls a
    cheap method that the program itself handles.

    The address is ``host`` and ``port``, or the Unix socket ``socket_path``.

    ``token_path`` is a file with a token that authenticates the call. The environment variable
    ``token_variable`` takes precedence over the file. Both are read with each probe, so that a
    component holds no secret.
    """

    method: str
    host: str = ""
    port: int = 0
    socket_path: Path | None = None
    message: bytes = b""
    token_path: Path | None = None
    token_variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReadiness:
    """Ready if a file was touched within the last ``max_age_s``.

    It is for components that listen on no port.
    """

    path: Path
    max_age_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UptimeReadiness:
    """Ready once the process has run for ``seconds``. Later hangs are not noticed."""

    seconds: float = 2.0


Readiness = HttpReadiness | KafkaReadiness | GrpcReadiness | HeartbeatReadiness | UptimeReadiness


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One process of an installation.

    Without ``argv`` it is the user's own component, which is waited for and never started or
    stopped.

    ``readiness`` is checked until the component is ready, and then every ``health_interval_s``. A
    component that does not respond three times in a row is killed and started again.
    ``external_setting`` names the setting that points to the user's own component.
    ``complaint_path`` is a file in which a component that responds reports problems in its work,
    one line each. It may be missing or empty.

    ``before_brokers`` are commands that run before each start of the installation's own brokers.
    Their exit codes do not matter.

    ``prepare`` are commands that run to their end before each start of the component and must
    succeed. The commands ``before_stop`` run once when the installation stops, while the component
    and all in ``after`` still run. ``stop_deadline_s`` is how long the component may take to end
    after SIGTERM before it is killed. Components of one ``stop_group`` that start one after the
    other are asked to stop at the same time.

    If the first start of an ``is_essential`` component fails, or the user's own component does not
    respond in time, the installation ends. Any other component is tried again until it succeeds,
    and nothing else of the installation ends with it.
    """

    name: str
    argv: Argv
    readiness: Readiness
    address: str = ""
    metrics_url: str = ""
    after: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: Path | None = None
    prepare: tuple[Argv, ...] = ()
    before_brokers: tuple[Argv, ...] = ()
    before_stop: tuple[Argv, ...] = ()
    start_deadline_s: float = 120.0
    stop_deadline_s: float = 20.0
    health_interval_s: float = 10.0
    external_setting: str = ""
    stop_group: str = ""
    complaint_path: Path | None = None
    is_essential: bool = True

    @property
    def is_external(self) -> bool:
        """Whether the component is the user's own."""
        return not self.argv


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """Facts about the installation that every component may need. All paths are absolute."""

    data_directory: Path
    project_directory: Path
    host: str
    bootstrap_servers: str
    ui_port: int
    spark_port: int
    metrics_port: int | None = None  # of the broker; None: it has no metrics page
    registry_port: int | None = None  # of the schema registry; None: there is none
    rest_port: int | None = None  # of the REST proxy; None: there is none
    console_port: int | None = None  # of the web console; None: there is none
    is_broker_external: bool = False
    is_watching: bool = False  # the project is loaded anew when a file of it changes
    client_config: Path | None = (
        None  # how the platform's clients encrypt and log in; None: as the environment says
    )
    operator_config: Path | None = (
        None  # the same of the person who administers, if the installation is secured
    )
    login_config: Path | None = (
        None  # how Dagster's UI has passwords checked, if the installation is secured
    )
    spark_remote: str | None = None  # a Spark Connect server of the user's own


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationSpec:
    """Everything that one supervisor runs."""

    context: ServiceContext
    components: tuple[Component, ...]


ComponentFactory = Callable[[ServiceContext], Sequence[Component]]
"""What a package registers under ``tidelog.services``."""


def start_order(components: Sequence[Component]) -> list[Component]:
    """Sort the components so that each comes after all components in its ``after``.

    Raises:
        ValueError: a name is unknown or occurs twice, or components wait for each other in a
            circle.
    """
    by_name = {component.name: component for component in components}
    if len(by_name) != len(components):
        raise ValueError("two components have the same name")
    unknown = {name for component in components for name in component.after} - by_name.keys()
    if unknown:
        raise ValueError(
            f"components wait for {', '.join(sorted(unknown))}, which are not among them"
        )
    ordered: list[Component] = []
    waiting = list(components)
    while waiting:
        started = {component.name for component in ordered}
        ready = [component for component in waiting if set(component.after) <= started]
        if not ready:
            raise ValueError(
                "components wait for each other:"
                f" {', '.join(component.name for component in waiting)}"
            )
        ordered += ready
        waiting = [component for component in waiting if component not in ready]
    return ordered
