"""A schema registry over HTTP: what is asked, and which responses count as an answer."""

import json
from base64 import b64encode
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.broker.schema_validation.http_registry import HttpRegistry
from log_service.broker.schema_validation.registry import Registered, RegistryUnavailableError
from log_service.common.secrets import SecretText
from log_service.config.schema_registry import SchemaRegistryConfig
from log_service.records.rules import SchemaName
from log_service.security.issuer_errors import IssuerError
from log_service.security.issuer_requests import IssuerTls, Response

A, B = "http://a:8081", "http://b:8081"
GUID = UUID(int=7)
AVRO = json.dumps({"type": "record", "name": "Order", "fields": []})


class Web:
    """Responses by URL. A URL without one cannot be reached."""

    def __init__(self, **paths: tuple[int, Any]) -> None:
        self.responses: dict[str, tuple[int, Any]] = {}
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}

    def exchange(
        self, url: str, tls: IssuerTls, *, headers: dict[str, str], timeout_s: float
    ) -> Response:
        assert timeout_s <= 3
        self.asked.append(url)
        self.headers = headers
        if url not in self.responses:
            raise IssuerError(f"{url} cannot be reached: Connection refused", may_pass=True)
        status, content = self.responses[url]
        return Response(
            status=status,
            body=content if isinstance(content, bytes) else json.dumps(content).encode(),
        )


def ask(
    web: Web,
    name: SchemaName,
    *,
    urls: tuple[str, ...] = (A,),
    has_record_names: bool = False,
    **more: Any,
) -> Registered:
    registry = HttpRegistry(SchemaRegistryConfig(urls=urls, **more), web.exchange)

    async def main() -> Registered:
        return await registry.registered(name, has_record_names=has_record_names)

    return trio.run(main)


def subjects_of(url: str, schema_id: int = 7) -> str:
    return f"{url}/schemas/ids/{schema_id}/subjects?limit=1000"


@pytest.fixture
def web() -> Web:
    made = Web()
    made.responses[subjects_of(A)] = (200, ["orders-value"])
    made.responses[f"{A}/schemas/ids/7"] = (200, {"schema": AVRO})
    made.responses[f"{A}/schemas/guids/{GUID}/ids"] = (
        200,
        [{"context": ".x", "id": 9}, {"context": ".", "id": 7}],
    )
    return made


def test_subjects_and_names_of_an_id_and_a_guid(web: Web) -> None:
    expected = Registered(subjects=frozenset({"orders-value"}))
    assert ask(web, 7) == expected
    assert ask(web, GUID.bytes) == expected
    assert ask(web, 7, has_record_names=True) == Registered(
        subjects=expected.subjects, record_names=frozenset({"Order"})
    )


@pytest.mark.parametrize("code", [40401, 40403])
def test_a_schema_that_is_not_there_is_an_answer(web: Web, code: int) -> None:
    web.responses[subjects_of(A)] = (404, {"error_code": code, "message": "not found"})
    assert ask(web, 7) == Registered()


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (404, b"<html>not found</html>"),
        (404, {"error_code": 404, "message": "no such path"}),
        (404, []),
        (200, b"hello"),
        (200, {"subjects": []}),
        (200, [1, 2]),
        (500, {"error_code": 50001}),
        (302, b""),
    ],
)
def test_a_response_that_is_none_of_a_registry_is_no_answer(
    web: Web, status: int, content: object
) -> None:
    web.responses[subjects_of(A)] = (status, content)
    with pytest.raises(
        RegistryUnavailableError, match=f"http://a:8081 responded with status {status}"
    ):
        ask(web, 7)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_names_its_keys(web: Web, status: int) -> None:
    web.responses[subjects_of(A)] = (status, {"error_code": status, "message": "no"})
    with pytest.raises(RegistryUnavailableError, match=r"confluent\.basic\.auth\.user\.info"):
        ask(web, 7)


def test_the_login_is_sent_and_not_shown(web: Web) -> None:
    ask(web, 7, user=SecretText("ann:secret"))
    assert web.headers["Authorization"] == f"Basic {b64encode(b'ann:secret').decode()}"
    assert "secret" not in repr(
        HttpRegistry(SchemaRegistryConfig(urls=(A,), user=SecretText("ann:secret")))
    )


def test_the_next_url_is_asked_and_the_one_that_answered_is_asked_first(web: Web) -> None:
    registry = HttpRegistry(SchemaRegistryConfig(urls=(B, A)), web.exchange)

    async def main() -> None:
        for _ in range(2):
            found = await registry.registered(7, has_record_names=False)
            assert found.subjects == {"orders-value"}

    trio.run(main)
    assert web.asked == [subjects_of(B), subjects_of(A), subjects_of(A)]


def test_all_addresses_that_cannot_be_reached_are_named() -> None:
    with pytest.raises(RegistryUnavailableError) as failed:
        ask(Web(), 7, urls=(A, B))
    assert "http://a:8081" in str(failed.value)
    assert "http://b:8081" in str(failed.value)


@pytest.mark.parametrize(
    ("status", "content", "subject"),
    [
        (200, {"compatibilityLevel": "FULL", "alias": "all-orders"}, "all-orders"),
        (200, {"compatibilityLevel": "FULL"}, "a/b-value"),
        (404, {"error_code": 40408, "message": "no setting of its own"}, "a/b-value"),
        (403, {"error_code": 40301, "message": "not authorized"}, "a/b-value"),
        (200, {"alias": 7}, None),
        (500, {"error_code": 50001}, None),
    ],
)
def test_the_subject_that_an_alias_stands_for(
    web: Web, status: int, content: object, subject: str | None
) -> None:
    """A broker that may not read settings follows none. It waits for a registry that fails."""
    web.responses[f"{A}/config/a%2Fb-value"] = (status, content)
    registry = HttpRegistry(SchemaRegistryConfig(urls=(A,)), web.exchange)
    if subject is None:
        with pytest.raises(RegistryUnavailableError):
            trio.run(registry.aliased, "a/b-value")
    else:
        assert trio.run(registry.aliased, "a/b-value") == subject
