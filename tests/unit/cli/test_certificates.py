"""``tidelog certificates`` without a cluster, and what ``users add`` makes of a cluster's
listeners.
"""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from log_service.cli.certificates import TAKEN
from log_service.cli.main import tidelog
from log_service.cli.users import listens_with_sasl
from log_service.common.errors import ConfigError
from log_service.supervisor.protection import protect


def invoke(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(tidelog, ["certificates", *arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    protect(tmp_path / "data", "127.0.0.1", ["broker"])
    return tmp_path / "data"


def test_a_service_is_issued_listed_and_issued_again(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "shop"
    issued = invoke("issue", "shop", "--out", str(out), "--data", str(data))
    assert (issued.exit_code, "tidelog acls add --allow-principal shop" in issued.output) == (
        0,
        True,
    ), issued.output
    first = (out / "shop.pem").read_bytes()
    assert stat.S_IMODE((out / "shop.pem").stat().st_mode) == 0o600
    assert (
        (out / "shop.properties")
        .read_text()
        .startswith("# Written by `tidelog certificates issue`; ")
    )
    assert (
        (data / "security" / "clients" / "operator.properties")
        .read_text()
        .startswith("# Written by `tidelog up --secure`; ")
    )
    refused = invoke("issue", "shop", "--out", str(out), "--data", str(data))
    assert (refused.exit_code, "--replace" in refused.output) == (1, True)
    assert (out / "shop.pem").read_bytes() == first
    assert (
        invoke("issue", "shop", "--out", str(out), "--data", str(data), "--replace").exit_code == 0
    )
    assert (out / "shop.pem").read_bytes() != first
    rows = json.loads(invoke("list", "--json", "--data", str(data)).output)
    assert [(row["user"], row["kind"]) for row in rows] == [
        ("node", "node"),
        ("console", "client"),
        ("operator", "client"),
        ("platform", "client"),
        ("registry", "client"),
        ("rest", "client"),
        ("shop", "service"),
    ]


@pytest.mark.parametrize(
    "name", [*sorted(TAKEN), "", "a,b", "a b", "../a", "a/b", "CN=a", "-a", "x" * 64, "a\nb"]
)
def test_names_that_mean_something_else_are_refused(data: Path, tmp_path: Path, name: str) -> None:
    refused = invoke("issue", "--out", str(tmp_path / "out"), "--data", str(data), "--", name)
    assert refused.exit_code == 2, refused.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [("issue", "shop", "--out", "out"), ("list",)])
def test_an_installation_without_an_authority_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = invoke(*arguments, "--data", str(tmp_path / "plain"))
    assert isinstance(refused.exception, ConfigError)
    assert "tidelog up --secure" in str(refused.exception)
    assert not list(tmp_path.iterdir()), "nothing is made"


@pytest.mark.parametrize(
    ("listeners", "protocols", "expected"),
    [
        ("SSL://:9092", "SSL:SSL,CONTROLLER:SSL", False),
        ("PLAINTEXT://:9092", "", False),
        ("SASL_SSL://:9092", "", True),
        ("SSL://:9092,LOGIN://:9093", "SSL:SSL, LOGIN:SASL_PLAINTEXT", True),
        ("SSL://:9092", "SSL:SSL,SASL_SSL:SASL_SSL", False),
        ("", "", True),
    ],
)
def test_whether_a_listener_takes_logins(listeners: str, protocols: str, *, expected: bool) -> None:
    configs = {"listeners": listeners, "listener.security.protocol.map": protocols}
    assert listens_with_sasl(configs) is expected
