"""The platform's processes get their settings through their environment."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from log_service.client.schemas.settings import RegistryClientSettings
from log_service.supervisor.protection import client_properties
from log_service.supervisor.spec import ServiceContext
from orchestration.installation.code_socket import code_socket
from orchestration.installation.services import (
    asks_for_login,
    code_server,
    memory_environment,
    registry_environment,
    ui_environment,
    ui_url,
)
from orchestration.settings import registry_settings
from tests.helpers.documents import ROOT


def test_runs_give_memory_back_unless_somebody_decided_otherwise() -> None:
    told_by = memory_environment({})
    question = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    ran = subprocess.run(
        [sys.executable, "-c", question],
        env={**os.environ, **told_by},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "system\n"
    assert told_by["MALLOC_ARENA_MAX"] == "2"
    assert memory_environment({"MALLOC_ARENA_MAX": "8", "PATH": "/bin"}) == {
        **told_by,
        "MALLOC_ARENA_MAX": "8",
    }


def told(directory: Path, host: str, login: Path | None = None) -> ServiceContext:
    return ServiceContext(
        data_directory=directory,
        project_directory=directory,
        host=host,
        bootstrap_servers="",
        ui_port=3000,
        spark_port=0,
        login_config=login,
    )


def test_an_ipv6_address_stands_in_brackets(tmp_path: Path) -> None:
    assert ui_url(told(tmp_path, "::1")) == "http://[::1]:3000"
    assert ui_url(told(tmp_path, "127.0.0.1")) == "http://127.0.0.1:3000"


def test_the_readme_shows_the_address_that_the_code_server_has() -> None:
    """It showed a port, and the code server listens on a socket."""
    data = Path("/srv/shop/.tidelog")
    component = code_server(told(data, "127.0.0.1"), {}, code_socket(data))
    assert f"{component.name:<9} ready  {component.address}\n" in (ROOT / "README.md").read_text()


def test_processes_are_told_the_registry_unless_another_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its port may be one that was free."""
    monkeypatch.delenv("TIDELOG_SCHEMA_REGISTRY_URL", raising=False)
    without = told(tmp_path, "127.0.0.1")
    own = replace(without, registry_port=4711)
    assert registry_environment(without) == {}
    assert registry_environment(own) == {"TIDELOG_SCHEMA_REGISTRY_URL": "http://127.0.0.1:4711"}
    assert registry_environment(replace(own, host="0.0.0.0")) == registry_environment(own)
    monkeypatch.setenv("TIDELOG_SCHEMA_REGISTRY_URL", "http://schemas:8081")
    assert registry_environment(own) == {}


def test_processes_log_in_at_the_registry_of_a_secured_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the certificate of their client, of which the installation's authority is trusted."""
    monkeypatch.delenv("TIDELOG_SCHEMA_REGISTRY_URL", raising=False)
    keystore, authority = tmp_path / "platform.pem", tmp_path / "authority.pem"
    file = tmp_path / "platform.properties"
    file.write_text(client_properties(keystore, authority, by="a test"))
    secured = replace(told(tmp_path, "127.0.0.1"), registry_port=4711, client_config=file)
    named = {
        "URL": "https://127.0.0.1:4711",
        "SSL_TRUSTSTORE_TYPE": "PEM",
        "SSL_TRUSTSTORE_LOCATION": str(authority),
        "SSL_KEYSTORE_TYPE": "PEM",
        "SSL_KEYSTORE_LOCATION": str(keystore),
    }
    prefixed = {f"TIDELOG_SCHEMA_REGISTRY_{name}": value for name, value in named.items()}
    assert registry_environment(secured) == prefixed
    url, settings = registry_settings(prefixed)
    assert RegistryClientSettings.of(url, settings).tls is not None


def test_a_secured_installation_asks_for_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELOG_UI_LOGIN", raising=False)
    secured, plain = told(tmp_path, "127.0.0.1", tmp_path / "login"), told(tmp_path, "127.0.0.1")
    assert ui_environment(secured)["TIDELOG_UI_LOGIN"] == str(tmp_path / "login")
    assert (asks_for_login(secured), asks_for_login(plain)) == (True, False)
    assert "TIDELOG_UI_LOGIN" not in ui_environment(plain)
    monkeypatch.setenv("TIDELOG_UI_LOGIN", "/own.properties")
    assert ui_environment(secured)["TIDELOG_UI_LOGIN"] == "/own.properties"
