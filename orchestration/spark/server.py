"""The warm Spark Connect server as a child process: its arguments, environment and address.

The supervisor starts it. Runs then reach it by ``TIDELOG_SPARK_REMOTE``. Connect runs any code that
it receives. So it binds to the loopback address and accepts only requests with its token
(``spark.token``), which it gets in its environment. pip's pyspark has the server's class but no
start script, so ``spark-submit`` starts the class. Knows no supervisor.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from log_service.common.installation_names import DEFAULT_SPARK_PORT, SPARK_REMOTE_SETTING
from log_service.common.listeners import LOOPBACK
from log_service.common.private_files import private_directory
from orchestration.settings import Settings
from orchestration.spark.session import (
    process_configuration,
    session_configuration,
    spark_environment,
    spark_home,
)
from orchestration.spark.token import TOKEN_VARIABLE, kept_token

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SPARK_RELEASE_SESSION = "/spark.connect.SparkConnectService/ReleaseSession"
NO_SESSION, NO_USER = "00000000-0000-4000-8000-000000000000", "tidelog"
"""A session that no client opens. Spark accepts only ids of this form."""
MAX_GRPC_BYTES = 512 * 1024 * 1024
READINESS_TIMEOUT_S = 1.0
SESSION_TIMEOUT = "20m"  # for sessions whose run was killed, because the others are released


def release_of_no_session() -> bytes:
    """Return a ``ReleaseSessionRequest`` for a session that does not exist.

    It is the message of ``SPARK_RELEASE_SESSION``, encoded by hand, because the supervisor sends it
    and works without Spark's modules. ``allow_reconnect`` keeps the server from recording the
    session as closed.
    """
    session, user = NO_SESSION.encode(), NO_USER.encode()
    context = b"\x0a" + bytes([len(user)]) + user
    return (
        b"\x0a"
        + bytes([len(session)])
        + session
        + b"\x12"
        + bytes([len(context)])
        + context
        + b"\x20\x01"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkServer:
    """One warm server. The process of ``argv`` stays in the foreground and ends on SIGTERM."""

    settings: Settings
    host: str = LOOPBACK
    port: int = DEFAULT_SPARK_PORT

    @property
    def url(self) -> str:
        """Return the value for TIDELOG_SPARK_REMOTE."""
        return f"sc://{self.host}:{self.port}"

    def argv(self) -> list[str]:
        """Return the command. Each program in it execs the next, so the JVM gets its process id."""
        configuration = {
            **process_configuration(self.settings),
            **session_configuration(self.settings),
            "spark.connect.grpc.binding.address": self.host,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.grpc.maxInboundMessageSize": str(MAX_GRPC_BYTES),
            "spark.connect.session.manager.defaultSessionTimeout": SESSION_TIMEOUT,
        }
        master = configuration.pop("spark.master")
        memory = configuration.pop("spark.driver.memory")
        options = [
            part for key, value in configuration.items() for part in ("--conf", f"{key}={value}")
        ]
        submit = str(spark_home() / "bin" / "spark-submit")
        return [
            submit,
            "--master",
            master,
            "--driver-memory",
            memory,
            *options,
            "--class",
            SERVER_CLASS,
            "spark-internal",
        ]

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of the child.

        This also creates the scratch directory, and closes it to other accounts.

        :raises JavaError: there is no Java that Spark can run on.
        """
        private_directory(self.settings.spark_scratch_directory)
        inherited = {key: value for key, value in environ.items() if key != SPARK_REMOTE_SETTING}
        token = inherited.get(TOKEN_VARIABLE) or kept_token(self.settings)
        return {**inherited, **spark_environment(self.settings, inherited), TOKEN_VARIABLE: token}

    def is_ready(self) -> bool:
        """Return whether the server accepts connections. It binds only once Spark is up."""
        try:
            with socket.create_connection((self.host, self.port), timeout=READINESS_TIMEOUT_S):
                return True
        except OSError:
            return False
