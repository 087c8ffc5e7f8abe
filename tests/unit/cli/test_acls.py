"""``tidelog acls add`` refuses, without a cluster, what could never allow or deny anything."""

from typing import Any

import pytest
from click.testing import CliRunner

from log_service.cli.acls import RESOURCES, bindings_of, filters_of
from log_service.cli.main import tidelog


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--operation", "idempotent_write", "--topic", "orders"],
            "idempotent_write is nothing that can be done with a topic",
        ),
        (
            ["--operation", "write", "--group", "billing"],
            "write is nothing that can be done with a group",
        ),
        (
            ["--operation", "delete", "--cluster"],
            "delete is nothing that can be done with a cluster",
        ),
        (["--operation", "read", "--topic", "ord*"], "--pattern prefixed"),
        (["--producer", "--topic", "or ders"], "no topic is called 'or ders'"),
        (["--topic", "orders", "--allow-host", "10.0.0.0/8"], "'10.0.0.0/8' is not an address"),
        (["--topic", "orders", "--allow-host", "shop.example"], "'shop.example' is not an address"),
        (["--topic", "orders", "--allow-host", ""], "'' is not an address"),
    ],
)
def test_what_means_nothing_is_refused(arguments: list[str], told: str) -> None:
    result = CliRunner(env={"COLUMNS": "300", "TIDELOG_BOOTSTRAP_SERVERS": "127.0.0.1:1"}).invoke(
        tidelog, ["acls", "add", "--allow-principal", "shop", *arguments]
    )
    assert result.exit_code == 2
    assert told in result.output


def options(**given: Any) -> dict[str, Any]:
    flags = dict.fromkeys(("cluster", "producer", "consumer", "idempotent"), False)
    lists = dict.fromkeys(
        (*RESOURCES, "allow_principal", "deny_principal", "allow_host", "deny_host", "operations"),
        (),
    )
    return {**flags, **lists, "pattern_type": None, **given}


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("*", "*"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("FE80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_an_address_is_written_as_brokers_compare_it(host: str, written: str) -> None:
    """A denial of ``::1`` as a person writes it would deny nothing."""
    given = options(topic=("orders",), deny_principal=("shop",), deny_host=(host,))
    assert [each.host for each in bindings_of(given)] == [written]
    assert [each.host for each in filters_of(given)] == list(dict.fromkeys((host, written)))
