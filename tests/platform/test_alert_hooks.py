"""A real HTTP server and a real mail receiver get alerts by the settings.

A hook that fails is logged and fails nothing.
"""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import InvalidURL
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import StreamRequestHandler, TCPServer
from typing import Any

import pytest

from orchestration.sensing import alert_hooks
from orchestration.sensing.alert_hooks import HOOKS_WITHIN_S, WINDOW_S, Patience, send_alert
from orchestration.sensing.run_failures import Alert
from orchestration.settings import SettingsError, load_settings
from tests.helpers.ports import free_port

pytestmark = pytest.mark.platform
ALERT = Alert(subject="clean_orders", run_id="r1", failures=2, why="the amount is no number: 'é'")


@contextmanager
def serving(server: TCPServer) -> Iterator[int]:
    """Serve in a thread, and yield the port."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    with server:
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def web_server(
    status: int, location: str | None = None
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield a URL, and what is posted there; a GET is answered with success."""
    posted: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
            """Say nothing."""

    with serving(HTTPServer(("127.0.0.1", 0), Receiver)) as port:
        yield f"http://127.0.0.1:{port}/hooks/secret", posted


@contextmanager
def mail_server() -> Iterator[tuple[str, list[str]]]:
    """Yield an address that speaks a minimum of SMTP, and the envelopes and mails that it took."""
    received: list[str] = []

    class Receiver(StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            is_text = False
            while line := self.rfile.readline().decode():
                if is_text and line != ".\r\n":
                    received.append(line.rstrip())
                    continue
                verb = line[:4].upper()
                if verb in {"MAIL", "RCPT"}:
                    received.append(line.split(" size=")[0].rstrip())
                is_text = verb == "DATA"
                self.wfile.write(
                    b"354 go on\r\n"
                    if is_text
                    else b"221 bye\r\n"
                    if verb == "QUIT"
                    else b"250 yes\r\n"
                )
                if verb == "QUIT":
                    return

    with serving(TCPServer(("127.0.0.1", 0), Receiver)) as port:
        yield f"127.0.0.1:{port}", received


def test_an_alert_is_posted_and_mailed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with web_server(200) as (url, posted), mail_server() as (address, received):
        monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", url)
        monkeypatch.setenv("TIDELOG_ALERT_SMTP", address)
        monkeypatch.setenv("TIDELOG_ALERT_EMAIL_TO", "ops@example.com, data@example.com")
        monkeypatch.setenv("TIDELOG_ALERT_EMAIL_FROM", "tidelog@example.com")
        send_alert(ALERT)
    assert posted == [
        {
            "text": ALERT.text,
            "subject": "clean_orders",
            "what": "failed",
            "why": "the amount is no number: 'é'",
            "failures": 2,
            "run_id": "r1",
        }
    ]
    assert "mail FROM:<tidelog@example.com>" in received
    assert {"rcpt TO:<ops@example.com>", "rcpt TO:<data@example.com>"} <= set(received)
    assert "Subject: tidelog: clean_orders failed" in received
    assert caplog.messages == []


def test_a_hook_that_refuses_fails_nothing_keeps_no_other_and_is_logged_without_its_url(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with web_server(403) as (url, posted), mail_server() as (address, received):
        monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", url)
        monkeypatch.setenv("TIDELOG_ALERT_SMTP", address)
        monkeypatch.setenv("TIDELOG_ALERT_EMAIL_TO", "ops@example.com")
        send_alert(ALERT)
    assert len(posted) == 1
    assert "rcpt TO:<ops@example.com>" in received
    (message,) = caplog.messages
    assert "was not sent to the webhook at 127.0.0.1: HTTP Error 403" in message
    assert "secret" not in message


@pytest.mark.parametrize(
    "location", ["/elsewhere/secret", "ftp://127.0.0.1/secret", "http://[secret/", None]
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_taken_for_an_alert_that_was_sent(
    status: int,
    location: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with web_server(status, location) as (url, posted):
        monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", url)
        send_alert(ALERT)
    assert len(posted) == 1
    (message,) = caplog.messages
    assert "was not sent to the webhook at 127.0.0.1: " in message
    assert "secret" not in caplog.text


def test_the_log_says_that_a_redirect_was_not_followed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with web_server(302, "/elsewhere") as (url, _):
        monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", url)
        send_alert(ALERT)
    assert caplog.messages[0].endswith(": HTTP Error 302, a redirect: name the URL where it ends")


def test_a_server_that_is_away_or_says_nothing_fails_no_tick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(alert_hooks, "HOOKS_WITHIN_S", 0.3)
    monkeypatch.setattr(alert_hooks, "PATIENCE", Patience())
    with socket.create_server(("127.0.0.1", 0)) as mute:
        monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", f"http://127.0.0.1:{free_port()}/")
        monkeypatch.setenv("TIDELOG_ALERT_SMTP", f"127.0.0.1:{mute.getsockname()[1]}")
        monkeypatch.setenv("TIDELOG_ALERT_EMAIL_TO", "ops@example.com")
        send_alert(ALERT)
    ends_of_hooks()
    told = [message.partition("was not sent to ")[2] for message in caplog.messages]
    assert [one for one in told if one.startswith("the webhook at 127.0.0.1: ")]
    assert [
        one for one in told if one.startswith("the mail server 127.0.0.1:") and "in time" in one
    ]


def ends_of_hooks() -> None:
    """Wait until the threads of all hooks have ended."""
    for thread in threading.enumerate():
        if thread.name == "alert":
            thread.join()


class Endless(threading.Thread):
    """A hook that never ends, on a clock of its own."""

    now_s = 1_000.0

    def join(self, timeout: float | None = None) -> None:
        """Let the time pass."""
        assert timeout is not None
        Endless.now_s += timeout


def test_all_alerts_of_a_tick_wait_as_long_as_one() -> None:
    patience = Patience(lambda: Endless.now_s)
    for _ in range(2):
        began_s = Endless.now_s
        for _ in range(6):
            patience.wait_for([Endless(), Endless()])
        assert Endless.now_s - began_s == pytest.approx(HOOKS_WITHIN_S)
        assert patience.left_s() == 0
        Endless.now_s += WINDOW_S
        assert patience.left_s() == HOOKS_WITHIN_S


def test_a_hook_that_hangs_keeps_no_alert_from_being_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = threading.Event()
    begun: list[str] = []

    def hang(_: str, alert: Alert) -> None:
        begun.append(alert.subject)
        may_end.wait()
        raise TimeoutError("timed out")

    monkeypatch.setattr(alert_hooks, "post", hang)
    monkeypatch.setattr(alert_hooks, "HOOKS_WITHIN_S", 0.1)
    monkeypatch.setattr(alert_hooks, "PATIENCE", Patience())
    monkeypatch.setattr(alert_hooks, "PLACES", threading.BoundedSemaphore(6))
    monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", "https://127.0.0.1/hooks/secret")
    subjects = [f"table{number}" for number in range(7)]
    try:
        for subject in subjects:
            send_alert(replace(ALERT, subject=subject))
        late = [
            message for message in caplog.messages if "the webhook at 127.0.0.1 in time" in message
        ]
        assert len(late) == 6
        assert "hooks are still under way" in caplog.messages[-1]
        caplog.clear()
    finally:
        may_end.set()
        ends_of_hooks()
    assert sorted(begun) == subjects[:6]
    assert [message.partition("was not sent to ")[2] for message in caplog.messages] == [
        "the webhook at 127.0.0.1: timed out"
    ] * 6


def test_a_hook_that_fails_in_any_way_fails_no_tick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("secret")

    monkeypatch.setattr(alert_hooks, "post", fail)
    monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", "https://127.0.0.1/hooks/secret")
    send_alert(ALERT)
    assert caplog.messages[0].endswith("was not sent to the webhook at 127.0.0.1: LookupError")
    assert "secret" not in caplog.text


def test_an_error_whose_text_holds_the_url_is_logged_by_what_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(url: str, _: Alert) -> None:
        raise InvalidURL(f"nonnumeric port in {url}")

    monkeypatch.setattr(alert_hooks, "post", refuse)
    monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", "https://127.0.0.1/hooks/s3cret")
    send_alert(ALERT)
    (message,) = caplog.messages
    assert message.endswith("was not sent to the webhook at 127.0.0.1: InvalidURL")
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://user:s3cret@host.example/x", "a user or a password before its host"),
        ("https://s3cret@host.example/x", "a user or a password before its host"),
        ("https://host.example/s3cret path", "holds whitespace"),
        ("https://host.example/s3cret\n", "holds whitespace"),
        ("https://host.example/s3cret/\N{LATIN SMALL LETTER E WITH ACUTE}", "not printable ASCII"),
        ("http://[s3cret/", "names a host"),
        ("http://:80/s3cret", "names a host"),
        ("http://host.example:s3cret/", "names a host"),
        ("http://host.example:99999/s3cret", "names a host"),
        ("http:///s3cret", "names a host"),
    ],
)
def test_a_webhook_that_cannot_be_used_is_refused_without_being_shown(
    url: str, told: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIDELOG_ALERT_WEBHOOK", url)
    with pytest.raises(SettingsError, match=told) as refused:
        load_settings()
    assert "s3cret" not in str(refused.value)
    send_alert(ALERT)
    assert "was sent nowhere" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "https://host.example/hooks/s3cret@team?x=1",
        "http://[::1]:8065/s3cret",
        "http://host:80/s3cret",
    ],
)
def test_a_webhook_that_can_be_used_is_not_shown_with_the_settings(url: str) -> None:
    settings = load_settings({"TIDELOG_ALERT_WEBHOOK": url})
    assert settings.alert_webhook is not None
    assert settings.alert_webhook.reveal() == url
    assert "s3cret" not in repr(settings)


def test_without_settings_an_alert_goes_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("TIDELOG_ALERT_WEBHOOK", raising=False)
    monkeypatch.delenv("TIDELOG_ALERT_EMAIL_TO", raising=False)
    with caplog.at_level(logging.DEBUG):
        send_alert(ALERT)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"TIDELOG_ALERT_WEBHOOK": "file:///etc/passwd"}, "TIDELOG_ALERT_WEBHOOK has to be a URL"),
        ({"TIDELOG_ALERT_EMAIL_TO": "ops@example.com"}, "set TIDELOG_ALERT_SMTP"),
        ({"TIDELOG_ALERT_EMAIL_TO": "ops", "TIDELOG_ALERT_SMTP": "a:25"}, "names 'ops'"),
        (
            {
                "TIDELOG_ALERT_EMAIL_TO": "ops@example.com",
                "TIDELOG_ALERT_SMTP": "me:secret@mail:25",
            },
            "without a login",
        ),
        ({"TIDELOG_ALERT_SMTP": "mail"}, "TIDELOG_ALERT_SMTP is 'mail': it has to be host:port"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(given: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load_settings(given)
