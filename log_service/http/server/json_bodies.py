"""Reads JSON bodies of requests within bounds.

A long body is parsed in a thread, so that other requests are handled meanwhile. Its fields and
items are counted first, because the parser of the standard library holds the GIL until it is done.
Long strings do not slow it down. Half of a surrogate pair, a repeated field, and NaN or infinity
are refused.
"""

import json
import re
from collections import Counter
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from typing import Any, Final, NoReturn

from log_service.http.server.values import HttpError

LONG_BODY_BYTES: Final = 32 << 10
"""A longer body is read in another thread."""
MAX_PARTS: Final = 50_000
"""The most texts, separators and opening brackets of a body. A schema is one text of any length."""
SHOWN_CHARACTERS: Final = 200
_SEPARATORS: Final = ",[{"
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(body: bytes) -> Any:
    """Parse the body of a request as JSON.

    Raises:
        HttpError: 400, the body is not JSON in UTF-8. 413, it has too many fields, items and
            strings. 422, it has half of a surrogate pair.
    """
    try:
        text = body.decode()
        if len(body) > LONG_BODY_BYTES:
            _refuse_many_parts(text)
        found = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_number)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"The body is not JSON in UTF-8: {error}") from error
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(found)
    return found


def _refuse_many_parts(text: str) -> None:
    """Refuse a JSON text with too many fields, items and strings, before it is parsed.

    Raises:
        HttpError: 413, there are too many.
        ValueError: a string in the text is not valid JSON.
    """
    count = end = 0
    while count <= MAX_PARTS:
        quote = text.find('"', end)
        between = text[end:] if quote < 0 else text[end:quote]
        count += 1 + sum(map(between.count, _SEPARATORS))
        if quote < 0:
            break
        _, end = scanstring(text, quote + 1)
    if count > MAX_PARTS:
        raise HttpError(413, f"a body has at most {MAX_PARTS} fields, items and texts")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the field {repeated[:SHOWN_CHARACTERS]!r} comes twice")
    return found


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _refuse_lone_surrogates(found: Any) -> None:
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        text = "The body has half of a surrogate pair, which is not a character."
        raise HttpError(422, text) from error
