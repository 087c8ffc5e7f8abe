"""Sends alerts to where the settings say: a webhook, e-mail, both, or nowhere.

Decides what is sent, and that no hook fails a tick: what cannot be sent is logged, with the host and never with the URL, because that is
often a secret. Settings are read with each alert. Both hooks together have ``HOOKS_WITHIN_S``, in a thread of their own.
"""

import json
import logging
import smtplib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from email.message import EmailMessage
from http.client import HTTPException
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from orchestration.sensing.run_failures import Alert
from orchestration.settings import Settings, SettingsError, load_settings

HOOKS_WITHIN_S = 15.0
"""What a tick waits for its hooks: far below the limit of a tick, long enough for a mail server of the network."""
SOCKET_WITHIN_S = 10.0


class NoRedirects(HTTPRedirectHandler):
    """Leaves every redirect to be an error: to follow it would be a GET without the alert, which counts as sent."""

    def http_error_302(self, *_: Any, **__: Any) -> None:
        """Return no response, and do not read where the redirect leads."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def send_alert(alert: Alert) -> None:
    """Send ``alert`` to the webhook of ``TIDELOG_ALERT_WEBHOOK`` and to the addresses of ``TIDELOG_ALERT_EMAIL_TO``, where they are set.

    Raises nothing: what cannot be sent, or not in time, is logged.
    """
    try:
        hooks = list(hooks_of(load_settings(), alert))
    except SettingsError:
        logging.getLogger(__name__).exception("the alert %r was sent nowhere", alert.text)
        return
    under_way = [(where, _begun(hook)) for where, hook in hooks]
    for where, sent in under_way:
        try:
            sent.result(timeout=HOOKS_WITHIN_S)
        except (OSError, HTTPException, smtplib.SMTPException, ValueError) as error:
            reason = f"it took longer than {HOOKS_WITHIN_S:g} s" if not sent.done() else reason_of(error)
            logging.getLogger(__name__).error("the alert %r was not sent to %s: %s", alert.text, where, reason)


def hooks_of(settings: Settings, alert: Alert) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what sends an alert, each with the place to name where that fails."""
    if (webhook := settings.alert_webhook) is not None:
        yield f"the webhook at {urlsplit(webhook.reveal()).hostname}", lambda: post(webhook.reveal(), alert)
    if (server := settings.alert_smtp) is not None and settings.alert_email_to:
        yield f"the mail server {server[0]}:{server[1]}", lambda: mail(settings, server, alert)


def reason_of(error: Exception) -> str:
    """Return why a hook failed: of errors whose text may hold the URL, only what they are."""
    if isinstance(error, HTTPError):
        return f"HTTP Error {error.code}" + (", a redirect: name the URL where it ends" if 300 <= error.code < 400 else "")
    return (str(error).strip() if isinstance(error, OSError) else "") or type(error).__name__


def post(url: str, alert: Alert) -> None:
    """Post an alert as JSON; ``text`` is what chats show.

    Raises OSError, HTTPException or ValueError where the status is none of success. A redirect is not followed.
    """
    told = {
        "text": alert.text,
        "subject": alert.subject,
        "what": alert.what,
        "why": alert.why,
        "failures": alert.failures,
        "run_id": alert.run_id,
    }
    request = Request(url, data=json.dumps(told).encode(), headers={"Content-Type": "application/json"})  # noqa: S310 - settings allow http(s) only
    try:
        build_opener(NoRedirects).open(request, timeout=SOCKET_WITHIN_S).close()
    except HTTPError as error:
        error.close()  # it is a response, with its connection
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


def _begun(hook: Callable[[], None]) -> Future[None]:
    future: Future[None] = Future()

    def run() -> None:
        try:
            hook()
        except Exception as error:  # noqa: BLE001 - the sender of the alert names it
            future.set_exception(error)
        else:
            future.set_result(None)

    Thread(target=run, name="alert", daemon=True).start()
    return future
