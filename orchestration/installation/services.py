"""The platform's processes for the supervisor: Spark server and Dagster's servers and daemon.

Decides their start, their order and their environment, and the supervisor does the rest. Dagster's
servers are the code server and the webserver. The entry point ``tidelog.services`` names
``components``.

The code server is a component of its own, because runs are its children. When it dies, they die
with it, and before its next start they are marked as failed (``installation.instance``). The daemon
starts after it and so stops before it. So no run is launched while runs are cancelled.
"""

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from log_service.client import ConfigError, settings_from_file
from log_service.common.installation_names import (
    DEFAULT_SPARK_PORT,
    SERVERS_SETTING,
    SPARK_REMOTE_SETTING,
)
from log_service.common.listeners import LOOPBACK
from log_service.common.urls import host_port
from log_service.config.client_security import SSL_SETTINGS
from log_service.supervisor.components import DECLARED_TOPICS_FILE
from log_service.supervisor.protection import ANY_ADDRESS
from log_service.supervisor.spec import (
    CODE,
    Component,
    GrpcReadiness,
    HeartbeatReadiness,
    HttpReadiness,
    ServiceContext,
)
from orchestration.installation.code_socket import code_socket
from orchestration.installation.daemon.heartbeat import heartbeat_file
from orchestration.installation.instance import write_workspace
from orchestration.project.home import dagster_home
from orchestration.settings import (
    REGISTRY_PREFIX,
    REGISTRY_URL,
    UI_HOSTS,
    UI_LOGIN,
    SettingsError,
    load_settings,
    process_environment,
    ui_hosts,
    ui_login,
)
from orchestration.spark.java import JavaError
from orchestration.spark.server import SPARK_RELEASE_SESSION, SparkServer, release_of_no_session
from orchestration.spark.session import CONNECT_MODE
from orchestration.spark.token import TOKEN_VARIABLE, token_path

SPARK, WEB, DAEMON = "spark", "dagster", "daemon"
PACKAGE = "orchestration"
"""The package that runs each process by its name."""
MEMORY_VARIABLES: Mapping[str, str] = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}
CODE_SERVER_PING = "/api.DagsterApi/Ping"
COMPLAINT_FILE = "project_error.txt"
CANCEL_RUNS_DEADLINE_S = 60.0
# It waits for a tick that waits for records. Killing it is safe: whatever it was about is found
# again.
DAEMON_STOP_DEADLINE_S = 2.0


def components(context: ServiceContext) -> list[Component]:
    """Return the platform's components. Writes the workspace file that they load.

    :raises ConfigError: there is no project, no Java that Spark can run on, or a setting cannot be
        used.
    """
    try:
        return _components(context)
    except (JavaError, SettingsError) as error:
        raise ConfigError(str(error)) from error


def _components(context: ServiceContext) -> list[Component]:
    environment = platform_environment(context)
    socket_path = code_socket(context.data_directory)
    is_postgres = load_settings({**process_environment(), **environment}).postgres_url is not None
    workspace = write_workspace(
        context.data_directory, context.project_directory, socket_path, is_postgres=is_postgres
    )
    heartbeat = heartbeat_file(dagster_home(context.data_directory))
    python = sys.executable
    return [
        (
            external_spark(context.spark_remote)
            if context.spark_remote
            else own_spark(context, environment)
        ),
        code_server(context, environment, socket_path),
        Component(
            name=WEB,
            argv=(
                python,
                "-m",
                PACKAGE,
                "webserver",
                "--host",
                context.host,
                "--port",
                str(context.ui_port),
                "--workspace",
                str(workspace),
            ),
            readiness=HttpReadiness(
                url=f"{ui_url(context)}/{'login' if asks_for_login(context) else 'server_info'}"
            ),
            address=ui_url(context),
            after=(CODE,),
            environment={**environment, **ui_environment(context)},
            working_directory=context.project_directory,
            is_essential=False,
        ),
        Component(
            name=DAEMON,
            argv=(
                python,
                "-m",
                PACKAGE,
                "daemon",
                "run",
                "--log-level",
                "warning",
                "--workspace",
                str(workspace),
            ),
            readiness=HeartbeatReadiness(path=heartbeat),
            prepare=(("rm", "-f", str(heartbeat)),),
            after=(CODE,),
            stop_deadline_s=DAEMON_STOP_DEADLINE_S,
            is_essential=False,
            environment=environment,
            working_directory=context.project_directory,
        ),
    ]


def code_server(
    context: ServiceContext, environment: Mapping[str, str], socket_path: Path
) -> Component:
    """Return the component that loads the project.

    It writes the project's declared topics before the brokers start. Also removes the file of
    complaints that an earlier code server left.
    """
    python = sys.executable
    watch = ["--watch"] if context.is_watching else []
    complaint = context.data_directory / COMPLAINT_FILE
    complaint.unlink(missing_ok=True)
    instance = (python, "-m", PACKAGE, "instance")
    declared = str(context.data_directory / DECLARED_TOPICS_FILE)
    return Component(
        name=CODE,
        argv=(
            python,
            "-m",
            PACKAGE,
            "code_server",
            "--socket",
            str(socket_path),
            "--complaint",
            str(complaint),
            *watch,
        ),
        complaint_path=complaint,
        readiness=GrpcReadiness(socket_path=socket_path, method=CODE_SERVER_PING),
        address=f"unix:{socket_path}",
        after=("broker", SPARK),
        environment=environment,
        working_directory=context.project_directory,
        prepare=(("rm", "-f", str(complaint)), *granting(context), (*instance, "prepare")),
        before_brokers=(
            (
                python,
                "-m",
                PACKAGE,
                "declare",
                "--project",
                str(context.project_directory),
                "--file",
                declared,
            ),
        ),
        before_stop=((*instance, "cancel-runs"),),
        stop_deadline_s=CANCEL_RUNS_DEADLINE_S,
        is_essential=False,
    )


def ui_url(context: ServiceContext) -> str:
    """Return the URL at which browsers open the Dagster UI."""
    return f"http://{host_port(context.host, context.ui_port)}"


def asks_for_login(context: ServiceContext) -> bool:
    """Return whether the UI asks for a login.

    It does in a secured installation, or if the user's own setting says so.
    """
    return context.login_config is not None or ui_login(process_environment()) is not None


def ui_environment(context: ServiceContext) -> dict[str, str]:
    """Return the variables with the UI's allowed hosts and the file by which it checks logins."""
    hosts = {UI_HOSTS: ",".join([context.host, *ui_hosts(process_environment())])}
    own = ui_login(process_environment()) or context.login_config
    return hosts if own is None else {**hosts, UI_LOGIN: str(own)}


def granting(context: ServiceContext) -> tuple[tuple[str, ...], ...]:
    """Return the commands that give the platform its rights in a secured installation.

    There are none in another installation.
    """
    if context.operator_config is None:
        return ()
    return (
        (
            sys.executable,
            "-m",
            "log_service.supervisor.grants",
            context.bootstrap_servers,
            str(context.operator_config),
        ),
    )


def own_spark(context: ServiceContext, environment: Mapping[str, str]) -> Component:
    """Return the component of a Spark Connect server that is started here."""
    settings = load_settings({**process_environment(), **environment})
    server = SparkServer(settings=settings, port=context.spark_port)
    return Component(
        name=SPARK,
        argv=tuple(server.argv()),
        readiness=spark_readiness(LOOPBACK, context.spark_port, token_path(settings)),
        address=server.url,
        environment=server.environment(
            {
                **process_environment(),
                **clients_environment(context),
                **registry_environment(context),
                "PYTHONPATH": environment["PYTHONPATH"],
            }
        ),
        working_directory=context.data_directory,
        is_essential=False,
    )


def external_spark(remote: str) -> Component:
    """Return the component of a Spark Connect server that the user runs.

    :raises ConfigError: the address is not valid.
    """
    address = urlsplit(remote)
    try:
        port = address.port or DEFAULT_SPARK_PORT
    except ValueError:
        port = 0
    if address.scheme != "sc" or not address.hostname or not port:
        shown = remote.partition(";")[0]  # what follows may be a token
        raise ConfigError(
            f"{SPARK_REMOTE_SETTING} is {shown!r}: it has to be sc://host:port, the address of a"
            " Spark Connect server"
        )
    return Component(
        name=SPARK,
        argv=(),
        readiness=spark_readiness(address.hostname, port, None),
        address=f"sc://{address.hostname}:{port}",
        start_deadline_s=60.0,
        external_setting=SPARK_REMOTE_SETTING,
        is_essential=False,
    )


def spark_readiness(host: str, port: int, token: Path | None) -> GrpcReadiness:
    """Return the readiness check of a Spark Connect server.

    The check asks the server to release a session that does not exist, which has no side effects.
    ``token`` is the file with the token that the server accepts, if that is known. The environment
    variable of Spark takes precedence over the file.
    """
    return GrpcReadiness(
        host=host,
        port=port,
        method=SPARK_RELEASE_SESSION,
        message=release_of_no_session(),
        token_path=token,
        token_variable=TOKEN_VARIABLE,
    )


def platform_environment(context: ServiceContext) -> dict[str, str]:
    """Return the environment of every platform process: places of data, brokers and Spark."""
    given = [path] if (path := process_environment().get("PYTHONPATH")) else []
    return {
        **memory_environment(process_environment()),
        "DAGSTER_HOME": str(dagster_home(context.data_directory)),
        "TIDELOG_DATA": str(context.data_directory),
        SERVERS_SETTING: context.bootstrap_servers,
        SPARK_REMOTE_SETTING: context.spark_remote or f"sc://{LOOPBACK}:{context.spark_port}",
        CONNECT_MODE: "1",
        "PYTHONPATH": os.pathsep.join([str(context.project_directory), *given]),
        **registry_environment(context),
        **clients_environment(context),
    }


def registry_environment(context: ServiceContext) -> dict[str, str]:
    """Return the variables with the URL of the installation's schema registry and the login there.

    There are none if the environment names a registry already. In a secured installation the
    platform logs in with the same certificate as at the brokers.

    :raises ConfigError: the file of that login cannot be read.
    """
    if context.registry_port is None or process_environment().get(REGISTRY_URL):
        return {}
    host = LOOPBACK if context.host in ANY_ADDRESS else context.host
    place = host_port(host, context.registry_port)
    if context.client_config is None:
        return {REGISTRY_URL: f"http://{place}"}
    login = settings_from_file(str(context.client_config))
    named = {
        f"{REGISTRY_PREFIX}{name.upper()}": str(value)
        for name, value in login.items()
        if name in SSL_SETTINGS
    }
    return {REGISTRY_URL: f"https://{place}", **named}


def memory_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep the memory of runs low, unless ``environ`` sets them.

    They make Arrow use glibc's allocator, with few arenas. With Arrow's own pool and one glibc
    arena per thread, the peak of a run was a third higher.
    """
    return {name: environ.get(name, value) for name, value in MEMORY_VARIABLES.items()}


def clients_environment(context: ServiceContext) -> dict[str, str]:
    """Return the variables by which the platform's clients encrypt and log in.

    There are none if the installation has no such settings for its clients.
    """
    return (
        {}
        if context.client_config is None
        else {"TIDELOG_CLIENT_CONFIG": str(context.client_config)}
    )


def free_port() -> int:
    """Return a port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
