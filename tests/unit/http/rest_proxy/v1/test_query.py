"""The parameters of a stream: their defaults, and what is refused."""

import pytest

from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v1.positions import Start
from log_service.http.rest_proxy.v1.query import StreamQuery, query_of
from log_service.http.server.values import HttpError, HttpRequest


def asked(*query: tuple[str, str], **headers: str) -> StreamQuery:
    """Return the parameters of a request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return query_of(HttpRequest(method="GET", path="/", query=query, headers=named))


def test_without_follow_a_stream_begins_at_the_first_record() -> None:
    assert asked() == StreamQuery(start=Start(kind="earliest"))


def test_with_follow_a_stream_begins_at_the_end() -> None:
    assert asked(("follow", "true")).start == Start(kind="latest")


def test_the_position_of_a_reconnect_wins_over_the_address() -> None:
    """A browser repeats the address as it was, and sends its position beside it."""
    found = asked(("from", "earliest"), last_event_id="0:7")
    assert found.start.pairs == {0: 7}


@pytest.mark.parametrize(
    ("accept", "has_events"),
    [
        ("text/event-stream", True),
        ("*/*", False),
        ("application/x-ndjson", False),
        ("text/html;q=0.9, text/event-stream;q=0.1", True),
    ],
)
def test_accept_chooses_the_form(accept: str, *, has_events: bool) -> None:
    assert asked(accept=accept).has_events == has_events


def test_format_wins_over_accept() -> None:
    assert asked(("format", "sse"), accept="application/json").has_events


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "many"),
        ("partitions", "0,a"),
        ("partitions", ",".join(map(str, range(65)))),
        ("partitions", "-1"),
        ("follow", "maybe"),
        ("encoding", "xml"),
        ("format", "csv"),
        ("isolation", "none"),
        ("form", "earliest"),
    ],
)
def test_a_wrong_parameter_is_named(name: str, value: str) -> None:
    with pytest.raises(RestError, match=name) as refused:
        asked((name, value))
    assert refused.value.status == 422


def test_a_filter_that_is_not_clear_is_refused() -> None:
    with pytest.raises(HttpError, match="filter"):
        asked(("filter", "value ="))


def test_a_client_that_takes_no_stream_is_told_what_to_ask_for() -> None:
    with pytest.raises(RestError, match="ndjson") as refused:
        asked(accept="text/html")
    assert refused.value.status == 406
