"""Writes a stream of JSON objects as records, and sends a line of the response for each.

A stream is read no faster than the cluster takes its records: a piece is read once all records of
the piece before are acknowledged or refused. A refused record does not end the stream. Invalid JSON
does, because then the beginning of the next record is unknown. The records before it are written.
The result does not depend on how the bytes are cut into pieces.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import trio

from log_service.client.connections.cluster_view import TopicView
from log_service.http.rest_proxy.bodies import JSON, as_object, compact, json_response, run_off_loop
from log_service.http.rest_proxy.context import Call, error_response, refusal_of
from log_service.http.rest_proxy.errors import RestError, of_http
from log_service.http.rest_proxy.json_stream import JsonObjects
from log_service.http.rest_proxy.producing import Outcome, OutgoingRecord, send_all
from log_service.http.server.json_bodies import parse_json
from log_service.http.server.values import HttpError, HttpResponse

MAX_RECORD_BYTES: Final = 3 << 19
"""The longest JSON of a record in a stream. A record of 1 MiB fits as base64."""
TURN_BYTES: Final = 16 << 10
"""Bytes of records after which other tasks get a turn."""
RECORD_BYTES: Final = 500
"""The fixed cost of reading a record, in bytes of JSON that take as long."""
Line = dict[str, Any]
Prepared = tuple[Line, OutgoingRecord]
"""A record, and the fields of its response line other than its position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStream:
    """Writes the records of one request.

    ``prepare`` gets the fields of a JSON object and the object's length in bytes. It returns a
    record, or raises RestError. ``shown`` makes the response line of a record with an outcome.
    ``refused`` makes the line of a refused record. This line has ``error_code``. ``forget`` is
    called before each piece of the stream, and drops the state that ``prepare`` may keep between
    records.
    """

    call: Call
    topic: TopicView
    prepare: Callable[[Mapping[str, Any], int], Awaitable[Prepared]]
    shown: Callable[[Outcome, Prepared], Line]
    refused: Callable[[RestError], Line]
    content_type: str = JSON
    forget: Callable[[], None] = lambda: None

    async def respond(self) -> HttpResponse:
        """Write the records of the request's body, and return the response.

        The response to a body with a single record has the status of that record.

        Raises:
            RestError: the body has no record.
        """
        request = self.call.request
        pieces, objects = request.pieces, JsonObjects(MAX_RECORD_BYTES)
        if pieces is None:
            raise RestError(400, "The request has no body.")
        declared = int(request.headers.get("content-length", "-1"))
        read_bytes, first = 0, list[bytes]()
        while not first or (len(first) == 1 and objects.is_between and read_bytes < declared):
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                if first:
                    break
                raise RestError(400, "The body has no whole record.") from None
            read_bytes += len(piece)
            first += objects.add(piece)
            if objects.fault is not None and not first:
                raise objects.fault
            request.hold_bytes(objects.waiting_bytes)
        lines = await self._written(first)
        if read_bytes == declared and len(lines) == 1 and objects.is_between:
            return self._single(lines[0])
        body = self._stream(pieces, objects, lines)
        return HttpResponse(body=body, content_type=self.content_type)

    def _single(self, line: Line) -> HttpResponse:
        code = line.get("error_code", 200)
        if code == 200:
            return json_response(line, content_type=self.content_type)
        return error_response(RestError(code, line["message"]))

    async def _stream(
        self, pieces: AsyncIterator[bytes], objects: JsonObjects, lines: Sequence[Line]
    ) -> AsyncIterator[bytes]:
        """Yield the lines of the records. The clients are leased until the stream ends."""
        async with self.call.context.clients.lease(self.call.credentials):
            yield text_of_lines(lines)
            try:
                while objects.fault is None and (piece := await anext(pieces, None)) is not None:
                    found = objects.add(piece)
                    self.call.request.hold_bytes(objects.waiting_bytes)
                    if found:
                        yield text_of_lines(await self._written(found))
            except (RestError, HttpError) as error:
                yield text_of_lines([self.refused(as_refusal(error))])
                return
        fault = objects.fault
        if fault is None and not objects.is_between:
            fault = RestError(400, "The body ends within a record.")
        if fault is not None:
            yield text_of_lines([self.refused(fault)])

    async def _written(self, objects: Sequence[bytes]) -> list[Line]:
        """Write the records in these JSON objects, and return a line for each, in their order."""
        self.forget()
        prepared: list[Prepared | RestError] = []
        turn_bytes = 0
        for each in objects:
            try:
                prepared.append(await self.prepared(each))
            except (RestError, HttpError) as error:
                prepared.append(as_refusal(error))
            turn_bytes += RECORD_BYTES + len(each)
            if turn_bytes >= TURN_BYTES:
                turn_bytes = 0
                await trio.lowlevel.checkpoint()
        return await self.outcomes(prepared)

    async def prepared(self, content: bytes) -> Prepared:
        """Convert a JSON object to a record.

        Raises:
            RestError, HttpError: the object is not a record.
        """
        found = await run_off_loop(partial(parse_json, content), len(content))
        return await self.prepare(as_object(found, "A record"), len(content))

    async def outcomes(self, prepared: Sequence[Prepared | RestError]) -> list[Line]:
        """Write the prepared records, and return a line for each item, in their order."""
        records = [each[1] for each in prepared if not isinstance(each, RestError)]
        try:
            producer = await self.call.producer()
            outcomes: list[Outcome | RestError] = [
                *await send_all(producer, self.topic.name, records)
            ]
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            outcomes = [refusal] * len(records)
        following = iter(outcomes)
        return [
            self.refused(each) if isinstance(each, RestError) else self._line(each, next(following))
            for each in prepared
        ]

    def _line(self, prepared: Prepared, outcome: Outcome | RestError) -> Line:
        if isinstance(outcome, RestError):
            return self.refused(outcome)
        return self.shown(outcome, prepared)


def as_refusal(error: RestError | HttpError) -> RestError:
    """Convert an error of a record or a body to a RestError."""
    return of_http(error) if isinstance(error, HttpError) else error


def text_of_lines(lines: Sequence[Line]) -> bytes:
    """Return response lines as JSON, one line for each."""
    return b"".join(compact(each) + b"\r\n" for each in lines)
