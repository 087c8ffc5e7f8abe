"""Fields of forms and queries: what is refused, and with which words."""

import pytest

from log_service.http.console.forms import choice_of, configs_of, form_of, number_of, time_of
from log_service.http.server.values import HttpError, HttpRequest


def posted(body: bytes, content_type: str = "application/x-www-form-urlencoded") -> HttpRequest:
    return HttpRequest(method="POST", path="/", body=body, headers={"content-type": content_type})


def test_a_form_has_its_first_values_in_any_script() -> None:
    assert form_of(posted(b"a=1&a=2&b=%C3%A4+x&c=1%0D%0A2")) == {"a": "1", "b": "ä x", "c": "1\n2"}


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"a=1", "", 415),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"\xff", "application/x-www-form-urlencoded", 400),
        (b"&".join(b"a=1" for _ in range(300)), "application/x-www-form-urlencoded", 400),
    ],
)
def test_a_body_that_is_no_form_is_refused(body: bytes, content_type: str, status: int) -> None:
    with pytest.raises(HttpError) as caught:
        form_of(posted(body, content_type))
    assert caught.value.status == status


@pytest.mark.parametrize("text", ["x", "1.5", "-1", "101", "\u0661", "9" * 30, "--1"])
def test_a_number_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(HttpError, match="limit is"):
        number_of({"limit": text}, "limit", 5, most=100)


def test_a_number_may_be_left_out() -> None:
    assert number_of({"limit": " "}, "limit", 5) == 5
    assert number_of({"shift": "-7"}, "shift", 0, least=-10) == -7


def test_a_choice_is_one_of_a_few() -> None:
    assert choice_of({}, "from", ("latest", "earliest")) == "latest"
    with pytest.raises(HttpError, match="may be latest, earliest"):
        choice_of({"from": "never"}, "from", ("latest", "earliest"))


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1000", 1_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T01:00+01:00", 0),
        (" 1970-01-02 ", 86_400_000),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, time_ms: int) -> None:
    assert time_of(text, "time") == time_ms


@pytest.mark.parametrize("text", ["", "yesterday", "1960-01-01", "0001-01-01T00:00+23:59"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(HttpError, match="1970"):
        time_of(text, "time")


def test_configs_are_lines() -> None:
    assert configs_of("a=1\n\n b = x=y \n") == {"a": "1", "b": "x=y"}
    with pytest.raises(HttpError, match="line 2"):
        configs_of("a=1\nb")
    with pytest.raises(HttpError, match="again"):
        configs_of("a=1\na=2")
