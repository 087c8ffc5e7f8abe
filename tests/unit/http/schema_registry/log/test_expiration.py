"""Brokers that forget a writer before its fencing ends are named, and nothing else happens."""

import logging

import pytest

from log_service.client import Admin
from log_service.common.errors import ErrorCode, KafkaError
from log_service.http.schema_registry.log.expiration import (
    expiration_faults,
    warn_of_short_expiration,
)
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster

HOUR_MS = 3_600_000
PRODUCERS, TRANSACTIONS = "producer.id.expiration.ms", "transactional.id.expiration.ms"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({PRODUCERS: "86400000", TRANSACTIONS: "604800000"}, []),
        ({PRODUCERS: str(HOUR_MS)}, []),
        ({PRODUCERS: str(HOUR_MS - 1)}, [PRODUCERS]),
        ({PRODUCERS: "60000", TRANSACTIONS: "60000"}, [PRODUCERS, TRANSACTIONS]),
        ({PRODUCERS: None}, []),
        ({}, []),
    ],
)
def test_a_fault_names_the_broker_the_key_and_what_to_set(
    values: dict[str, str | None], named: list[str]
) -> None:
    """A value that this user may not see is no fault."""
    faults = expiration_faults("7", values)
    assert len(faults) == len(named)
    for fault, key in zip(faults, named, strict=True):
        assert fault.startswith(f"broker 7 has {key}={values[key]}")
        assert fault.endswith(f"Set {key} to {HOUR_MS} or more")


def test_a_broker_that_forgets_early_is_named_in_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its own value is asked for, wherever it was set."""

    async def story(cluster: Cluster) -> None:
        servers = f"{host_of(1)}:{BROKER_PORT}"
        async with Admin(servers, env=cluster.world.client_env()) as admin:
            with caplog.at_level(logging.WARNING):
                await warn_of_short_expiration(admin)

    short = node_properties(1, (1,), producer_id_expiration_ms="600000")
    tell_cluster(story, {1: short})
    mine = [each.getMessage() for each in caplog.records if each.name.endswith(".expiration")]
    assert [text.partition(",")[0] for text in mine] == [f"broker 1 has {PRODUCERS}=600000"]


def test_a_user_who_may_not_see_it_still_writes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused question is logged at a lower level, because a registry needs no such right."""

    async def refuse(*_arguments: object, **_settings: object) -> None:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

    async def story(cluster: Cluster) -> None:
        servers = f"{host_of(1)}:{BROKER_PORT}"
        async with Admin(servers, env=cluster.world.client_env()) as admin:
            monkeypatch.setattr(admin, "describe_configs", refuse)
            with caplog.at_level(logging.INFO):
                await warn_of_short_expiration(admin)

    tell_cluster(story, {1: node_properties(1, (1,))})
    mine = [each for each in caplog.records if each.name.endswith(".expiration")]
    assert [each.levelno for each in mine] == [logging.INFO]
