"""The log service as a Dagster resource: ``LogClient`` over ``log_service.client``.

Decides how the client's values become the platform's (texts for topic ids, sentences for errors). Knows no table and no run.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from orchestration.log_client import LogClient
from orchestration.settings import load_settings


class LogServiceResource(dg.ConfigurableResource[LogClient]):
    """Connects to ``bootstrap_servers``; TIDELOG_BOOTSTRAP_SERVERS where it is not given."""

    bootstrap_servers: str | None = None

    @contextmanager
    def open(self, *, timeout_ms: int | None = None) -> Iterator[LogClient]:
        """Yield a connected client, closed afterwards; ``timeout_ms`` bounds each of its calls."""
        from orchestration.connection import connect  # noqa: PLC0415

        with connect(self.bootstrap_servers or load_settings().bootstrap_servers, timeout_ms=timeout_ms) as client:
            yield client
