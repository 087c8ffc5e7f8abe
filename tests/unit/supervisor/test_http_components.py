"""The HTTP services of an installation get settings files that they understand."""

import stat
from dataclasses import replace
from pathlib import Path

from log_service.http.rest_proxy.settings import read_rest_settings
from log_service.http.schema_registry.settings import read_registry_settings
from log_service.supervisor.components import registry_component, rest_component
from log_service.supervisor.protection import protect
from log_service.supervisor.spec import ServiceContext

HOST = "127.0.0.1"


def context(directory: Path) -> ServiceContext:
    """Return an installation with both services."""
    return ServiceContext(
        data_directory=directory,
        project_directory=directory,
        host=HOST,
        bootstrap_servers=f"{HOST}:1",
        ui_port=2,
        spark_port=3,
        registry_port=4,
        rest_port=5,
    )


def test_services_without_a_port_are_not_there(tmp_path: Path) -> None:
    """Each is left out on its own."""
    none = replace(context(tmp_path), registry_port=None, rest_port=None)
    assert registry_component(none, []) == rest_component(none, []) == []


def test_a_proxy_knows_the_registry(tmp_path: Path) -> None:
    """Without protection there are no logins."""
    (component,) = rest_component(context(tmp_path), ["broker"])
    assert (component.address, component.after) == (f"http://{HOST}:5", ("broker",))
    settings = read_rest_settings(Path(component.argv[-1]).read_text(), "the file")
    assert settings.registry_url == f"http://{HOST}:4"
    assert (settings.logins, settings.unused) == (frozenset(), ())


def test_services_of_a_secured_installation(tmp_path: Path) -> None:
    """They speak https, trust the installation's authority, and let users in by password."""
    protection = protect(tmp_path, HOST, ["broker"])
    protection.write_login_file([f"{HOST}:9"])
    secured = context(tmp_path)
    (proxy,) = rest_component(secured, [], protection)
    file = Path(proxy.argv[-1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    settings = read_rest_settings(file.read_text(), "the file")
    assert (settings.logins, settings.login_servers) == (frozenset({"basic"}), f"{HOST}:9")
    assert settings.registry_url == f"https://{HOST}:4"
    assert settings.registry_client["ssl_truststore_location"].endswith("authority.pem")
    assert settings.unused == ()
    (registry,) = registry_component(secured, [], protection)
    found = read_registry_settings(Path(registry.argv[-1]).read_text(), "the file")
    assert found.logins == frozenset({"basic", "mtls"})
    assert found.unused == ()
