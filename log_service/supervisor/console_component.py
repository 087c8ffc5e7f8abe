"""The component of the web console, which runs by default.

In a secured installation people log in as the cluster's users, over TLS. Other installations have
no logins, so their console listens on the loopback address, whatever the installation's host is.
With a platform it runs in the project's folder, so that the platform's pages find the project.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from log_service.common.listeners import DEFAULT_CONSOLE_PORT, LOOPBACK
from log_service.common.urls import host_port
from log_service.config.properties import parse_properties
from log_service.supervisor.authority import CERTIFICATE_FILE, write_private
from log_service.supervisor.components import port_of
from log_service.supervisor.protection import ANY_ADDRESS, CONSOLE, InstallationProtection
from log_service.supervisor.spec import CODE, Component, HttpReadiness, ServiceContext

PACKAGES = ("h11", "jinja2", "httpx")


def console_port_of(wanted: int | None) -> int | None:
    """Return the port of the console, None for no console.

    The port is chosen as by ``port_of``. Without the packages of the extra ``http`` there is no
    console.

    Raises:
        ConfigError: the wanted port is occupied.
    """
    if any(find_spec(name) is None for name in PACKAGES):
        return None
    return port_of(LOOPBACK, wanted, DEFAULT_CONSOLE_PORT, "the console", "--console-port")


def console_component(
    context: ServiceContext,
    brokers: Sequence[Component],
    protection: InstallationProtection | None = None,
) -> list[Component]:
    """Return the component of the console, in a list, and write its settings file.

    The list is empty if no port is set. The console starts after the brokers. Only the owner may
    read the file, because it may have the secrets of a client.
    """
    if context.console_port is None:
        return []
    is_secure = protection is not None
    scheme = "https" if is_secure else "http"
    host = context.host if is_secure else LOOPBACK
    url = f"{scheme}://{host_port(host, context.console_port)}"
    own_url = f"{scheme}://{host_port(dialled(host), context.console_port)}"
    lines = {"listeners": url, "bootstrap.servers": context.bootstrap_servers}
    if context.registry_port is not None:
        registry = host_port(dialled(context.host), context.registry_port)
        lines["schema.registry.url"] = f"{scheme}://{registry}"
    if metrics_urls := [each.metrics_url for each in brokers if each.metrics_url]:
        lines["metrics.urls"] = ",".join(metrics_urls)
    if protection is not None:
        lines |= _protected(protection)
    directory = context.data_directory / CONSOLE
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "console.properties"
    text = "\n".join(
        ["# Written anew by `tidelog up`.", *(f"{key}={value}" for key, value in lines.items()), ""]
    )
    write_private(settings, text.encode())
    authority = None if protection is None else protection.directory / CERTIFICATE_FILE
    return [
        Component(
            name=CONSOLE,
            argv=(sys.executable, "-m", "log_service.cli.main", "console", str(settings)),
            readiness=HttpReadiness(url=f"{own_url}/readyz", authority=authority),
            address=url,
            metrics_url="" if is_secure else f"{url}/metrics",
            after=tuple(each.name for each in brokers),
            is_essential=False,
        )
    ]


def in_project(components: Sequence[Component]) -> list[Component]:
    """Let the console run in the folder and environment of the component that loads the project.

    Return all components. Nothing changes without such a component. The console's own clients still
    get their settings only from the console's settings file.
    """
    code = next((each for each in components if each.name == CODE), None)
    if code is None:
        return list(components)
    return [
        replace(each, environment=code.environment, working_directory=code.working_directory)
        if each.name == CONSOLE
        else each
        for each in components
    ]


def dialled(host: str) -> str:
    """Return the address by which this machine reaches a listener bound to ``host``.

    The listener's certificate names this address.
    """
    return LOOPBACK if host in ANY_ADDRESS else host


def _protected(protection: InstallationProtection) -> dict[str, str]:
    """Return the properties of a console in which people log in as users of the cluster."""
    login = parse_properties(protection.login_file.read_text())
    authority = str(protection.directory / CERTIFICATE_FILE)
    return {
        **{f"login.{key}": value for key, value in login.items()},
        "authentication.method": "basic",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(protection.directory / "clients" / f"{CONSOLE}.pem"),
        "schema.registry.ssl.truststore.type": "PEM",
        "schema.registry.ssl.truststore.location": authority,
    }
