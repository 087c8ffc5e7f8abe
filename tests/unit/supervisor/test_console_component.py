"""The console of an installation: where it listens, and whether it has logins."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from log_service.config.properties import parse_properties
from log_service.http.console.settings import read_console_settings
from log_service.supervisor.console_component import (
    console_component,
    console_port_of,
    in_project,
)
from log_service.supervisor.protection import protect
from log_service.supervisor.spec import CODE, Component, HttpReadiness, ServiceContext

READINESS = HttpReadiness(url="http://127.0.0.1:9404/metrics")


@pytest.fixture
def context(tmp_path: Path) -> ServiceContext:
    return ServiceContext(
        data_directory=tmp_path,
        project_directory=tmp_path,
        host="0.0.0.0",
        bootstrap_servers="127.0.0.1:9092",
        ui_port=1,
        spark_port=2,
        registry_port=8081,
        console_port=4711,
    )


def test_a_console_without_logins_stays_on_this_machine(context: ServiceContext) -> None:
    brokers = [
        Component(
            name="broker-1",
            argv=(),
            readiness=READINESS,
            metrics_url="http://127.0.0.1:9404/metrics",
        ),
        Component(name="broker-2", argv=(), readiness=READINESS),
    ]
    (component,) = console_component(context, brokers)
    assert component.after == ("broker-1", "broker-2")
    assert component.address == "http://127.0.0.1:4711"
    assert not component.is_essential
    path = context.data_directory / "console" / "console.properties"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    settings = read_console_settings(path.read_text(), path.name)
    assert not settings.logins
    assert settings.metrics_urls == ("http://127.0.0.1:9404/metrics",)
    assert not settings.unused


def test_a_secured_installation_has_a_console_with_logins(context: ServiceContext) -> None:
    protection = protect(context.data_directory, context.host, ["broker"])
    protection.write_login_file(["127.0.0.1:11092"])
    (component,) = console_component(context, [], protection)
    assert component.address == "https://0.0.0.0:4711"
    assert isinstance(component.readiness, HttpReadiness)
    assert component.readiness.url == "https://127.0.0.1:4711/readyz"
    text = (context.data_directory / "console" / "console.properties").read_text()
    settings = read_console_settings(text, "console.properties")
    assert settings.logins == {"basic"}
    assert settings.login_servers == "127.0.0.1:11092"
    assert settings.registry_client
    assert settings.registry_url == "https://127.0.0.1:8081"
    assert not settings.unused
    assert "password" not in parse_properties(text)


def test_port_0_is_no_console(context: ServiceContext) -> None:
    assert console_port_of(0) is None
    assert console_component(replace(context, console_port=None), []) == []


def test_a_console_beside_a_platform_runs_in_the_project(context: ServiceContext) -> None:
    (own,) = console_component(context, [])
    settings = {"TIDELOG_DATA": str(context.data_directory)}
    readiness = HttpReadiness(url="http://127.0.0.1:1")
    code = Component(
        name=CODE,
        argv=("code",),
        readiness=readiness,
        environment=settings,
        working_directory=context.project_directory,
    )
    other = replace(code, name="other", environment={}, working_directory=None)
    found = {each.name: each for each in in_project([own, code, other])}
    assert found[own.name] == replace(
        own, environment=settings, working_directory=context.project_directory
    )
    assert (found[CODE], found["other"]) == (code, other)
    assert in_project([own]) == [own]
