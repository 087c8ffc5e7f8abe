"""Bodies of requests that take long to read, or lead to long messages."""

import json
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import trio

from log_service.http.schema_registry.api.json_bodies import (
    MAX_BODY_BYTES,
    parse_object,
    read_object,
)
from log_service.http.schema_registry.errors import RegistryError
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS
from log_service.http.server.json_bodies import LONG_BODY_BYTES, MAX_PARTS
from log_service.http.server.values import HttpError, HttpRequest
from tests.helpers.watchdog import MOST_CALLS, Watchdog
from tests.unit.http.schema_registry.served import Served, tell

T = TypeVar("T")

KNOWN = frozenset({"schema", "x"})


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of function calls that some work takes."""

    async def main() -> int:
        with Watchdog() as watchdog:
            work()
        return watchdog.most

    return trio.run(main)


def refused(body: bytes) -> str:
    """Return the text of a refusal."""
    try:
        parse_object(body, KNOWN)
    except (HttpError, RegistryError) as error:
        return error.text if error.status in {400, 413, 422} else f"status {error.status}"
    raise AssertionError("the body is taken")


@pytest.mark.parametrize(
    "unit", [b"[],", b"{},", b"1,", b"1.5,", b"true,", b'"",', b'{"a":0},', b"[[[],"]
)
def test_a_body_of_very_many_parts_is_refused_before_it_is_parsed(unit: bytes) -> None:
    """The parser of the standard library would hold all threads for a second."""
    body = b'{"schema":[' + unit * (MAX_BODY_BYTES // len(unit) - 10) + b"1]}"
    assert "at most 50000 fields" in refused(body)


@pytest.mark.parametrize(
    "character", ["a", '"', "\\", "\n", "\x01", "\u20ac", "\U0001f600", ",", "[", "{"]
)
@pytest.mark.parametrize("is_escaped", [True, False])
def test_a_text_may_be_as_long_as_a_schema(character: str, *, is_escaped: bool) -> None:
    """Its characters are no parts of the body."""
    text = character * (USUAL_LIMITS.text_bytes // 4)
    body = json.dumps({"schema": text}, ensure_ascii=is_escaped).encode()
    assert parse_object(body, KNOWN) == {"schema": text}


def test_parts_are_counted_outside_of_texts() -> None:
    """Each field has a name, a value, and a separator."""
    most = {str(number): 0 for number in range(MAX_PARTS // 2 - 10)}
    body = json.dumps({"x": most}, separators=(",", ":")).encode()
    assert len(body) > LONG_BODY_BYTES
    assert parse_object(body, KNOWN) == {"x": most}
    assert "at most" in refused(
        json.dumps({"x": {**most, **{f"more{number}": 0 for number in range(20)}}}).encode()
    )


@pytest.mark.parametrize("tail", [b"", b'"', b'"}', b'\\"}', b"\\", b'",', b'" "}', b'\n"}'])
def test_a_long_body_that_is_no_json_is_refused_as_a_short_one(tail: bytes) -> None:
    """The count of its parts finds the same ends of texts as the parser."""
    for length in (10, LONG_BODY_BYTES):
        body = b'{"schema":"' + b"a" * length + tail
        try:
            json.loads(body)
        except ValueError:
            assert "not JSON in UTF-8" in refused(body)
        else:
            assert parse_object(body, KNOWN) == json.loads(body)


def test_a_repeated_name_is_found_without_a_search_for_each_name() -> None:
    """A search among 8,000 names for each of them would be 64 million steps."""
    names = ",".join(f'"a{number}":0' for number in range(8_000))
    body = f'{{"x":{{{names},"last":1,"last":2}}}}'.encode()
    assert "'last' comes twice" in refused(body)
    assert calls_of(lambda: refused(body)) < MOST_CALLS


@pytest.mark.parametrize(
    "body",
    [
        b'{"' + b"n" * 100_000 + b'":1}',
        b'{"' + b"n" * 100_000 + b'":1,"' + b"n" * 100_000 + b'":1}',
        b'{"\\ud800":1}',
        b"[" * 990 + b"]" * 990,
        b'{"x":' + b"[" * 900 + b'"\\ud800"' + b"]" * 900 + b"}",
    ],
    ids=["unknown", "twice", "surrogate", "deep", "deep surrogate"],
)
def test_a_message_repeats_a_part_of_the_body_at_most(body: bytes) -> None:
    """A long name would come back whole, and a deep one would be a failure of ours."""
    assert len(refused(body)) < 500


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": list(range(20_000))},
        {"schema": "{}", "schemaType": list(range(20_000))},
        {"schema": "{}", "schemaType": "x" * 30_000},
        {"schema": "{}", "references": {"x": "y" * 30_000}},
        {"schema": "{}", "references": [{"name": "a", "subject": "a", "version": "1" * 30_000}]},
        {"schema": "{}", "metadata": {"properties": {"x" * 30_000: 1}}},
        {
            "schema": "{}",
            "ruleSet": {
                "domainRules": [
                    {"name": "a", "type": "x", "tags": {str(n): n for n in range(3_000)}}
                ]
            },
        },
    ],
    ids="-".join,
)
def test_a_wrong_value_is_shown_in_short(fields: dict[str, Any]) -> None:
    """The message names its field, and the beginning of the value."""

    async def story(served: Served) -> None:
        status, body = await served.ask("POST", "/subjects/a/versions", fields)
        assert status == 422
        assert len(body["message"]) < 500

    tell(story)


def test_many_rules_are_compared_by_their_names_at_once() -> None:
    """A search for each name would take millions of steps."""
    rules = [{"name": f"r{number}", "type": "t"} for number in range(1_000)]
    body = {"schema": '"int"', "ruleSet": {"domainRules": [*rules, rules[-1]]}}

    async def story(served: Served) -> None:
        status, answer = await served.ask("POST", "/subjects/a/versions", body)
        assert (status, answer["error_code"]) == (422, 42210)
        assert "duplicate name 'r999'" in answer["message"]
        with Watchdog() as watchdog:
            await served.ask("POST", "/subjects/a/versions", body)
        assert watchdog.most < MOST_CALLS

    tell(story)


class Threads:
    """Workers that note the threads of their work."""

    def __init__(self) -> None:
        self.used: list[int] = []

    async def run_off_loop(self, work: Callable[[], T]) -> T:
        def noted() -> T:
            self.used.append(threading.get_ident())
            return work()

        return await trio.to_thread.run_sync(noted)


def test_a_long_body_is_read_in_another_thread() -> None:
    """A short one is not, because a thread takes longer than its parsing."""

    async def main() -> None:
        threads = Threads()
        for length, count in ((10, 0), (LONG_BODY_BYTES, 1)):
            body = json.dumps({"x": "a" * length}).encode()
            request = HttpRequest(method="POST", path="/", body=body)
            assert await read_object(request, ("x",), threads) == {"x": "a" * length}
            assert len(threads.used) == count
        assert threading.get_ident() not in threads.used

    trio.run(main)


@pytest.mark.parametrize(
    ("content_type", "of_program", "of_page"),
    [
        (None, 200, 415),
        ("application/json", 200, 200),
        ("Application/VND.schemaregistry.v1+json; charset=utf-8", 200, 200),
        ("application/octet-stream", 200, 415),
        ("text/plain", 415, 415),
        ("text/html", 415, 415),
        ("application/x-www-form-urlencoded", 200, 415),
        ("multipart/form-data; boundary=json", 415, 415),
        ("", 200, 415),
        ("text/plain; x=application/json", 415, 415),
    ],
)
def test_a_body_says_that_it_is_json(
    content_type: str | None, of_program: int, of_page: int
) -> None:
    """A browser then asks first, and a stranger's page gets no permission. Programs may leave the
    type out, and curl calls it a form then.
    """

    async def story(served: Served) -> None:
        headers = {} if content_type is None else {"content_type": content_type}
        body = {"schema": '"int"'}
        page = {**headers, "origin": "http://ui.example"}
        for given, status in ((headers, of_program), (page, of_page)):
            assert (await served.ask("POST", "/subjects/a/versions", body, **given))[0] == status
            change = {"compatibility": "NONE"}
            assert (await served.ask("PUT", "/config", change, **given))[0] == status
            assert (await served.ask("GET", "/subjects", **given))[0] == 200

    tell(story)
