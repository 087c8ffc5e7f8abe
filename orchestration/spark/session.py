"""Configuration and opening of a Spark session: a warm server, or a JVM inside this process.

The settings may name the server. Decides the configuration of a small machine: few shuffle
partitions, Arrow between JVM and Python, UTC, nothing bound beyond the loopback address, no UI.
Decides the environment of Spark's launcher and Python workers. Knows no table and no topic.
Invariant: both kinds of session compute the same results, because they share
``session_configuration``.
"""

import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

from log_service.common.installation_names import DEFAULT_SPARK_PORT
from log_service.common.listeners import LOOPBACK, strangers_at
from log_service.common.private_files import private_directory
from orchestration.project.location import in_project
from orchestration.settings import (
    Settings,
    SettingsError,
    export_environment,
    process_environment,
    use_utc,
)
from orchestration.spark.java import find_java_home
from orchestration.spark.token import (
    DIALLED_HOST,
    LOCAL_HOSTS,
    TOKEN_VARIABLE,
    dialled,
    token_for,
    token_in_file,
)

APPLICATION_NAME = "tidelog"
REACHABLE_WITHIN_S = 20.0
REACHABLE_POLL_S = 0.25
SERVER_GONE = ("UNAVAILABLE", "SESSION_CLOSED", "SESSION_NOT_FOUND", "SESSION_CHANGED")
CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""The variable by which PySpark knows early that columns and functions are for a server.

PySpark reads it before it has a session.

Without it, a function at the top of a project's module (``@udf``) belongs to the session in this
process, and the server's session refuses it.
"""
MAX_RETRIES = 5
MAX_BACKOFF_MS = 2_000
REMOTE_KEY = "spark.remote"


class SparkGoneError(RuntimeError):
    """The warm server does not answer, or lost the session. A later run may succeed."""


def session_configuration(settings: Settings) -> dict[str, str]:
    """Return the settings of one session, which a warm server accepts, too."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.spark_shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    }


def process_configuration(settings: Settings) -> dict[str, str]:
    """Return the settings of a whole JVM: memory, addresses, scratch space.

    A session on a warm server cannot change them. A driver listens for its executors on the
    loopback address, which all accounts of a machine reach. It deserializes the data that it
    receives there, and sends files to clients. If driver and executors are one JVM, it accepts only
    clients that know a secret, which Spark creates itself. The operator of a Spark cluster has to
    set the cluster's secret.
    """
    scratch = settings.spark_scratch_directory
    is_one_jvm = settings.spark_master.partition("[")[0] == "local"
    return {
        "spark.master": settings.spark_master,
        "spark.app.name": APPLICATION_NAME,
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.artifact.isolation.enabled": "false",
        **({"spark.authenticate": "true"} if is_one_jvm else {}),
    }


def spark_environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Spark's launcher and its Python workers need on top of ``environ``.

    :raises JavaError: there is no Java that Spark can run on.
    """
    home = find_java_home(environ, settings.java_directory)
    return {
        "JAVA_HOME": str(home.path),
        "SPARK_HOME": environ.get("SPARK_HOME") or str(spark_home()),
        "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP") or LOOPBACK,
        "TZ": "UTC",
        "PYSPARK_PYTHON": environ.get("PYSPARK_PYTHON") or sys.executable,
        "PYSPARK_DRIVER_PYTHON": environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable,
        "PYTHONPATH": _python_path(environ),
    }


def spark_home() -> Path:
    """Return the folder of pip's pyspark, which is a complete Spark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("pyspark is not installed: install tidelog[platform]")
    return Path(spec.origin).parent


def open_session(settings: Settings, extra: Mapping[str, str] | None = None) -> Any:
    """Return the process's Spark session, and open it if need be.

    It is over Connect if ``settings.spark_remote`` is set, else in this process. ``extra`` are
    further Spark settings. Also sets the time zone of this process to UTC, and the environment
    variables that Spark needs.

    :raises JavaError: a JVM has to be started and there is no Java for it.
    :raises SparkGoneError: the warm server does not answer.
    :raises SettingsError: ``extra`` names a server. It is refused, because a run's configuration
        could name one, which would then get the token of our server.
    """
    if REMOTE_KEY in (extra or {}):
        raise SettingsError(
            f"{REMOTE_KEY} cannot be a key of spark_config, because runs would show the Spark"
            " server's token wherever it says: name a server of your own with TIDELOG_SPARK_REMOTE"
        )
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a second of import that only runs need

    use_utc()
    if settings.spark_remote:
        chosen = {**session_configuration(settings), **(extra or {})}
        wait_until_reachable(settings.spark_remote, REACHABLE_WITHIN_S)
        token = token_for(settings, process_environment())
        if token is not None and token == token_in_file(settings):
            refuse_strangers(settings.spark_remote)
        builder = SparkSession.builder.remote(
            settings.spark_remote if token is None else dialled(settings.spark_remote)
        )
        export_environment(
            {
                "SPARK_CONNECT_RELEASE_SESSION_ON_EXIT": "true",
                **({TOKEN_VARIABLE: token} if token else {}),
            }
        )
    else:
        chosen = {
            **process_configuration(settings),
            **session_configuration(settings),
            **(extra or {}),
        }
        builder = SparkSession.builder
        export_environment(spark_environment(settings, process_environment()))
        private_directory(settings.spark_scratch_directory)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if settings.spark_remote:
        _limit_retries(session)
    return session


def refuse_strangers(remote: str) -> None:
    """Refuse to send the server's token if another account's program listens on its port, too.

    The token would let that program run code as us. It may have taken the port while the server was
    down, or listen on ``::1`` if the name ``localhost`` has this address, too.

    :raises SparkGoneError: another account listens there.
    """
    port = urlsplit(remote).port or DEFAULT_SPARK_PORT
    strangers = ", ".join(str(user_id) for user_id in sorted(strangers_at(DIALLED_HOST, port)))
    if strangers:
        raise SparkGoneError(
            f"another account of this machine (user id {strangers}) listens on port {port}, where"
            " the Spark server of this installation belongs, and the server's token is not sent"
            " there: end that program, or start tidelog up with another --spark-port"
        )


def wait_until_reachable(remote: str, within_s: float) -> None:
    """Wait for a warm server that is being restarted.

    Without this, the client would retry for ten minutes.

    :raises SparkGoneError: nothing listens there after ``within_s`` seconds.
    """
    address = urlsplit(remote)
    host, port = address.hostname, address.port or DEFAULT_SPARK_PORT
    deadline = monotonic() + within_s
    while True:
        try:
            socket.create_connection((host, port), timeout=within_s).close()
        except OSError as error:
            if monotonic() >= deadline:
                where = f"{host}:{port}"  # the rest of the address may have a token
                text = (
                    f"the Spark server at {where} does not answer ({error}): is it up? Unset"
                    " TIDELOG_SPARK_REMOTE to do without"
                )
                raise SparkGoneError(text) from error
        else:
            return
        sleep(REACHABLE_POLL_S)


def is_server_gone(error: BaseException) -> bool:
    """Return whether a Spark error means that the server or the session is gone."""
    return any(mark in str(error) for mark in SERVER_GONE) and type(error).__module__.startswith(
        "pyspark.errors.exceptions.connect"
    )


def close_session(session: Any, settings: Settings) -> None:
    """Let a warm server release the session and its caches.

    A session in this process stays for the next caller.
    """
    if settings.spark_remote:
        session.stop()


def shared_scratch(settings: Settings) -> Path | None:
    """Return a directory that this process and Spark share, None if Spark is on another machine."""
    host = urlsplit(settings.spark_remote).hostname if settings.spark_remote else LOOPBACK
    return settings.spark_scratch_directory / "batches" if host in LOCAL_HOSTS else None


def _limit_retries(session: Any) -> None:
    """Limit the retries of the session's client.

    By default it retries a lost server for ten minutes, also at exit.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    session.client.set_retry_policies(
        [DefaultPolicy(max_retries=MAX_RETRIES, max_backoff=MAX_BACKOFF_MS)]
    )


def _python_path(environ: Mapping[str, str]) -> str:
    """Return a PYTHONPATH with this package and the project.

    Workers unpickle functions by the name of their module, so they must find both. The paths in
    ``environ`` come first, because a project may have a package with the name of one beside this
    package.
    """
    package_root = Path(__file__).resolve().parents[2]
    given = environ.get("PYTHONPATH", "").split(":")
    return ":".join(dict.fromkeys([*filter(None, given), str(in_project("")), str(package_root)]))
