"""Checks that no request is forgotten.

Each one gets its response within its bound, and a response that is ready is sent.

``Responses`` takes note of every response that a node's handlers promise for later, and looks
whenever virtual time is about to pass. A promise is due after what its request allows, or what the
node allows where the request says nothing, and ``GRACE_SECONDS``. A client that has gone is no
excuse, for most clients give up long before: what a coordinator has forgotten nobody else would
miss. Excused is a handler that asked to be told of that, and so ends its wait; a node that has
died; and the time for which its process was paused.

It knows no API's meaning. Whether a response comes as soon as it could is judged in ``node_waits``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Any
from unittest import mock

import trio

from log_service.broker.requests.call import Call, Deferred
from log_service.broker.requests.pipeline import Pipeline
from log_service.config.views import GroupConfig
from log_service.controller.channel import DEFAULT_TIMEOUT_MS
from log_service.protocol.api_versions import ApiKey
from tests.sim.node_checker import Violation
from tests.sim.node_host import Incarnation, NodeHost
from tests.sim.pauses import HOST
from tests.sim.world import World

RULE = "no request is forgotten"
GRACE_SECONDS = 5.0
"""For slow disks, and for what a node does before and after it waits."""
LONGEST_REBALANCE_MS = 30_000
"""The rebalance timeout of all members here, which a SyncGroup does not name."""
LOOK_SECONDS = 0.25
"""How often connections are looked at."""
MAX_VIOLATIONS = 20
COORDINATED_MS = GroupConfig().offsets_commit_timeout_ms
"""How long a coordinator waits until what it appended is safe."""
_OF_GROUPS = frozenset(
    {
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    }
)
_COMPLETIONS = (
    "complete",
    "complete_with",
    "complete_without_response",
    "complete_encoded",
    "fail",
)


def allowed_seconds(api_key: ApiKey, request: Any) -> float:
    """Return how long a request may take where all goes well but what it waits for.

    A coordinator is asked about the transaction of a produce before it is appended.
    """
    if api_key in _OF_GROUPS:
        return COORDINATED_MS / 1_000
    if api_key is ApiKey.SYNC_GROUP:
        return (LONGEST_REBALANCE_MS + COORDINATED_MS) / 1_000
    if api_key is ApiKey.JOIN_GROUP:
        longest_ms: int = max(
            request.rebalance_timeout_ms, request.session_timeout_ms, LONGEST_REBALANCE_MS
        )
        return (longest_ms + COORDINATED_MS) / 1_000
    waits_ms: list[int] = [
        getattr(request, name) for name in ("max_wait_ms", "timeout_ms") if hasattr(request, name)
    ]
    is_verified = api_key is ApiKey.PRODUCE and request.transactional_id is not None
    return (
        max(waits_ms, default=DEFAULT_TIMEOUT_MS) + (DEFAULT_TIMEOUT_MS if is_verified else 0)
    ) / 1_000


@dataclass(slots=True, eq=False)
class Promise:
    """A response that was promised for later. ``paused_seconds`` is how long its node had been
    paused when it was.

    ``is_given_up`` says that its client has gone, and that its handler was told so.
    """

    call: Call
    deferred: Deferred
    host: NodeHost
    incarnation: Incarnation
    asked: float
    paused_seconds: float
    is_made: bool = False
    is_given_up: bool = False

    @property
    def is_excused(self) -> bool:
        """Whether nobody owes this response any more."""
        return (
            self.is_made
            or self.is_given_up
            or self.host.current is not self.incarnation
            or not self.host.is_running
        )

    def __str__(self) -> str:
        seconds = trio.current_time() - self.asked
        return f"{self.call.route.api.key.name} of {self.asked:.3f} s has no response after {seconds:.3f} s at {self.host.name}"


class Responses:
    """The promises of the nodes ``hosts``, each with who is told when it breaks one.
    ``promise_count`` is how many there were.
    """

    def __init__(self, world: World, hosts: Mapping[NodeHost, Callable[[], None]]) -> None:
        self.promise_count = 0
        self._world = world
        self._hosts = {host.name: host for host in hosts}
        self._tell = dict(hosts)
        self._violations: dict[str, list[Violation]] = {name: [] for name in self._hosts}
        self._open: dict[int, Promise] = {}
        self._due: list[tuple[float, int, Promise]] = []
        self._numbers = count()
        self._paused_seconds = dict.fromkeys(self._hosts, 0.0)
        self._paused_since: dict[str, float] = {}
        self._looked = 0.0

    def of(self, hosts: Sequence[NodeHost]) -> list[Violation]:
        """Return what was broken at some nodes."""
        return [violation for host in hosts for violation in self._violations[host.name]]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what happens inside."""
        respond_later = Pipeline.respond_later

        def promise(
            pipeline: Pipeline, meter: Any, version: int, deferred: Deferred, started_ns: int
        ) -> Any:
            if not deferred.is_done:
                self._note(deferred)
            return respond_later(pipeline, meter, version, deferred, started_ns)

        on_idle = self._world.clock.on_idle
        on_idle.append(self.look)
        try:
            with ExitStack() as patches:
                patches.enter_context(mock.patch.object(Pipeline, "respond_later", promise))
                for name in _COMPLETIONS:
                    patches.enter_context(mock.patch.object(Deferred, name, self._completing(name)))
                patches.enter_context(
                    mock.patch.object(Deferred, "note_discarded", self._discarding())
                )
                yield
        finally:
            on_idle.remove(self.look)

    def _completing(self, name: str) -> Callable[..., None]:
        act = getattr(Deferred, name)

        def complete(deferred: Deferred, *arguments: Any) -> None:
            promise = self._open.pop(id(deferred), None)
            if promise is not None:
                promise.is_made = True
            act(deferred, *arguments)

        return complete

    def _discarding(self) -> Callable[[Deferred], None]:
        act = Deferred.note_discarded

        def discarded(deferred: Deferred) -> None:
            promise = self._open.get(id(deferred))
            if promise is not None and deferred.has_discard_callback:
                promise.is_given_up = True
            act(deferred)

        return discarded

    def _note(self, deferred: Deferred) -> None:
        call, host = deferred.call, self._hosts.get(HOST.get())
        if host is None or host.current is None:
            return
        now = trio.current_time()
        promise = Promise(
            call=call,
            deferred=deferred,
            host=host,
            incarnation=host.current,
            asked=now,
            paused_seconds=self._paused(host.name),
        )
        self.promise_count += 1
        self._open[id(deferred)] = promise
        self._push(promise, now + allowed_seconds(call.route.api.key, call.request) + GRACE_SECONDS)

    def _push(self, promise: Promise, due: float) -> None:
        heappush(self._due, (due, next(self._numbers), promise))

    def _paused(self, name: str) -> float:
        """Return for how long a node has been paused by now."""
        since = self._paused_since.get(name)
        return self._paused_seconds[name] + (0.0 if since is None else trio.current_time() - since)

    def look(self) -> None:
        """Look at what is due, and now and then at what is ready."""
        now = trio.current_time()
        self._note_pauses(now)
        while self._due and self._due[0][0] <= now:
            due, _, promise = heappop(self._due)
            if promise.is_excused:
                self._open.pop(id(promise.deferred), None)
                continue
            paused_seconds = self._paused(promise.host.name) - promise.paused_seconds
            if paused_seconds > 0:
                promise.paused_seconds += paused_seconds
                self._push(promise, due + paused_seconds)
            else:
                self._report(promise.host, str(promise))
        if now >= self._looked + LOOK_SECONDS:
            self._looked = now
            for host in self._hosts.values():
                self._look_at_connections(host)

    def _note_pauses(self, now: float) -> None:
        for name in self._hosts:
            is_paused = self._world.pauses.is_paused(name)
            if is_paused and name not in self._paused_since:
                self._paused_since[name] = now
            elif not is_paused and name in self._paused_since:
                self._paused_seconds[name] += now - self._paused_since.pop(name)

    def _look_at_connections(self, host: NodeHost) -> None:
        incarnation = host.current
        if (
            incarnation is None
            or not incarnation.is_up
            or not incarnation.is_running
            or self._world.pauses.is_paused(host.name)
        ):
            return
        for server in incarnation.broker.servers:
            for connection in server.connections:
                if (
                    connection.is_response_ready
                    and not connection.is_sending
                    and not connection.is_closed
                ):
                    self._report(
                        host,
                        f"{connection!r} of {host.name} has a response that is ready, and nothing sends it",
                    )

    def _report(self, host: NodeHost, text: str) -> None:
        found = self._violations[host.name]
        if len(found) < MAX_VIOLATIONS:
            found.append(Violation(RULE, f"{trio.current_time():.3f} s: {text}"))
            self._tell[host]()
