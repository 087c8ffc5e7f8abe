"""The REST proxy responds as its OpenAPI description says, to good and bad requests.

Schemathesis makes requests of the description and judges the responses: each status, media type and
document has to be described, and no request may be answered by an error of the server. The requests
are the same in each run. They reach a cluster of their own, because they change configs of brokers.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.helpers.broker_process import BrokerProcess
from tests.helpers.registry_process import RegistryProcess
from tests.helpers.rest_process import RestProcess
from tests.integration.http.rest_calls import V2

pytestmark = pytest.mark.timeout(300)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
MODES = {
    "good": schemathesis.GenerationMode.POSITIVE,
    "bad": schemathesis.GenerationMode.NEGATIVE,
}
EXAMPLES = {"few": 2, "many": 8}
BOUNDS = {"timeout": 50, "wait_ms": 50, "partitions_count": 3, "follow": "false"}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestProcess]:
    """A proxy with a registry and a cluster of its own."""
    directory = tmp_path_factory.mktemp("openapi")
    with (
        BrokerProcess(directory / "broker") as broker,
        RegistryProcess(directory, broker.bootstrap) as registry,
        RestProcess(directory, broker.bootstrap, **{"schema.registry.url": registry.url}) as rest,
    ):
        yield rest


@pytest.fixture
def places(proxy: RestProcess) -> dict[str, str]:
    """Values of the placeholders in paths that name something. Tests delete the things."""
    name = uuid4().hex[:8]
    with httpx.Client(base_url=proxy.url, timeout=60) as client:
        (cluster,) = client.get("/v3/clusters").json()["data"]
        (broker,) = client.get("/brokers").json()["brokers"]
        path = f"/v3/clusters/{cluster['cluster_id']}/topics"
        new_topic = {"topic_name": name, "partitions_count": 2}
        client.post(path, json=new_topic).raise_for_status()
        new_consumer = {"name": name, "format": "json"}
        headers = {"content-type": V2}
        client.post("/consumers/g", json=new_consumer, headers=headers).raise_for_status()
    return {
        "cluster": cluster["cluster_id"],
        "topic": name,
        "partition": "0",
        "broker": str(broker),
        "group": "g",
        "instance": name,
        "name": "retention.ms",
    }


@pytest.fixture(scope="module")
def operations(proxy: RestProcess) -> list[Any]:
    """All operations that the proxy describes, as it serves the description."""
    document = httpx.get(f"{proxy.url}/openapi.json", timeout=60).json()
    api = schemathesis.openapi.from_dict(document)
    api.config.update(base_url=proxy.url)
    return [each.ok() for each in api.get_all_operations() if isinstance(each, Ok)]


@pytest.mark.parametrize("count", EXAMPLES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_responses_are_as_they_are_described(
    operations: list[Any], places: dict[str, str], version: str, mode: str, count: str
) -> None:
    """Half of the requests name things that are there. Those that delete them come last."""
    chosen = [each for each in operations if version in each.tags]
    chosen.sort(key=lambda each: each.method.upper() == "DELETE")
    assert len(chosen) > 1
    for operation in chosen:
        if mode == "good" or operation.body or operation.query:
            judge(operation, places, mode, EXAMPLES[count])


def judge(operation: Any, places: dict[str, str], mode: str, example_count: int) -> None:
    """Send examples of requests, and judge the responses."""

    @settings(
        max_examples=example_count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=MODES[mode]), is_placed=st.booleans())
    def send(case: Any, *, is_placed: bool) -> None:
        known = places if is_placed else {"cluster": places["cluster"]}
        case.path_parameters = {
            name: known.get(name, value) for name, value in (case.path_parameters or {}).items()
        }
        bound(case)
        case.call_and_validate(checks=CHECKS, timeout=60)

    send()


def bound(case: Any) -> None:
    """Let a request neither wait for records nor create partitions for as long as it may."""
    for fields in (case.query, case.body):
        if isinstance(fields, dict):
            fields |= {name: most for name, most in BOUNDS.items() if name in fields}
