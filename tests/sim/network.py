"""A network in memory: ordered byte streams with latency, odd chunks, cuts, resets and full
windows.

The weather holds between all hosts. One direction of one link may have a weather of its own (a slow
link) or be cut; a quiet host is told everything at once, and nothing happens to its connections
while both hosts live.

A ``MemoryNetwork`` is the fabric between hosts, and itself the network of the host ``localhost``;
``host(name)`` is another host's view of it. No task runs here: bytes carry the time of their
arrival and the receiver waits for it. Everything random depends on the generator that was handed
in, so that one seed gives one run; each direction of each connection draws from a stream of its
own, so that another request on one of them changes nothing on the rest.
"""

import errno
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import trio

from log_service.common.env import FileSlice
from log_service.common.types import Buffer
from tests.sim.clock import WorldClock

FIRST_FREE_PORT = 49_152
LOOPBACK_NAMES = frozenset({"", "0.0.0.0", "::", "127.0.0.1", "::1", "localhost"})


@dataclass(slots=True)
class Weather:
    """How the network behaves just now; times in seconds. ``max_chunk_bytes`` 0: bytes arrive as
    they were sent.
    """

    min_latency: float = 0.0
    max_latency: float = 0.0
    max_chunk_bytes: int = 0
    window_bytes: int = 256 << 10


QUIET = Weather(window_bytes=1 << 30)


class MemoryNetwork:
    """The fabric; also the ``Network`` of ``localhost``."""

    def __init__(self, rng: Random | None = None, weather: Weather | None = None) -> None:
        self._key = (rng or Random(0)).getrandbits(64)
        self._route_counts: Counter[tuple[str, str]] = Counter()
        self.weather = weather or Weather()
        self.quiet_hosts: set[str] = set()
        self.accept_failures: deque[OSError] = deque()
        self._listeners: dict[tuple[str, int], MemoryListener] = {}
        self._links: list[_Link] = []
        self._cuts: set[tuple[str, str]] = set()
        self._refusals: set[tuple[str, str]] = set()
        self._weather_of_links: dict[tuple[str, str], Weather] = {}
        self._healed = trio.lowlevel.ParkingLot()
        self._next_port = FIRST_FREE_PORT
        self._local = MemoryHost(self, "localhost")

    def host(self, name: str) -> "MemoryHost":
        """The network as the host ``name`` sees it."""
        return MemoryHost(self, name)

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> "MemoryListener":
        return await self._local.listen(host, port, backlog=backlog)

    async def connect(self, host: str, port: int) -> "MemoryConnection":
        return await self._local.connect(host, port)

    def cut(self, source: str, target: str) -> None:
        """Nothing from ``source`` arrives at ``target`` until healed; one direction only."""
        self._cuts.add((source, target))

    def isolate(self, name: str, others: Sequence[str]) -> None:
        """Cut a host off from others, both ways."""
        for other in others:
            self.cut(name, other)
            self.cut(other, name)

    def slow(self, source: str, target: str, weather: Weather) -> None:
        """Give what ``source`` sends to ``target`` a weather of its own until healed; one direction
        only.
        """
        self._weather_of_links[source, target] = weather

    def refuse(self, source: str, target: str) -> None:
        """Have ``target`` refuse new connections from ``source`` until healed, as a firewall may.

        Open ones go on.
        """
        self._refusals.add((source, target))

    def heal(self, *hosts: str) -> None:
        """End the cuts and slow links of these hosts, or of all; what was held back arrives."""
        self._cuts = {route for route in self._cuts if hosts and not set(hosts) & set(route)}
        self._refusals = {
            route for route in self._refusals if hosts and not set(hosts) & set(route)
        }
        self._weather_of_links = {
            route: weather
            for route, weather in self._weather_of_links.items()
            if hosts and not set(hosts) & set(route)
        }
        self._healed.unpark_all()
        for link in self._links:
            link.wake()

    def reset_connections(self, name: str) -> int:
        """Break the connections of a host except those with quiet ones, and return how many.

        Bytes under way are lost.
        """
        return self._reset(
            [link for link in self._links if name in link.hosts and not self._is_quiet(*link.hosts)]
        )

    def _reset(self, links: "list[_Link]") -> int:
        for link in links:
            link.reset()
        return len(links)

    def crash_host(self, name: str) -> None:
        """A host dies: its connections break and its listeners are gone."""
        for listener in [
            listener for (host, _), listener in self._listeners.items() if host == name
        ]:
            listener.close()
        self._reset([link for link in self._links if name in link.hosts])

    @contextmanager
    def hidden(self, host: str, port: int) -> Iterator[None]:
        """Refuse new connections to a port inside."""
        listener = self._listeners.pop((host, port))
        try:
            yield
        finally:
            self._listeners[host, port] = listener

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts and not self._is_quiet(source, target)

    def weather_of(self, source: str, target: str) -> Weather:
        """How what ``source`` sends to ``target`` travels just now."""
        return (
            QUIET
            if self._is_quiet(source, target)
            else self._weather_of_links.get((source, target), self.weather)
        )

    def stream(self, source: str, target: str) -> Random:
        """Begin the random numbers of the next connection, or of the next try of one, on a route."""
        number = self._route_counts[source, target] = self._route_counts[source, target] + 1
        return Random(f"{self._key} {source} {target} {number}")

    def draw_latency(self, source: str, target: str, rng: Random) -> float:
        weather = self.weather_of(source, target)
        return (
            rng.uniform(weather.min_latency, weather.max_latency)
            if weather.max_latency > 0
            else 0.0
        )

    def draw_chunk(self, source: str, target: str, size_bytes: int, rng: Random) -> int:
        weather = self.weather_of(source, target)
        return (
            min(size_bytes, rng.randint(1, weather.max_chunk_bytes))
            if weather.max_chunk_bytes
            else size_bytes
        )

    def _is_quiet(self, source: str, target: str) -> bool:
        return bool(self.quiet_hosts) and (source in self.quiet_hosts or target in self.quiet_hosts)

    async def wait_until_healed(self) -> None:
        await self._healed.park()

    def bind(self, name: str, host: str, port: int) -> "MemoryListener":
        if not port:
            port, self._next_port = self._next_port, self._next_port + 1
        if (name, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"address {host}:{port} is in use")
        listener = self._listeners[name, port] = MemoryListener(self, name, host or "0.0.0.0", port)
        return listener

    def unbind(self, name: str, port: int) -> None:
        self._listeners.pop((name, port), None)

    def dial(self, source: str, target: str, port: int, rng: Random) -> "MemoryConnection":
        listener = self._listeners.get((target, port))
        if listener is None or (source, target) in self._refusals:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED, f"{target}:{port} refused the connection"
            )
        link = _Link(self, source, target, rng)
        self._links.append(link)
        listener.offer(link.ends[1])
        return link.ends[0]

    def forget(self, link: "_Link") -> None:
        if link in self._links:
            self._links.remove(link)


class MemoryHost:
    """The ``Network`` of one host: a name such as ``localhost`` or ``127.0.0.1`` means the host
    itself.
    """

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self._network = network
        self.name = name

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> "MemoryListener":
        await trio.lowlevel.checkpoint()
        if host not in LOOPBACK_NAMES and host != self.name:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of {self.name}")
        return self._network.bind(self.name, host, port)

    async def connect(self, host: str, port: int) -> "MemoryConnection":
        target = self.name if host in LOOPBACK_NAMES else host
        rng = self._network.stream(self.name, target)
        await trio.sleep(self._network.draw_latency(self.name, target, rng))
        while self._network.is_cut(self.name, target) or self._network.is_cut(target, self.name):
            await self._network.wait_until_healed()  # the caller's deadline ends this
        return self._network.dial(self.name, target, port, rng)


class MemoryListener:
    """A listening address in memory."""

    def __init__(self, network: MemoryNetwork, name: str, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._network = network
        self._name = name
        self._is_closed = False
        self._offered: deque[MemoryConnection] = deque()
        self._lot = trio.lowlevel.ParkingLot()

    async def accept(self) -> "MemoryConnection":
        await trio.lowlevel.checkpoint()
        while True:
            if self._is_closed:
                raise OSError(errno.EBADF, "the listener was closed")
            if self._offered and self._network.accept_failures:
                raise self._network.accept_failures.popleft()
            if self._offered:
                return self._offered.popleft()
            await self._lot.park()

    def offer(self, connection: "MemoryConnection") -> None:
        self._offered.append(connection)
        self._lot.unpark()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._network.unbind(self._name, self.port)
            for connection in self._offered:
                connection.close()
            self._lot.unpark_all()


class _Link:
    """Two ends and the two pipes between them."""

    def __init__(self, network: MemoryNetwork, source: str, target: str, rng: Random) -> None:
        self.hosts = (source, target)
        self._network = network
        forth, back = (
            _Pipe(network, source, target, rng),
            _Pipe(network, target, source, Random(rng.getrandbits(64))),
        )
        self._pipes = (forth, back)
        self.ends = (
            MemoryConnection(self, source, target, forth, back),
            MemoryConnection(self, target, source, back, forth),
        )

    def reset(self) -> None:
        for end in self.ends:
            end.break_with(ConnectionResetError(errno.ECONNRESET, "the connection was reset"))
        self._network.forget(self)

    def wake(self) -> None:
        for pipe in self._pipes:
            pipe.wake()

    def end_closed(self) -> None:
        if all(end.is_closed for end in self.ends):
            self._network.forget(self)


class _Pipe:
    """One direction: chunks with the time of their arrival, and a window that bounds what is under
    way.

    ``readable`` wakes the receiver where a wait is over that ``wait_for_arrival`` began,
    ``writable`` the sender.
    """

    def __init__(self, network: MemoryNetwork, source: str, target: str, rng: Random) -> None:
        self.readable = trio.lowlevel.ParkingLot()
        self.writable = trio.lowlevel.ParkingLot()
        self.is_broken = False
        self._network = network
        self._route = (source, target)
        self._rng = rng
        # An empty chunk is the end of the stream.
        self._chunks: deque[tuple[float, bytes]] = deque()
        self._under_way_bytes = 0
        self._last_arrival = 0.0
        self._alarm = -1.0

    @property
    def is_cut(self) -> bool:
        return self._network.is_cut(*self._route)

    @property
    def room_bytes(self) -> int:
        return self._network.weather_of(*self._route).window_bytes - self._under_way_bytes

    @property
    def has_arrived(self) -> bool:
        """Whether there is something to take."""
        return bool(self._chunks) and self._chunks[0][0] <= trio.current_time() and not self.is_cut

    async def wait_for_arrival(self) -> None:
        """Wait until something may have arrived, or the pipe has broken."""
        if not self._chunks or self.is_cut:
            await self.readable.park()
            return
        clock = trio.lowlevel.current_clock()
        if isinstance(clock, WorldClock):
            self._set_alarm(clock)
            await self.readable.park()
        else:
            with trio.move_on_at(self._chunks[0][0]):
                await self.readable.park()

    def wake(self) -> None:
        """Have both ends look again."""
        self.readable.unpark_all()
        self.writable.unpark_all()

    def _set_alarm(self, clock: WorldClock) -> None:
        arrival = self._chunks[0][0]
        if self._alarm != arrival:
            self._alarm = arrival
            clock.wake_at(arrival, self.readable)

    def put(self, chunk: bytes) -> None:
        self._last_arrival = max(
            self._last_arrival,
            trio.current_time() + self._network.draw_latency(*self._route, self._rng),
        )
        self._chunks.append((self._last_arrival, chunk))
        self._under_way_bytes += len(chunk)
        if len(self._chunks) == 1 and self.readable:
            self._tell_receiver()

    def put_some(self, rest: memoryview) -> int:
        """Put as much as the weather and the window allow, and return how much."""
        size = self._network.draw_chunk(*self._route, min(self.room_bytes, len(rest)), self._rng)
        self.put(bytes(rest[:size]))
        return size

    def take_into(self, buffer: memoryview) -> int:
        """Take the bytes that have arrived.

        They are one piece if chunks are not drawn, else one chunk at a time. 0 is the end of the
        stream.
        """
        taken = self._take_chunk_into(buffer)
        is_whole = not self._network.weather_of(*self._route).max_chunk_bytes
        while taken < len(buffer) and is_whole and self._has_arrived_bytes():
            taken += self._take_chunk_into(buffer[taken:])
        self._under_way_bytes -= taken
        self.writable.unpark_all()
        return taken

    def drop(self) -> None:
        """Receive nothing any more: what is sent here is lost."""
        self.is_broken = True
        self._chunks.clear()
        self.wake()

    def _tell_receiver(self) -> None:
        """The receiver waits for the first chunk: wake it when that arrives."""
        clock = trio.lowlevel.current_clock()
        if isinstance(clock, WorldClock) and self._last_arrival > trio.current_time():
            self._set_alarm(clock)
        else:
            self.readable.unpark_all()

    def _has_arrived_bytes(self) -> bool:
        return (
            bool(self._chunks)
            and bool(self._chunks[0][1])
            and self._chunks[0][0] <= trio.current_time()
        )

    def _take_chunk_into(self, buffer: memoryview) -> int:
        arrival, chunk = self._chunks[0]
        taken = min(len(chunk), len(buffer))
        buffer[:taken] = chunk[:taken]
        if chunk:
            self._chunks.popleft()
        if taken < len(chunk):
            self._chunks.appendleft((arrival, chunk[taken:]))
        return taken


class MemoryConnection:
    """One end of a link."""

    def __init__(
        self, link: _Link, local_host: str, peer_host: str, outgoing: _Pipe, incoming: _Pipe
    ) -> None:
        self.local_host = local_host
        self.peer_host = peer_host
        self.peer_port = 0
        self.bytes_sent = 0
        self._link = link
        self._outgoing = outgoing
        self._incoming = incoming
        self._error: OSError | None = None

    @property
    def is_closed(self) -> bool:
        return self._error is not None

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        await trio.lowlevel.checkpoint_if_cancelled()
        self._require_open()
        pipe = self._incoming
        if pipe.has_arrived:
            await trio.lowlevel.cancel_shielded_checkpoint()
            self._require_open()
        while not pipe.has_arrived:
            await pipe.wait_for_arrival()
            self._require_open()
        return pipe.take_into(memoryview(buffer))

    async def send_gathered(self, buffers: Sequence[Buffer]) -> None:
        pipe = self._outgoing
        rest = memoryview(b"".join(buffers))
        self._require_open()
        while rest:
            if pipe.is_broken and not pipe.is_cut:
                raise BrokenPipeError(errno.EPIPE, f"{self.peer_host} has closed the connection")
            if pipe.room_bytes > 0:
                size = pipe.put_some(rest)
                self.bytes_sent += size
                rest = rest[size:]
            else:
                await pipe.writable.park()
                self._require_open()

    async def send_file(self, header: Sequence[Buffer], file_slice: FileSlice) -> None:
        await self.send_gathered([*header, file_slice.read()])

    def send_nowait(self, content: Buffer) -> None:
        """Send what there is room for, and forget the rest."""
        if self._error is None and not self._outgoing.is_broken and self._outgoing.room_bytes > 0:
            self.bytes_sent += self._outgoing.put_some(memoryview(content))

    def close(self) -> None:
        """The peer receives what is under way and then the end of the stream."""
        if self._error is None:
            if not self._outgoing.is_broken:
                self._outgoing.put(b"")
            self.break_with(OSError(errno.EBADF, "the connection was closed on our side"))
            self._link.end_closed()

    def break_with(self, error: OSError) -> None:
        """Every call from now on fails; bytes under way to this end are lost."""
        if self._error is None:
            self._error = error
            self._incoming.drop()
            self._outgoing.writable.unpark_all()

    def _require_open(self) -> None:
        if self._error is not None:
            raise OSError(self._error.errno, str(self._error.strerror))
