"""Clients that push metrics get the same responses from tidelog and from Apache Kafka (KIP-714).

Neither has a page for them: both answer all the same.

Ids of subscriptions differ by nature, so that they are compared by whether they stay the same.
"""

import time
from typing import Any
from uuid import UUID

import pytest

from log_service.metadata.image import ResourceType
from log_service.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.integration.differential import Cluster, Duel

pytestmark = pytest.mark.timeout(120)

RESOURCE = "of-the-test"
LONG_MS, SHORT_MS = "60000", "100"
SETTLED_SECONDS = 10.0


def subscribe(duel: Duel, **configs: str) -> None:
    """Have both ask clients for something; and wait until they do."""
    changes = [
        AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    resource = AlterConfigsResource(
        resource_type=int(ResourceType.CLIENT_METRICS), resource_name=RESOURCE, configs=changes
    )
    duel.on_both(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    wanted = sorted(configs["metrics"].split(","))
    duel.until(
        GetTelemetrySubscriptionsRequest(),
        0,
        lambda told: (
            sorted(told.requested_metrics) == wanted
            and str(told.push_interval_ms) == configs["interval_ms"]
        ),
    )


class Client:
    """One instance of a client on one side."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._instance_id = UUID(int=0)
        self._subscription_id = 0

    def get(self) -> list[Any]:
        """Return a response's error, whether its id and its subscription stay, and the metrics to
        push.
        """
        told = self._cluster.ask(
            GetTelemetrySubscriptionsRequest(client_instance_id=self._instance_id), 0
        )
        if told.error_code:
            return [
                told.error_code,
                told.client_instance_id.int,
                told.requested_metrics,
                told.push_interval_ms,
            ]
        is_same_id, is_same = (
            told.client_instance_id == self._instance_id,
            told.subscription_id == self._subscription_id,
        )
        self._instance_id, self._subscription_id = told.client_instance_id, told.subscription_id
        shown = [
            sorted(told.requested_metrics),
            told.push_interval_ms,
            told.telemetry_max_bytes,
            told.accepted_compression_types,
        ]
        return [0, is_same_id, is_same, told.delta_temporality, *shown]

    def push(
        self,
        content: bytes = b"",
        *,
        wrong_id: int = 0,
        codec: int = 0,
        is_last: bool = False,
        who: int | None = None,
    ) -> int:
        """The error of a push."""
        response = self._cluster.ask(
            PushTelemetryRequest(
                client_instance_id=self._instance_id if who is None else UUID(int=who),
                subscription_id=self._subscription_id ^ wrong_id,
                terminating=is_last,
                compression_type=codec,
                metrics=content,
            ),
            0,
        )
        code: int = response.error_code
        return code


def test_a_client_asks_and_pushes_in_its_time(duel: Duel) -> None:
    subscribe(duel, metrics="b,a", interval_ms=LONG_MS)

    def tell(cluster: Cluster) -> Any:
        one = Client(cluster)
        return [
            one.get(),
            one.get(),
            one.push(),
            one.push(),
            one.get(),
            one.push(is_last=True),
            one.push(),
            one.push(),
            one.get(),
        ]

    duel.compare_told(tell)


def test_what_is_wrong_with_a_push_is_told_in_one_order(duel: Duel) -> None:
    subscribe(duel, metrics="*", interval_ms=LONG_MS)
    too_large = bytes((1 << 20) + 1)

    def tell(cluster: Cluster) -> Any:
        told: list[Any] = []
        for wrong in (
            {"wrong_id": 1, "codec": 9, "content": too_large},
            {"codec": 9, "content": too_large},
            {"codec": -1},
            {"codec": 5},
            {"content": too_large},
            {"who": 0},
            {"who": 1},
            {"is_last": True, "wrong_id": 1},
        ):
            one = Client(cluster)
            one.get()
            told.append([one.push(**wrong), one.push(), one.get(), one.get(), one.push()])
        return told

    duel.compare_told(tell)


def test_a_push_without_a_question_and_after_an_interval(duel: Duel) -> None:
    subscribe(duel, metrics="a", interval_ms=SHORT_MS)

    def tell(cluster: Cluster) -> Any:
        one = Client(cluster)
        told = [one.push(who=77), one.get()]
        for _ in range(3):
            time.sleep(0.2)
            told.append(one.push())
        time.sleep(0.2)
        return [*told, one.get(), one.push()]

    duel.compare_told(tell)


def test_changed_subscriptions_begin_anew(duel: Duel) -> None:
    subscribe(duel, metrics="a", interval_ms=LONG_MS)
    clients: dict[str, Client] = {}

    def before(cluster: Cluster) -> Any:
        one = clients[cluster.bootstrap] = Client(cluster)
        return [one.get(), one.push()]

    def after(cluster: Cluster) -> Any:
        one = clients[cluster.bootstrap]
        return [one.push(), one.push(), one.get(), one.get(), one.push()]

    duel.compare_told(before)
    subscribe(duel, metrics="a,c", interval_ms=LONG_MS)
    duel.compare_told(after)
