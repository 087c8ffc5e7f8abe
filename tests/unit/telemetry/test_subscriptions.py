"""A subscription says which metrics a client pushes."""

from dataclasses import replace
from uuid import UUID

import pytest

from log_service.telemetry.subscriptions import (
    ClientAttributes,
    Resource,
    resource,
    subscription_of,
)

CLIENT = ClientAttributes(
    client_instance_id="abc",
    client_id="orders-7",
    client_software_name="librdkafka",
    client_software_version="2.12.0",
    client_source_address="10.0.0.7",
    client_source_port="41000",
)
ID = UUID(int=77)


def made(**configs: str) -> Resource:
    found = resource("r", {key.replace("_", "."): value for key, value in configs.items()})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("match", "is_for"),
    [
        ("", True),
        ("client_id=orders-.*", True),
        ("client_id=orders", False),
        ("client_id=orders-.*,client_software_name=librdkafka", True),
        ("client_id=orders-.*,client_software_name=apache.*", False),
        ("client_source_address=10\\.0\\.0\\.[0-9]+,client_source_port=4....", True),
        (" client_software_version = 2\\..* ", True),
    ],
)
def test_every_pattern_has_to_match_the_whole_value(match: str, is_for: bool) -> None:
    assert made(match=match).is_for(CLIENT) is is_for


def test_a_client_pushes_what_all_resources_ask_for_as_often_as_the_hastiest() -> None:
    resources = [
        made(metrics="org.apache.kafka.producer,b", interval_ms="60000"),
        made(metrics="a, b", interval_ms="5000", match="client_id=orders.*"),
        made(metrics="never", interval_ms="100", match="client_id=other"),
    ]
    found = subscription_of(ID, CLIENT, resources)
    assert (found.metrics, found.interval_ms) == (("a", "b", "org.apache.kafka.producer"), 5_000)
    assert subscription_of(ID, CLIENT, [*resources, made(metrics="*")]).metrics == ("*",)


def test_a_client_that_nothing_is_for_pushes_nothing_and_asks_again_after_five_minutes() -> None:
    found = subscription_of(
        ID, CLIENT, [made(metrics="*", interval_ms="100", match="client_id=other")]
    )
    assert (found.metrics, found.interval_ms) == ((), 300_000)


def test_the_id_changes_with_what_is_pushed_and_with_the_client() -> None:
    first = subscription_of(ID, CLIENT, [made(metrics="a")])
    assert first == subscription_of(
        ID, replace(CLIENT, client_id="orders-8"), [made(metrics="a", match="client_id=orders.*")]
    )
    others = [
        subscription_of(ID, CLIENT, [made(metrics="b")]),
        subscription_of(ID, CLIENT, [made(metrics="a", interval_ms="1000")]),
        subscription_of(UUID(int=78), CLIENT, [made(metrics="a")]),
    ]
    assert len({first.subscription_id, *(each.subscription_id for each in others)}) == 4
    assert -(1 << 31) <= first.subscription_id < 1 << 31


def test_a_resource_of_javas_syntax_is_for_no_client_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert resource("mine", {"metrics": "*", "match": "client_id=(?=orders).*"}) is None
    assert "client metrics mine" in caplog.text
