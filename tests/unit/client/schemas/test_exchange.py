"""A client repeats a request when that may help, at the next address first.

Its failure says where and about what.
"""

import json
from typing import Any

import pytest

from log_service.client import SchemaRegistryError
from log_service.client.schemas.exchange import (
    Exchange,
    HttpCall,
    HttpFailure,
    HttpResponse,
    Outcome,
    Pause,
    Request,
)
from log_service.client.schemas.settings import RegistryClientSettings

REQUEST = Request(
    method="GET",
    path=("subjects", "a/b c", "versions", "latest"),
    query={"deleted": True, "format": None},
    subject="a/b c",
)
TARGET = "/subjects/a%2Fb%20c/versions/latest?deleted=true"
DOWN = HttpFailure(text="ConnectError: refused")


def response(status: int, body: Any = None) -> HttpResponse:
    return HttpResponse(status=status, content=b"" if body is None else json.dumps(body).encode())


def play(exchange: Exchange, *outcomes: Outcome) -> tuple[list[str], Any]:
    """Return the steps that a request takes with these outcomes, and its value or its error."""
    steps, left, taken = exchange.ask(REQUEST, lambda body: body), list(outcomes), []
    outcome: Outcome | None = None
    try:
        while True:
            step = steps.send(outcome)
            taken.append(step.url if isinstance(step, HttpCall) else f"pause {step.seconds:g}")
            outcome = None if isinstance(step, Pause) else left.pop(0)
    except StopIteration as done:
        assert left == []
        return taken, done.value
    except SchemaRegistryError as error:
        assert left == []
        return taken, error


def exchange_with(url: str = "http://one", **given: Any) -> Exchange:
    return Exchange(RegistryClientSettings.of(url, given), random=lambda: 0.5)


def test_a_response_is_read() -> None:
    """The path is percent-encoded by segments, and the query leaves out what is not given."""
    assert play(exchange_with(), response(200, {"id": 1})) == ([f"http://one{TARGET}"], {"id": 1})
    assert play(exchange_with("http://one/registry/"), response(204)) == (
        [f"http://one/registry{TARGET}"],
        None,
    )


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_status_that_may_pass_is_retried_with_growing_pauses(status: int) -> None:
    """Each pause is at most twice the one before it, and has a bound."""
    exchange = exchange_with(max_retries=3, retries_wait_ms=1000, retries_max_wait_ms=3000)
    taken, found = play(exchange, *[response(status, {})] * 3, response(200, 7))
    assert [step for step in taken if step.startswith("pause")] == [
        "pause 0.5",
        "pause 1",
        "pause 1.5",
    ]
    assert (len(taken), found) == (7, 7)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
def test_a_refusal_is_final(status: int) -> None:
    """The error has the registry's numbers and text, its address and the subject."""
    taken, error = play(
        exchange_with("http://one,http://two"),
        response(status, {"error_code": 42201, "message": "Bad schema."}),
    )
    assert taken == [f"http://one{TARGET}"]
    assert (error.status, error.code, error.text, error.address, error.subject) == (
        status,
        42201,
        "Bad schema.",
        "http://one",
        "a/b c",
    )
    assert str(error) == (
        f"the schema registry at http://one refused GET {TARGET} about subject 'a/b c': Bad schema. (status {status}, code 42201)"
    )
    assert not error.is_retriable


def test_the_next_address_is_asked_before_any_pause() -> None:
    """The address that responded is the first one of later requests."""
    exchange = exchange_with("http://one, http://two,http://three")
    assert play(exchange, DOWN, response(503), response(200, 1)) == (
        [f"http://{name}{TARGET}" for name in ("one", "two", "three")],
        1,
    )
    assert play(exchange, response(200, 2)) == ([f"http://three{TARGET}"], 2)
    assert play(exchange, DOWN, response(200, 3))[0] == [
        f"http://three{TARGET}",
        f"http://one{TARGET}",
    ]


def test_a_registry_that_cannot_be_reached_is_named() -> None:
    """With its addresses, the request, the subject, and the reason."""
    taken, error = play(exchange_with("http://one,http://two", max_retries=1), *[DOWN] * 4)
    assert taken == [
        f"http://one{TARGET}",
        f"http://two{TARGET}",
        "pause 0.5",
        f"http://one{TARGET}",
        f"http://two{TARGET}",
    ]
    assert (error.status, error.code, error.is_retriable) == (0, -1, True)
    expected = f"no schema registry responded to GET {TARGET} about subject 'a/b c' at http://one, http://two: ConnectError: refused"
    assert str(error) == expected


def test_the_last_refusal_is_told_when_retries_are_used_up() -> None:
    """It may be another one than the first."""
    _, error = play(
        exchange_with(max_retries=1),
        response(500, {"error_code": 50001, "message": "Store"}),
        response(503, {"message": 1}),
    )
    assert (error.status, error.code, error.text, error.is_retriable) == (
        503,
        -1,
        "the response gives no reason",
        True,
    )


@pytest.mark.parametrize("content", [b"<html>", b"\xff", b"[1]"])
def test_a_page_of_something_else_is_no_response_of_a_registry(content: bytes) -> None:
    """A proxy may send a page of its own, also with status 200."""
    steps = exchange_with().ask(REQUEST, lambda body: body["id"])
    next(steps)
    with pytest.raises(SchemaRegistryError, match="not one of a schema registry") as raised:
        steps.send(HttpResponse(status=200, content=content))
    assert raised.value.status == 200


def test_a_body_is_json_and_logins_go_along() -> None:
    """No repr shows them."""
    exchange = exchange_with("http://ann:se%3Acret@one")
    call = next(
        exchange.ask(Request(method="POST", path=("subjects", "é"), body={"schema": "é"}), str)
    )
    assert isinstance(call, HttpCall)
    assert call.url == "http://one/subjects/%C3%A9"
    assert json.loads(call.content or b"") == {"schema": "é"}
    assert call.headers["Authorization"] == "Basic YW5uOnNlOmNyZXQ="
    assert call.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert "YW5u" not in repr(call)
