"""Sends alerts to the webhook and the e-mail addresses of the settings, if any.

No hook fails a tick. A failed alert is logged with the host and never with the URL, because that is
often a secret. Settings are read with each alert.

The time that ticks wait is bounded. Each hook has a thread of its own. All alerts together may
wait ``HOOKS_WITHIN_S`` per ``WINDOW_S``, however many there are. After that, a hook continues in
its thread, which logs the outcome, and the tick does not wait for it.
"""

import json
import logging
import smtplib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from email.message import EmailMessage
from threading import BoundedSemaphore, Lock, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from orchestration.sensing.run_failures import Alert
from orchestration.settings import Settings, load_settings

logger = logging.getLogger(__name__)

HOOKS_WITHIN_S = 15.0
"""The most that ticks wait for all hooks within ``WINDOW_S``.

It is far below a tick's limit, and enough for a mail server of the network.
"""
WINDOW_S = 60.0
"""The span in which waits for hooks are added up. It is as long as the limit of a tick.

At that limit Dagster cuts the tick off, forgets which alerts it sent, and sends them again.
"""
SOCKET_WITHIN_S = 10.0
MOST_UNDER_WAY = 64
"""The most hooks of this process at the same time.

A hook whose response never ends keeps its place.
"""


class Patience:
    """Bounds how long callers in this process wait for hooks, in all, within ``WINDOW_S``.

    ``clock_s`` is monotonic.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waits: list[tuple[float, float]] = []
        self._lock = Lock()

    def left_s(self) -> float:
        """Return ``HOOKS_WITHIN_S`` minus the waits that ended within the last ``WINDOW_S``."""
        now_s = self._clock_s()
        with self._lock:
            self._waits = [
                (began_s, ended_s) for began_s, ended_s in self._waits if ended_s > now_s - WINDOW_S
            ]
            return max(
                HOOKS_WITHIN_S - sum(ended_s - began_s for began_s, ended_s in self._waits), 0.0
            )

    def wait_for(self, threads: Sequence[Thread]) -> None:
        """Wait until all threads have ended, or until no time is left."""
        began_s = self._clock_s()
        until_s = began_s + self.left_s()
        for thread in threads:
            thread.join(timeout=max(until_s - self._clock_s(), 0.0))
        with self._lock:
            self._waits.append((began_s, self._clock_s()))


PATIENCE = Patience()
PLACES = BoundedSemaphore(MOST_UNDER_WAY)


class NoRedirects(HTTPRedirectHandler):
    """Turns every redirect into an error.

    Following it would be a GET without the alert, which would count as sent.
    """

    def http_error_302(self, *_: Any, **__: Any) -> None:
        """Return no response, and do not follow the redirect."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def send_alert(alert: Alert) -> None:
    """Send ``alert`` to ``TIDELOG_ALERT_WEBHOOK`` and ``TIDELOG_ALERT_EMAIL_TO``, if set.

    It never raises. An alert that cannot be sent, or not in time, is logged. All alerts of a minute
    together wait at most 15 seconds. A slower alert is still sent while the process lives.
    """
    try:
        hooks = list(hooks_of(load_settings(), alert))
    except Exception:
        logger.exception("the alert %r was sent nowhere", alert.text)
        return
    under_way = {
        thread: where for where, hook in hooks if (thread := _begun(alert, where, hook)) is not None
    }
    PATIENCE.wait_for(list(under_way))
    for thread, where in under_way.items():
        if thread.is_alive():
            logger.warning(
                "the alert %r was not sent to %s in time: it is tried beside the tick",
                alert.text,
                where,
            )


def hooks_of(settings: Settings, alert: Alert) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield functions that send an alert, each with the name of its target for error messages."""
    if (webhook := settings.alert_webhook) is not None:
        yield (
            f"the webhook at {urlsplit(webhook.reveal()).hostname}",
            lambda: post(webhook.reveal(), alert),
        )
    if (server := settings.alert_smtp) is not None and settings.alert_email_to:
        yield f"the mail server {server[0]}:{server[1]}", lambda: mail(settings, server, alert)


def reason_of(error: Exception) -> str:
    """Return why a hook failed.

    Errors whose text may hold the URL are described by their type only.
    """
    if isinstance(error, HTTPError):
        return f"HTTP Error {error.code}" + (
            ", a redirect: name the URL where it ends" if 300 <= error.code < 400 else ""
        )
    return (str(error).strip() if isinstance(error, OSError) else "") or type(error).__name__


def post(url: str, alert: Alert) -> None:
    """Post an alert as JSON.

    ``text`` is the part that chats show.

    Raises OSError, HTTPException or ValueError if the status is not one of success. A redirect is
    not followed.
    """
    reported = {
        "text": alert.text,
        "subject": alert.subject,
        "what": alert.what,
        "why": alert.why,
        "failures": alert.failures,
        "run_id": alert.run_id,
    }
    request = Request(  # noqa: S310 - settings allow http(s) only
        url, data=json.dumps(reported).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        build_opener(NoRedirects).open(request, timeout=SOCKET_WITHIN_S).close()
    except HTTPError as error:
        error.close()  # the error holds the response and its connection
        raise


def mail(settings: Settings, server: tuple[str, int], alert: Alert) -> None:
    """Send an alert by e-mail. Raises OSError or SMTPException."""
    message = EmailMessage()
    message["Subject"] = " ".join(f"tidelog: {alert.subject} {alert.what}".split())
    message["From"] = settings.alert_email_from or f"tidelog@{socket.gethostname()}"
    message["To"] = ", ".join(settings.alert_email_to)
    message.set_content(alert.text)
    host, port = server
    with smtplib.SMTP(host, port, timeout=SOCKET_WITHIN_S) as connection:
        connection.send_message(message)


def _begun(alert: Alert, where: str, hook: Callable[[], None]) -> Thread | None:
    """Start the thread of a hook and return it. If that fails, log the reason and return None."""
    places = PLACES

    def run() -> None:
        try:
            hook()
        except Exception as error:  # noqa: BLE001 - no hook fails a tick
            logger.error("the alert %r was not sent to %s: %s", alert.text, where, reason_of(error))
        finally:
            places.release()

    if not places.acquire(blocking=False):
        logger.error(
            "the alert %r was not sent to %s: %d hooks are still under way",
            alert.text,
            where,
            MOST_UNDER_WAY,
        )
        return None
    thread = Thread(target=run, name="alert", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the process may be out of threads
        places.release()
        logger.error("the alert %r was not sent to %s: %s", alert.text, where, error)
        return None
    return thread
