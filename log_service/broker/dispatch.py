"""From frames to handlers and back: parse the header, find the handler in one table, decode, call, encode.

Decides which failures answer and which close the connection: unknown APIs, unsupported versions and bodies that do not parse close it, as
they do in Kafka, with one log line (the server's); ApiVersions in an unknown version is answered in version 0, so that the client can
step down (KIP-511). An exception that nobody expected costs the one connection that caused it (the server closes it and logs the
traceback), or, where the handler made the response wait for something, becomes the API's own error response. Knows no API but Produce,
of which requests that came before take a short way.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from log_service.broker.call import Call, Deferred, Handler, Nothing, Route, StartTask
from log_service.broker.error_response import error_response
from log_service.broker.handlers.api_versions import unsupported_version_response
from log_service.broker.handlers.repeated_produce import RepeatedProduces
from log_service.broker.node import Node
from log_service.common.errors import KafkaError, ProtocolError
from log_service.metrics.request_meter import RequestMeter
from log_service.network.server import Answer, ConnectionContext
from log_service.protocol.api_versions import SERVED, ApiKey, request_class, response_class
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS, decode
from log_service.protocol.frames import UnsupportedVersionError, encode_response, parse_request_header

VERSION_POSITION = 3
"""Of the low byte of a request's version."""


class Dispatcher:
    """The frame handler of every listener of a broker."""

    def __init__(self, node: Node, handlers: Mapping[ApiKey, Handler], start_task: StartTask) -> None:
        self._node = node
        self._start_task = start_task
        self._now_ns = node.clock.monotonic_ns
        began_ms = node.clock.monotonic_ms()
        self._handlers = handlers
        self._routes: dict[ApiKey, Route] = {}
        self._repeated_produces = RepeatedProduces(node)
        self.meters = {key: RequestMeter(SERVED[key].max_version, began_ms) for key in handlers}
        """What was counted of each API's requests."""

    def only(self, keys: Collection[ApiKey]) -> "Dispatcher":
        """Return one that answers these APIs and no other, and counts them together with this one."""
        fewer = Dispatcher(self._node, {key: handler for key, handler in self._handlers.items() if key in keys}, self._start_task)
        fewer.meters = self.meters
        return fewer

    def _find_route(self, key: ApiKey) -> Route | None:
        """Return the row of an API that is asked for the first time; its messages are imported now."""
        handler = self._handlers.get(key)
        if handler is None:
            return None
        route = self._routes[key] = Route(
            handle=handler,
            request_type=request_class(key),
            response_type=response_class(key),
            refuse=error_response,
            meter=self.meters[key],
            start_task=self._start_task,
        )
        return route

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Answer:
        """Answer one request.

        Raises:
            ProtocolError: the connection must be closed.
        """
        started_ns = self._now_ns()
        answer = self._repeated_produces.answer(context, frame)
        if answer is not None:
            self.meters[ApiKey.PRODUCE].note_at_once(frame[VERSION_POSITION], self._now_ns() - started_ns)
            return answer
        try:
            header, body = parse_request_header(frame)
        except UnsupportedVersionError as error:
            if error.header.api_key != ApiKey.API_VERSIONS:
                raise
            header = error.header._replace(api_version=0)
            told: list[Any] = encode_response(header.api_key, 0, header.correlation_id, unsupported_version_response())
            return told
        route = self._routes.get(header.api_key) or self._find_route(header.api_key)
        if route is None:
            raise ProtocolError(f"{header.api_key.name} is not served on listener {context.listener_name}")
        request, _ = decode(route.request_type, header.api_version, frame, body, max_elements=MAX_REQUEST_ELEMENTS)
        call = Call(header, context, request, route)
        try:
            reply = route.handle(self._node, call, request)
        except KafkaError as error:
            reply = call.refusal(error)
        if isinstance(reply, Deferred):
            return self._respond_later(route.meter, header.api_version, reply, started_ns)
        if isinstance(reply, Nothing):
            answer = None
        else:
            answer = call.encode(reply)
            if header.api_key is ApiKey.PRODUCE:
                self._repeated_produces.learn(call, request, reply, answer)
        route.meter.note_at_once(header.api_version, self._now_ns() - started_ns)
        return answer

    def _respond_later(self, meter: RequestMeter, version: int, deferred: Deferred, started_ns: int) -> Answer:
        duration_ns = self._now_ns() - started_ns
        if deferred.response.is_done:
            meter.note_at_once(version, duration_ns)
            return list(deferred.response.take())
        meter.note_local(version, duration_ns)
        deferred.on_responded = partial(self._note_total, meter, started_ns)
        return deferred.response

    def _note_total(self, meter: RequestMeter, started_ns: int) -> None:
        meter.note_total(self._now_ns() - started_ns)

    def connection_closed(self, context: ConnectionContext) -> None:
        """Nothing is kept per connection: pending answers have their own ``on_discard``."""
