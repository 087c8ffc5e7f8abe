"""The path of a request: find its quota, decode, authorize, handle, respond.

Decides which failures get a response and which close the connection. An unknown API, an unsupported
version and a body that does not parse close it, as in Kafka, with one log line (the server's).
ApiVersions in an unknown version gets a response in version 0, so that the client can use an older
version (KIP-511). A ``KafkaError`` of any later step becomes the error response of the API. Any
other exception is a bug. It closes the connection of its request and no other, and the server logs
the traceback.

Knows no API but ApiVersions. The registry row of an API tells whether its repeated requests need no
decoding, and whether requests of followers are metered apart. The authorizer decides permissions,
and the quotas decide limits. Without them everything is allowed and nothing is counted. The quotas
come first. A request whose client has to pause is not decoded, and a refused one is charged like
any other. Requests of many list elements are handled in pieces (``large``).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from log_service.broker.handlers.api_versions import unsupported_version_response
from log_service.broker.node import QuorumNode
from log_service.broker.requests.call import (
    Api,
    Authorizer,
    Call,
    Deferred,
    ForwardedCall,
    Nothing,
    Outer,
    Quotas,
    Recognizer,
    Reply,
    Route,
    Side,
    StartTask,
)
from log_service.broker.requests.large import FEW_ELEMENTS, LargeRequests
from log_service.common.errors import KafkaError, ProtocolError
from log_service.metrics.request_meter import RequestMeter
from log_service.network.server import PUT_OFF, ConnectionContext, Response
from log_service.protocol.api_versions import ApiKey, request_class, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import (
    UnsupportedVersionError,
    encode_response,
    parse_request_header,
)
from log_service.protocol.reader import TooManyElementsError
from log_service.protocol.schema import Message

KEY_POSITION = 1
"""Position of the low byte of a request's API key."""

Meters = Mapping[ApiKey, RequestMeter]
"""Counters of each API's requests, on all listeners of a node."""


def new_meters(apis: Mapping[ApiKey, Api], began_ms: int) -> Meters:
    """Return new meters of the requests of each API.

    Fetches of followers are metered apart from those of consumers, as in Apache Kafka.
    """
    meters = {key: RequestMeter(api.spec.max_version, began_ms) for key, api in apis.items()}
    for key, api in apis.items():
        if api.is_of_follower is not None:
            meters[key].followers = RequestMeter(api.spec.max_version, began_ms)
    return meters


class Pipeline:
    """The frame handler of the listeners of one ``side``, the broker's or the controller's."""

    def __init__(
        self,
        node: QuorumNode,
        side: Side,
        start_task: StartTask,
        apis: Mapping[ApiKey, Api],
        meters: Meters,
    ) -> None:
        self.authorizer: Authorizer | None = None
        self.quotas: Quotas | None = None
        self._node = node
        self._side = side
        self._start_task = start_task
        self._now_ns = node.clock.monotonic_ns
        self._meters = meters
        self._apis = {key: api for key, api in apis.items() if side in api.sides}
        self._routes: dict[ApiKey, Route] = {}
        self._recognizers = {
            int(key): api.recognizer()
            for key, api in self._apis.items()
            if api.recognizer is not None
        }
        self._large_requests = LargeRequests(self._answer, node)

    def __repr__(self) -> str:
        return f"<Pipeline {self._side.value} apis={len(self._apis)}>"

    @property
    def side(self) -> Side:
        """The side whose listeners the pipeline serves: the broker's or the controller's."""
        return self._side

    @property
    def meters(self) -> Meters:
        """The meters of requests, by API."""
        return self._meters

    @property
    def recognizers(self) -> Mapping[int, Recognizer]:
        """The caches of repeated requests, by the key of their API."""
        return self._recognizers

    def handle_frame(self, context: ConnectionContext, frame: memoryview) -> Response:
        """Decode, authorize and handle one request. Return its response.

        Raises:
            ProtocolError: the connection must be closed.
        """
        started_ns = self._now_ns()
        call: Call | None = None
        body = 0
        if len(frame) > KEY_POSITION and frame[KEY_POSITION] in self._recognizers:
            call = self._recognizers[frame[KEY_POSITION]].recall(context, frame)
        if call is None:
            try:
                call, body = self._open(context, frame)
            except UnsupportedVersionError as error:
                return _step_down(error)
        if self.quotas is not None and self.is_put_off(self.quotas, call):
            return PUT_OFF
        if body and not self._is_decoded(call, frame, body):
            return self._begin_large(call, frame, body, started_ns)
        reply = self._handle(call, len(frame), started_ns)
        meter = call.route.meter
        is_of_follower = call.route.api.is_of_follower
        if is_of_follower is not None and is_of_follower(call.request):
            meter = meter.followers or meter
        if isinstance(reply, list):
            response: Response = reply  # its handler has charged the request
        elif isinstance(reply, Deferred):
            if call.account is not None and not reply.is_done:
                call.account.set_aside()
            return self.respond_later(meter, call.version, reply, started_ns)
        elif isinstance(reply, Nothing):
            response = None
            call.charge(None)
        else:
            response = call.respond(reply)
        meter.note_at_once(call.version, self._now_ns() - started_ns)
        return response

    def respond_to_forwarded(
        self, outer: Outer, context: ConnectionContext, frame: memoryview
    ) -> Message | Deferred:
        """Respond to a request that another broker has forwarded (KIP-590).

        ``context`` names the client. The request counts as part of the enclosing call.

        Raises:
            ProtocolError: the request does not parse, or is in an unsupported version.
        """
        found, body = self._open(context, frame)
        self._decode(found, frame, body, found.route.api.max_elements)
        call = ForwardedCall(
            found.route,
            found.version,
            found.correlation_id,
            found.client_id,
            context,
            found.request,
            None,
            outer,
        )
        reply = self._handle(call, len(frame), self._now_ns())
        if isinstance(reply, Deferred):
            if call.account is not None and not reply.is_done:
                call.account.set_aside()
            return reply
        assert not isinstance(reply, list | Nothing), "what is passed on is answered with a message"
        return call.wrapped(reply)

    def connection_closed(self, context: ConnectionContext) -> None:
        """Call the callbacks that handlers have set for the end of this connection.

        Deferred responses have their own ``on_discard``.
        """
        for callback in context.on_closed.values():
            callback()

    def _open(self, context: ConnectionContext, frame: memoryview) -> tuple[Call, int]:
        """Parse the header of a frame. Return its call, and the position of the request.

        The request itself is not decoded.
        """
        header, body = parse_request_header(frame)
        route = self._routes.get(header.api_key) or self._find_route(header.api_key, context)
        return (
            Call(
                route,
                header.api_version,
                header.correlation_id,
                header.client_id,
                context,
                None,
                None,
            ),
            body,
        )

    def is_put_off(self, quotas: Quotas, call: Call) -> bool:
        """Whether a call must be delayed, because its client has used up a quota.

        If so, mute this connection. After that the same frame is handled again, and may be delayed
        again.
        """
        pause_ms = quotas.put_off_ms(call.route.api, call.connection, call.client_id)
        if pause_ms > 0:
            call.connection.mute(pause_ms)
        return pause_ms > 0

    def _is_decoded(self, call: Call, frame: memoryview, body: int) -> bool:
        """Decode a request, unless it has too many elements. Return whether it was decoded."""
        try:
            self._decode(call, frame, body, FEW_ELEMENTS)
        except TooManyElementsError:
            if call.route.api.max_elements <= FEW_ELEMENTS:
                raise
            return False
        return True

    def _decode(self, call: Call, frame: memoryview, body: int, max_elements: int) -> None:
        call.request, _ = decode(
            call.route.request_type, call.version, frame, body, max_elements=max_elements
        )
        if call.route.recognizer is not None:
            call.route.recognizer.learn(call, frame)

    def _begin_large(self, call: Call, frame: memoryview, body: int, started_ns: int) -> Response:
        if self.quotas is not None:
            call.account = self.quotas.account_of(call, len(frame), started_ns)
        if call.account is not None:
            call.account.set_aside()
        return self.respond_later(
            call.route.meter,
            call.version,
            self._large_requests.begin(call, frame, body),
            started_ns,
        )

    def _handle(self, call: Call, size_bytes: int, started_ns: int) -> Reply:
        """Find the quota of a request, authorize it and handle it."""
        if self.quotas is not None:
            call.account = self.quotas.account_of(call, size_bytes, started_ns)
        try:
            return self._answer(call)
        except Exception:
            call.charge(None)  # its connection closes, and its client comes back with another one
            raise

    def _answer(self, call: Call) -> Reply:
        """Authorize a request and handle it. A refusal becomes the error response of the API."""
        try:
            if self.authorizer is not None:
                admission = self.authorizer.authorize(call)
                if admission is not None:
                    if admission.response is not None:
                        refused: Message = admission.response
                        return refused
                    call.request, call.amend = admission.request, admission.amend
                    call.amend_in_steps = admission.amend_in_steps
            if call.account is not None and self.quotas is not None and self.quotas.is_free(call):
                call.account = None
            return call.route.handle(self._node, call, call.request)
        except KafkaError as error:
            return call.refusal(error)

    def respond_later(
        self, meter: RequestMeter, version: int, deferred: Deferred, started_ns: int
    ) -> Response:
        """Return the frame of a deferred response if it is complete, else the deferred response."""
        duration_ns = self._now_ns() - started_ns
        if deferred.is_done:
            meter.note_at_once(version, duration_ns)
            return list(deferred.take())
        meter.note_local(version, duration_ns)
        deferred.on_responded = partial(self._note_total, meter, started_ns)
        return deferred

    def _note_total(self, meter: RequestMeter, started_ns: int) -> None:
        meter.note_total(self._now_ns() - started_ns)

    def _find_route(self, key: ApiKey, context: ConnectionContext) -> Route:
        """Make the route of an API at its first request, and import its messages.

        Raises:
            ProtocolError: the API is not served on this side.
        """
        api = self._apis.get(key)
        if api is None:
            raise ProtocolError(f"{key.name} is not served on listener {context.listener_name}")
        route = self._routes[key] = Route(
            api=api,
            side=self._side,
            handle=api.handler_on(self._side),
            request_type=request_class(key),
            response_type=response_class(key),
            recognizer=self._recognizers.get(int(key)),
            meter=self._meters[key],
            start_task=self._start_task,
            respond_to_forwarded=self.respond_to_forwarded,
        )
        return route


def _step_down(error: UnsupportedVersionError) -> list[Any]:
    """Return the response to ApiVersions in an unknown version, encoded in version 0.

    Raises UnsupportedVersionError for any other API, which closes the connection.
    """
    if error.header.api_key is not ApiKey.API_VERSIONS:
        raise error
    return encode_response(
        ApiKey.API_VERSIONS, 0, error.header.correlation_id, unsupported_version_response()
    )
