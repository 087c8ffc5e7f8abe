"""Requests and their responses on one connection: framing, order, methods, bodies and refusals."""

import logging

import pytest
import trio

from log_service.http.server.limits import HttpLimits
from tests.unit.http.server.harness import GET, RawClient, Stage, play

POST = b"POST /hello HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: registry", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(path: str, *chunks: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: registry\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: registry\r\n\r\n".encode()


def test_one_connection_serves_many_requests() -> None:
    """A connection is kept alive, and each response has its length, date and type."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        for _ in range(3):
            answer = await client.ask(GET)
            assert (answer.status, answer.body) == (200, b"hello")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-type"] == "text/plain"
            assert answer.headers["date"].endswith(" GMT")
            assert "connection" not in answer.headers
        assert stage.responses == [("GET", "/hello", 200)] * 3
        assert stage.server.connection_count == 1

    play(scene)


def test_pipelined_requests_get_their_responses_in_order() -> None:
    """Requests that come at once are handled one after the other."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        first, second = post("/hello", b"first"), post("/hello", b"second")
        await client.send(GET + first + get("/pieces") + second + get("/nothing"))
        answers = [await client.answer() for _ in range(5)]
        assert [answer.body for answer in answers[:4]] == [
            b"hello",
            b"first",
            b"one two three",
            b"second",
        ]
        assert answers[4].status == 404

    play(scene)


def test_a_request_may_come_byte_by_byte() -> None:
    """The parts in which bytes arrive make no difference."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        for byte in post("/hello", b"slowly") + chunked("/hello", b"and", b"again"):
            await client.send(bytes([byte]))
        assert (await client.answer()).body == b"slowly"
        assert (await client.answer()).body == b"andagain"

    play(scene)


def test_head_has_the_headers_of_get_and_no_body() -> None:
    """HEAD works on every GET route, also on one that makes its body piece by piece."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(get("/hello", "HEAD"), is_head=True)
        assert (answer.status, answer.headers["content-length"]) == (200, "5")
        answer = await client.ask(get("/endless", "HEAD"), is_head=True)
        assert (answer.status, answer.headers["transfer-encoding"]) == (200, "chunked")
        assert (await client.ask(GET)).body == b"hello"
        answer = await client.ask(get("/nothing", "HEAD"), is_head=True)
        assert answer.status == 404
        assert (await client.ask(GET)).body == b"hello"

    play(scene)


@pytest.mark.parametrize("target", ["hello", "/" + "x" * 9_000])
def test_a_refused_head_has_no_body(target: str, caplog: pytest.LogCaptureFixture) -> None:
    """A HEAD whose head is refused got the body of the refusal, which broke its connection."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(get(target, "HEAD"), is_head=True)
        assert answer.status in {400, 414}
        assert await client.is_closed()

    play(scene)
    assert caplog.records == []


def test_methods_that_a_path_lacks_are_named() -> None:
    """A wrong method gets 405, OPTIONS gets 204, and both list the methods of the path."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        for method, status in (("PUT", 405), ("OPTIONS", 204), ("CONNECT", 405), ("BREW", 405)):
            answer = await client.ask(get("/hello", method))
            assert (answer.status, answer.headers["allow"]) == (
                status,
                "DELETE, GET, HEAD, OPTIONS, POST",
            )
        assert (await client.ask(get("*", "OPTIONS"))).status == 204
        assert (await client.ask(get("/nothing", "OPTIONS"))).status == 404
        assert (await client.ask(get("/hello", "DELETE"))).status == 204
        assert (await client.ask(GET)).body == b"hello"

    play(scene)


def test_placeholders_and_queries_are_decoded() -> None:
    """An encoded slash stays within its placeholder, and pairs keep their order."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        path = "/names/%3A.ctx%3Aa%2Fb%C3%A9/versions/:latest"
        await client.ask(get(f"{path}?normalize=true&x=1%202&x=a+b&empty="))
        (request,) = stage.sample.requests
        assert request.path_values == {"name": ":.ctx:a/bé", "version": ":latest"}
        assert request.query == (("normalize", "true"), ("x", "1 2"), ("x", "a b"), ("empty", ""))
        assert request.query_value("x") == "1 2"
        assert request.path == path
        assert (request.principal, request.peer) == ("User:ANONYMOUS", "client")
        assert (await client.ask(get("/names/%ff/versions/1"))).status == 400
        assert (await client.ask(get("/hello?x=%ff"))).status == 400

    play(scene)


def test_headers_are_in_lower_case_and_joined() -> None:
    """Names do not depend on case. Values of a repeated header are joined."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        headers = [b"HoSt: registry", b"ACCEPT: a/b", b"accept: c/d", b"Cookie: x=1"]
        headers.append(b"cookie: y=2")
        await client.ask(b"\r\n".join([b"GET /hello HTTP/1.1", *headers, b"\r\n"]))
        assert stage.sample.requests[0].headers == {
            "host": "registry",
            "accept": "a/b, c/d",
            "cookie": "x=1; y=2",
        }

    play(scene)


def test_a_target_may_be_a_whole_address() -> None:
    """The host of the address stands for the header, as proxies send it (RFC 9112, 3.2.2)."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert (await client.ask(get("http://other:8081/hello?a=b"))).body == b"hello"
        request = stage.sample.requests[0]
        assert (request.path, request.query, request.headers["host"]) == (
            "/hello",
            (("a", "b"),),
            "other:8081",
        )
        assert (await client.ask(get("http://other"))).status == 404
        for target in ("hello", "*"):
            answer = await (await stage.connect()).ask(get(target))
            assert (answer.status, answer.headers["connection"]) == (400, "close")

    play(scene)


def test_chunked_bodies_are_joined_and_bounded() -> None:
    """A chunked body is refused as soon as it is longer than its route allows."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(chunked("/hello", b"a" * 60, b"b" * 40))
        assert answer.body == b"a" * 60 + b"b" * 40
        answer = await client.ask(chunked("/hello", b"a" * 60, b"b" * 41))
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert await client.is_closed()

    play(scene)


def test_a_body_that_is_declared_too_long_is_refused_before_it_comes() -> None:
    """The connection ends after a 413, because the rest of the body is not read."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        head = post("/large", b"").replace(b"Content-Length: 0", b"Content-Length: 99999999")
        answer = await client.ask(head)
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        await trio.testing.wait_all_tasks_blocked()
        await client.send(bytes(200_000))
        assert await client.is_closed()

    play(scene)


def test_a_short_body_that_was_not_read_does_not_end_the_connection() -> None:
    """A refusal that comes before a short body lets the connection go on."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert (await client.ask(post("/nothing", b"x" * 5_000))).status == 404
        assert (await client.ask(post("/hello", b"x" * 5_000))).status == 413
        assert (await client.ask(GET)).body == b"hello"
        answer = await client.ask(chunked("/nothing", b"x" * 5_000))
        assert (answer.status, answer.headers["connection"]) == (404, "close")
        assert await client.is_closed()

    play(scene)


def test_a_client_that_expects_it_is_asked_for_its_body() -> None:
    """100 comes before the body is read, and not before a refusal."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        head, body = post("/hello", b"body", "Expect: 100-continue")[:-4], b"body"
        assert (await client.ask(head)).status == 100
        assert (await client.ask(body)).body == b"body"
        answer = await client.ask(post("/hello", b"x" * 101, "Expect: 100-continue")[:-101])
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert await client.is_closed()

    play(scene)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400),
        (b"GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (
            POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            400,
        ),
        (POST + b"Content-Length: 1, 2\r\n\r\nab", 400),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: +1\r\n\r\na", 400),
        (
            POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
            400,
        ),
        (b"POST /hello HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (
            b"POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
        (
            POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
            501,
        ),
        (POST + CHUNKED + b"\r\nxyz\r\n", 400),
        (POST + CHUNKED + b"\r\n-1\r\na\r\n", 400),
        (POST + CHUNKED + b"\r\n1\r\nabc\r\n", 400),
        (
            POST + CHUNKED + b"\r\n" + b"f" * 30 + b"\r\n",
            400,
        ),
        (
            POST + CHUNKED + b"\r\n1;" + b"x" * 70_000,
            400,
        ),
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET /" + b"x" * 70_000, 414),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 33_000 + b"\r\n\r\n", 431),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000, 431),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
        (b"GET /hello?" + b"a&" * 101 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ],
)
def test_broken_requests_are_refused(sent: bytes, status: int) -> None:
    """A head or a body that is none gets its status, and ends the connection."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(sent + (GET if sent.endswith(b"\n") else b""))
        assert answer.status == status
        assert await client.is_closed()
        assert stage.sample.requests == []
        assert [response[2] for response in stage.responses] == [status]

    play(scene)


def test_a_body_of_tiny_chunks_is_refused() -> None:
    """Chunks of a byte cost far more time than bytes, so a long body has larger ones."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert len((await client.ask(chunked("/large", *[b"x"] * 250))).body) == 250
        assert len((await client.ask(chunked("/large", *[b"x" * 64] * 2_000))).body) == 128_000
        answer = await client.ask(chunked("/large", *[b"x"] * 5_000))
        assert (answer.status, answer.headers["connection"]) == (400, "close")

    play(scene)


def test_old_clients_get_a_whole_body_and_the_end() -> None:
    """HTTP/1.0 has no chunks, so the end of the connection ends the body."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(b"GET /pieces HTTP/1.0\r\n\r\n")
        assert (answer.body, answer.headers["connection"]) == (b"one two three", "close")

    play(scene)


def test_a_client_may_ask_to_close() -> None:
    """The connection ends after the response to such a request."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GET)
        assert (answer.body, answer.headers["connection"]) == (b"hello", "close")
        assert await client.is_closed()

    play(scene)


@pytest.mark.parametrize("path", ["/bug", "/wrong"])
def test_a_bug_of_a_handler_costs_one_request(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets 500, the log gets the traceback, and the connection goes on."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(get(path))
        assert answer.status == 500
        assert b"bug of ours" not in answer.body
        assert "set-cookie" not in answer.headers
        assert (await client.ask(GET)).body == b"hello"

    with caplog.at_level(logging.ERROR):
        play(scene)
    (record,) = caplog.records
    assert f"GET {path} of client failed" in record.getMessage()
    assert record.exc_info is not None


def test_a_response_that_breaks_off_is_seen_as_such(caplog: pytest.LogCaptureFixture) -> None:
    """The last chunk is missing, so a client does not take the part for the whole."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(get("/broken"))
        assert (await client.rest()).endswith(b"\r\n\r\n5\r\nbegin\r\n")
        assert (await (await stage.connect()).ask(GET)).body == b"hello"

    play(scene)
    assert "GET /broken of client failed" in caplog.text


def test_a_refusal_of_a_handler_has_its_headers() -> None:
    """HttpError becomes a response, and is counted with its route."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(get("/refused"))
        assert (answer.status, answer.body, answer.headers["x-why"]) == (
            409,
            b"there is one already\n",
            "order",
        )
        await client.ask(get("/nothing"))
        assert (await client.ask(GET)).status == 200
        assert stage.responses[:2] == [("GET", "/refused", 409), ("", "", 404)]

    play(scene)


def test_bodies_may_stream_both_ways() -> None:
    """A response begins before the request has ended, and each piece follows its own."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(chunked("/stream")[:-5])
        await client.send(b"3\r\nabc\r\n")
        head = await client.receive_until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert await client.receive_exactly(8) == b"3\r\nABC\r\n"
        await client.send(b"2\r\nde\r\n")
        assert await client.receive_exactly(7) == b"2\r\nDE\r\n"
        await client.send(b"0\r\n\r\n")
        assert await client.receive_exactly(5) == b"0\r\n\r\n"
        assert (await client.ask(GET)).body == b"hello"

    play(scene)


def test_a_broken_stream_of_a_client_is_no_failure_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The response breaks off, and the log has no traceback."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        await client.send(chunked("/stream", b"abc")[:-5] + b"xyz\r\n")
        assert (await client.rest()).endswith(b"3\r\nABC\r\n")

    play(scene)
    assert caplog.records == []


def test_a_stream_that_no_handler_reads_is_dropped_while_it_is_short() -> None:
    """A client learns before it sends again that its connection ends."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert (await client.ask(post("/unread", b"x" * 60_000))).body == b"hello"
        assert (await client.ask(GET)).body == b"hello"
        head = post("/unread", b"").replace(b"Content-Length: 0", b"Content-Length: 70000")
        assert (await client.ask(head)).headers["connection"] == "close"
        assert await client.is_closed()

    play(scene)


def test_large_bodies_pass_both_ways() -> None:
    """A body of many pieces arrives whole."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert len((await client.ask(get("/big"))).body) == 3 << 20
        body = bytes(range(256)) * 3_000
        received: RawClient = client
        answer = await received.ask(post("/large", body))
        assert answer.body == body

    play(scene, limits=HttpLimits(max_body_bytes=1 << 20))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8081", 200),
        ("127.0.0.1", 200),
        ("[::1]:8081", 200),
        ("evil.example:8081", 421),
        ("", 421),
        ("proxied", 421),
    ],
)
def test_a_loopback_listener_is_asked_by_a_local_name(host: str, status: int) -> None:
    """Another name may be one that a stranger's DNS points here."""

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        assert (await client.ask(GET)).status == 421
        assert (await client.ask(GET.replace(b"registry", host.encode()))).status == status

    play(scene, host="127.0.0.1")


@pytest.mark.parametrize(
    ("headers", "status", "remote_status"),
    [
        ((), 200, 200),
        (("Origin: http://localhost:3000",), 200, 403),
        (("Origin: http://[::1]:3000",), 200, 403),
        (("Origin: http://localhost",), 200, 200),
        (("Origin: https://evil.example",), 403, 403),
        (("Sec-Fetch-Site: same-origin", "Origin: https://front.example"), 403, 200),
        (("Origin: null",), 403, 403),
        (("Origin: evil",), 403, 403),
        (("Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:8081"), 200, 200),
        (("Sec-Fetch-Site: cross-site", "Origin: http://127.0.0.1:8081"), 403, 403),
    ],
)
def test_a_page_of_another_site_changes_nothing(
    headers: tuple[str, ...], status: int, remote_status: int
) -> None:
    """A browser sends its POST without asking first, with the login that it knows.

    A proxy may have another name than the listener that it leads to. The browser then says that
    the page is of the same origin, which counts on addresses that are not loopback.
    """
    lines = "".join(f"{header}\r\n" for header in headers)
    for host, expected in (("127.0.0.1", status), ("server", remote_status)):

        async def scene(stage: Stage, expected: int = expected) -> None:
            client = await stage.connect()
            head = f"Host: localhost\r\n{lines}"
            sent = f"POST /hello HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n".encode()
            assert (await client.ask(sent)).status == expected
            read = f"GET /hello HTTP/1.1\r\n{head}\r\n".encode()
            assert (await client.ask(read)).status == 200

        play(scene, host=host)
