"""A web console in a process of its own, as ``tidelog console`` runs it."""

import ssl
from pathlib import Path

from tests.helpers.registry_process import RegistryProcess


class ConsoleProcess(RegistryProcess):
    """One console. It starts and stops as a registry does."""

    kind = "console"
    servers_key = "bootstrap.servers"

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        tls: ssl.SSLContext | None = None,
        /,
        **properties: str,
    ) -> None:
        super().__init__(directory, bootstrap, tls, **properties)
        self.arguments.remove("serve")
