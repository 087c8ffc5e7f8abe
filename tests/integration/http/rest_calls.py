"""Clients of a REST proxy, and what tests ask of it."""

import base64
import json
from collections import Counter
from typing import Any

import httpx

from log_service.client import BlockingAdmin, BlockingConsumer
from tests.helpers.rest_process import RestProcess

V2 = "application/vnd.kafka.v2+json"
NDJSON = "application/x-ndjson"


def v2(record_format: str) -> str:
    """Return the media type of records in a format."""
    return f"application/vnd.kafka.{record_format}.v2+json"


def base64_of(data: bytes) -> str:
    """Return the base64 of bytes."""
    return base64.b64encode(data).decode()


def refusal(response: httpx.Response) -> tuple[int, int]:
    """Return the status and the error code of a refusal."""
    return response.status_code, response.json()["error_code"]


def produce(client: httpx.Client, topic: str, record_format: str, *records: Any) -> httpx.Response:
    """Produce records in a format."""
    headers = {"content-type": v2(record_format), "accept": V2}
    return client.post(f"/topics/{topic}", json={"records": list(records)}, headers=headers)


def post(
    proxy: RestProcess, topic: str, *records: Any, key: str | None = None, **query: str
) -> httpx.Response:
    """Write records."""
    headers = {"content-type": NDJSON} | ({} if key is None else {"idempotency-key": key})
    body = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in records)
    url = f"{proxy.url}/v1/topics/{topic}/records"
    return httpx.post(url, content=body, headers=headers, params=query, timeout=60)


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the lines of a response."""
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def committed(bootstrap: str, topic: str) -> Counter[bytes]:
    """Return how often each value is in a topic, for readers of committed records."""
    found = Counter[bytes]()
    with (
        BlockingAdmin(bootstrap) as admin,
        BlockingConsumer(bootstrap, isolation_level="read_committed") as consumer,
    ):
        ends = {
            where: each.last_stable_offset
            for where, each in admin.describe_offsets([topic]).items()
        }
        consumer.assign(ends)
        consumer.seek_to_beginning()
        while any(consumer.position(where) < end for where, end in ends.items()):
            found.update(record.value for record in consumer.poll(timeout_ms=500))
    return found


class Consumer:
    """A consumer instance in a proxy."""

    def __init__(self, client: httpx.Client, group: str, record_format: str, **fields: Any) -> None:
        self.client, self.record_format = client, record_format
        body = {"format": record_format, "auto.offset.reset": "earliest", **fields}
        created = client.post(f"/consumers/{group}", json=body, headers={"content-type": V2})
        assert created.status_code == 200, created.text
        self.instance_id = created.json()["instance_id"]
        self.path = f"/consumers/{group}/instances/{self.instance_id}"
        assert created.json()["base_uri"] == f"{str(client.base_url).rstrip('/')}{self.path}"

    def post(self, what: str, body: object) -> httpx.Response:
        """Post a body to a part of the instance."""
        return self.client.post(
            f"{self.path}/{what}", json=body, headers={"content-type": V2, "accept": V2}
        )

    def get(self, what: str, body: object | None = None) -> httpx.Response:
        """Get a part of the instance, which may need a body."""
        return self.client.request("GET", f"{self.path}/{what}", json=body, headers={"accept": V2})

    def read(self, timeout_ms: int = 10_000, **query: int) -> Any:
        """Return the next records."""
        response = self.client.get(
            f"{self.path}/records",
            params={"timeout": timeout_ms, **query},
            headers={"accept": v2(self.record_format)},
        )
        assert response.status_code == 200, response.text
        return response.json()

    def read_all(self, count: int) -> list[Any]:
        """Return so many records, which may come in several responses."""
        found: list[Any] = []
        while len(found) < count:
            records = self.read()
            assert records, f"{len(found)} of {count} records came"
            found += records
        return found
