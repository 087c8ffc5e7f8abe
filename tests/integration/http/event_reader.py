"""A reader of server-sent events, written from the WHATWG's text alone.

Source: HTML Living Standard, 9.2.6, "Interpreting an event stream".
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One dispatched event. ``last_id`` is the id that a reconnect sends."""

    kind: str
    data: str
    last_id: str

    def json(self) -> Any:
        """Return the data as JSON."""
        return json.loads(self.data)


def events_of(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events in the pieces of a body."""
    kind, data, last_id = "", list[str](), ""
    for line in _lines(pieces):
        if not line:
            if data:
                yield ServerEvent(kind=kind or "message", data="\n".join(data), last_id=last_id)
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            last_id = value


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        rest += piece
        *whole, rest = LINE_END.split(rest)
        for line in whole:
            yield line.decode()
