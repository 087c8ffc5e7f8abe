"""The fields of a form that a browser sent, and checks of their values.

Errors name the field, so that a person knows what to correct.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from log_service.http.server.negotiation import parse_media_type
from log_service.http.server.values import HttpError, HttpRequest

MAX_FIELD_COUNT = 200
FORM = "application/x-www-form-urlencoded"
CONFIG_LINES = "a line is key=value"


def form_of(request: HttpRequest) -> dict[str, str]:
    """Return the fields of a form. The first value of a name counts.

    Raises:
        HttpError: 415, the body is not a form, or 400, it is not UTF-8 or has too many fields.
    """
    found = parse_media_type(request.headers.get("content-type", ""))
    if found is None or found.name != FORM:
        raise HttpError(415, f"the body of this request is a form ({FORM})")
    try:
        text = request.body.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELD_COUNT
        )
    except ValueError as error:
        raise HttpError(400, f"a form is UTF-8 and has at most {MAX_FIELD_COUNT} fields") from error
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value.replace("\r\n", "\n"))
    return fields


def number_of(
    fields: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = 2**63 - 1
) -> int:
    """Return a whole number of a form or a query, the default if the field is empty.

    Raises:
        HttpError: 400, the field is not a number within the bounds.
    """
    text = fields.get(name, "").strip()
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not (
        least <= int(text) <= most
    ):
        raise HttpError(400, f"{name} is {text[:40]!r}: write a number from {least} to {most}")
    return int(text)


def choice_of(fields: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Return one of the choices, the first one if the field is empty.

    Raises:
        HttpError: 400, the field is not one of the choices.
    """
    text = fields.get(name, "") or choices[0]
    if text not in choices:
        raise HttpError(400, f"{name} is {text[:40]!r}: it may be {', '.join(choices)}")
    return text


def time_of(text: str, name: str) -> int:
    """Return a time as milliseconds since 1970. A time without a zone is UTC.

    Raises:
        HttpError: 400, the field is not a time.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        time_ms = round(found.timestamp() * 1_000)
    except (ValueError, OverflowError):
        time_ms = -1
    if time_ms < 0:
        usual = "write 2026-11-30T10:00 (UTC), or milliseconds since 1970"
        raise HttpError(400, f"{name} is {text[:40]!r}: {usual}")
    return time_ms


def configs_of(text: str) -> dict[str, str]:
    """Return the configs in lines of ``key=value``.

    Raises:
        HttpError: 400, a line has another form, or a key is repeated.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals or not key:
            raise HttpError(400, f"line {number} of the configs is {line[:80]!r}: {CONFIG_LINES}")
        if key in found:
            raise HttpError(400, f"line {number} of the configs names {key[:80]} again")
        found[key] = value.strip()
    return found
