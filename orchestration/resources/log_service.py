"""The log service as a Dagster resource: the cluster of a run or a tick, and its login.

It opens ``orchestration.log_client.connection``, which is imported on first use. Knows no table.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

from orchestration.log_client.protocol import LogClient
from orchestration.resources.declared import accept, refused_config
from orchestration.settings import load_settings

if TYPE_CHECKING:
    from log_service.client import BlockingAdmin


class LogServiceResource(dg.ConfigurableResource[LogClient]):
    """Connects to ``bootstrap_servers``, by default those of TIDELOG_BOOTSTRAP_SERVERS.

    ``client_config`` is the path of a properties file with Kafka's keys (``security.protocol``,
    ``sasl.*``, ``ssl.*``), so that two resources log in to two clusters. The file then replaces
    TIDELOG_CLIENT_CONFIG and TIDELOG_SASL_... altogether. Each process reads the file when it
    connects, Spark's workers too, so that the path has to exist on every machine.
    """

    bootstrap_servers: str | None = None
    client_config: str | None = None

    _refusal: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Note whether the run's config names another place, which ``open`` refuses."""
        places = (
            "TIDELOG_BOOTSTRAP_SERVERS, or LogServiceResource(bootstrap_servers=...) among its"
            " resources,"
        )
        self._refusal = refused_config(context, "log_service", places)

    @contextmanager
    def open(self, *, timeout_ms: int | None = None) -> Iterator[LogClient]:
        """Yield a connected client, closed afterwards.

        ``timeout_ms`` bounds each of its calls.

        :raises SettingsError: the run's config names another log service.
        """
        accept(self._refusal)
        from orchestration.log_client.connection import connect  # noqa: PLC0415

        with connect(
            self._servers(), timeout_ms=timeout_ms, client_config=self.client_config
        ) as client:
            yield client

    @contextmanager
    def open_admin(self, *, timeout_ms: int | None = None) -> "Iterator[BlockingAdmin]":
        """Yield the client's own admin, for operations on the cluster itself.

        Calls in the block raise ``LogServiceError``.

        :raises SettingsError: the run's config names another log service.
        """
        accept(self._refusal)
        from orchestration.log_client.connection import connect_admin  # noqa: PLC0415

        with connect_admin(
            self._servers(), timeout_ms=timeout_ms, client_config=self.client_config
        ) as admin:
            yield admin

    def _servers(self) -> str:
        return self.bootstrap_servers or load_settings().bootstrap_servers
