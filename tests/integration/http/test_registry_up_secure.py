"""``tidelog up --secure`` with its registry, as an operator and two services use it."""

import stat
from pathlib import Path

import httpx
import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    KafkaError,
    NewTopic,
    ScramUser,
    settings_from_file,
)
from tests.helpers.ports import free_port
from tests.integration.command_line import run
from tests.integration.http.secured import basic, binding, until
from tests.integration.http.tls_clients import client
from tests.integration.secure_nodes import SCRAM
from tests.integration.secured_installations import installation, secrets_in, told_places

pytestmark = pytest.mark.timeout(240)

INT, LONGER = {"schema": '"int"'}, {"schema": '["int","null"]'}


def test_the_registry_of_a_secured_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a certificate, and lets in by certificate and by password.

    It decides by ACLs, and stays so without the option.
    """
    monkeypatch.chdir(tmp_path)
    port, registry_port = free_port(), free_port()
    servers, url = f"127.0.0.1:{port}", f"https://127.0.0.1:{registry_port}"
    arguments = ("--registry-port", str(registry_port))
    with installation(tmp_path, port, "--secure", *arguments) as data:
        (tmp_path / ".tidelog").symlink_to(data)
        authority, operator = (
            data / "security" / "authority.pem",
            data / "security" / "clients" / "operator.properties",
        )
        issued = run(["certificates", "issue", "shop", "--out", "shop"], bootstrap=servers)
        assert issued.exit_code == 0, issued.errors
        with BlockingAdmin(servers, **settings_from_file(operator)) as admin:
            admin.set_scram_users(
                [ScramUser(name="ann", mechanism=SCRAM, password="not-told-anywhere")]
            )
            admin.create_acls([binding("shop", "write orders"), binding("ann", "describe orders")])
        with client(url, authority) as stranger:
            assert stranger.get("/subjects").status_code == 401
            assert stranger.get("/readyz").text == "ok\n"
        with client(url, authority, operator.with_suffix(".pem")) as admin_client:
            assert (
                admin_client.post("/subjects/salaries-value/versions", json=INT).status_code == 200
            )
        until_shop_writes(url, authority)
        with BlockingAdmin(servers, **settings_from_file(operator)) as admin:
            validated = {"confluent.value.schema.validation": "true"}
            admin.create_topics([NewTopic(name="orders", configs=validated)])
        with BlockingProducer(servers, **settings_from_file(operator)) as producer:
            producer.send("orders", value=b"\0\0\0\0\1\x0e").wait()
            with pytest.raises(KafkaError, match="schema id 2 is not registered"):
                producer.send("orders", value=b"\0\0\0\0\2\x0e").wait()
        with client(url, authority, authorization=basic("ann", "not-told-anywhere")) as ann:
            assert ann.get("/subjects").json() == ["orders-value"]
            assert ann.post("/subjects/orders-value/versions", json=INT).status_code == 403
            assert (
                ann.get("/subjects", headers={"authorization": basic("ann", "wrong")}).status_code
                == 401
            )
        settings = data / "registry" / "schema-registry.properties"
        assert stat.S_IMODE(settings.stat().st_mode) == 0o600
        told = list(told_places(tmp_path, data))
        assert not [
            secret
            for secret in (*secrets_in(data), b"not-told-anywhere")
            for place in told
            if secret in place
        ]
    with (
        installation(tmp_path, port, *arguments),
        client(url, authority, Path("shop") / "shop.pem") as shop,
    ):
        assert shop.get("/subjects").json() == ["orders-value"]
        assert shop.post("/subjects/orders-value/versions", json=LONGER).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http"))


def until_shop_writes(url: str, authority: Path) -> None:
    """Register a schema as the service, once its ACL counts."""
    with client(url, authority, Path("shop") / "shop.pem") as shop:
        until(
            lambda: shop.post("/subjects/orders-value/versions", json=INT).status_code == 200,
            "the right of shop",
        )
        assert shop.post("/subjects/salaries-value/versions", json=LONGER).status_code == 403
        assert shop.get("/subjects").json() == ["orders-value"]
