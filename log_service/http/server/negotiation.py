"""The choice of media types by ``Accept`` and ``Content-Type`` (RFC 9110, 8.3 and 12.5.1).

Comparisons ignore all parameters of a media type but ``q``. An invalid part of a header is
skipped, because many clients send such parts. Nothing here raises.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAX_RANGE_COUNT = 64
"""The most media ranges of one ``Accept``. Later ones are not read."""
TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - the grammar's name of a word
MEDIA_TYPE = re.compile(rf"\s*({TOKEN}/{TOKEN})\s*(?:;|$)")
PARAMETER = re.compile(rf';\s*({TOKEN})=(?:"((?:[^"\\]|\\.)*)"|({TOKEN}))')
UNQUOTED = re.compile(r"\\(.)")
QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaType:
    """A media type in lower case, and its parameters by their names in lower case."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_media_type(text: str) -> MediaType | None:
    """Parse a ``Content-Type``. Return None if it is not a media type."""
    found = MEDIA_TYPE.match(text)
    if found is None:
        return None
    parameters = {
        name.lower(): UNQUOTED.sub(r"\1", quoted) or token  # one of both is empty
        for name, quoted, token in PARAMETER.findall(text, found.end(1))
    }
    return MediaType(name=found[1].lower(), parameters=parameters)


def best_media_type(accept: str | None, offered: Sequence[str]) -> str | None:
    """Return the offered media type that a client prefers, None if it accepts none of them.

    Among equally preferred types, the first one is returned. Without ``Accept`` all are equal.
    """
    qualities = _qualities(accept or "")
    if not qualities:
        return offered[0]
    best = max(offered, key=lambda name: _quality_of(name, qualities))
    return best if _quality_of(best, qualities) > 0 else None


def _qualities(accept: str) -> dict[str, float]:
    """Return the quality of each media range, by its name."""
    if not accept or accept == "*/*":
        return {}
    found: dict[str, float] = {}
    for part in accept.split(",", MAX_RANGE_COUNT)[:MAX_RANGE_COUNT]:
        media_type = parse_media_type(part)
        quality = "0" if media_type is None else media_type.parameters.get("q", "1")
        if media_type is not None and QUALITY.fullmatch(quality):
            found[media_type.name] = max(float(quality), found.get(media_type.name, 0.0))
    return found


def _quality_of(offered: str, qualities: Mapping[str, float]) -> float:
    """Return the quality that the most specific range gives an offered media type.

    The range ``*/json`` is accepted, too. It is not in the RFC, but clients send it.
    """
    name = offered.partition(";")[0].strip().lower()
    main, _, part = name.partition("/")
    ranges = (name, f"{main}/*", f"*/{part}", "*/*")
    return next((qualities[each] for each in ranges if each in qualities), 0.0)
