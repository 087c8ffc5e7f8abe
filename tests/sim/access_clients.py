"""Users of a simulated cluster who try what they may, and the administrator who changes what that
is.

A ``Prober`` is a user on one machine. It logs in to the nodes, each time with the password that
counts, one that no longer does, or one that does not yet; or with a token of its own, which holds
or has expired. Where a login ends it logs in again on the same connection, or goes on as if nothing
had happened. It sends requests without a client library, so that each response is seen as it comes.
It knows no rules: what it tried and what it was told is in ``access_history``. It asks the world
where leaders and coordinators are, since a user without rights cannot ask the cluster.

The ``Administrator`` grants and removes, changes passwords, and removes users. It knows of each
change whether it was acknowledged. Nothing is known for certain after a change that was asked for
more than once: a request that was given up may still be under way, and take effect after the
changes that follow, as with Apache Kafka.
"""

import base64
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any
from unittest import mock
from uuid import UUID

import trio

from log_service.client import AclBinding, AclFilter, Admin, NewTopic, ScramUser
from log_service.common.env import Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from log_service.protocol.messages.create_acls import CreateAclsRequest
from log_service.protocol.messages.delete_acls import DeleteAclsRequest
from log_service.protocol.schema import Message
from log_service.rpc.connection import RpcConnection
from log_service.security.sasl.mechanisms import LoginError
from tests.sim import access_requests as requests
from tests.sim.access_history import Attempt, LogIn
from tests.sim.access_model import Asker
from tests.sim.access_requests import Try
from tests.sim.access_users import (
    CHANGING_USERS,
    MECHANISM,
    log_in,
    password_of,
    salt_of,
    steady_rights,
)
from tests.sim.cluster_clients import ClusterClients
from tests.sim.copy_clients import COPY_GROUP, ROWS
from tests.sim.node_clients import GROUP
from tests.sim.node_history import History
from tests.sim.node_host import NodeHost
from tests.sim.node_waits import Line
from tests.sim.pauses import HOST

VAULT = ("ledger", "vault-gold", "vault-iron")
"""Topics that only probers are about; the first names of two of them are the same."""
ABSENT = "vault-none"
"""A topic that does not exist."""
CREWS = ("crew", "crew-night")
MACHINES = {"10.0.0.1": "ann", "10.0.0.2": "ann", "10.0.0.3": "bob", "10.0.0.4": "eve"}
"""The addresses of the probers, and who they are."""
PATIENCE_SECONDS = 6.0
TOKEN_LIFETIMES_MS, KEPT_TOKENS = (400, 1_200, 5_000), 4
RELOGIN_SECONDS = 1.1
"""A connection logs in again no sooner: nodes refuse what comes within a second."""
CHANGES = (CreateAclsRequest, DeleteAclsRequest, AlterUserScramCredentialsRequest)
OPENING, CLOSED = 0, -1
"""Epochs of a fetch session: the first request, and a fetch without a session."""
CONSUMER_OFFSETS, TRANSACTION_STATE = "__consumer_offsets", "__transaction_state"
LAST_RIGHTS = (
    ("topic", "vault-"),
    ("topic", "ledger"),
    ("topic", "made-"),
    ("group", "crew"),
    ("transactional_id", "deal-"),
)
"""Prefixes of all that there is to try."""
Judge = Callable[[Attempt | LogIn], None]


@dataclass(slots=True, kw_only=True)
class Wire:
    """A connection has one user logged in at a time, and the fetch session that lives on it.

    ``logged_in_at`` is when the user was told: a node that was paused meanwhile has just begun to
    count its second.
    """

    line: Line
    logged_in_at: float
    ends: float
    session_id: int = 0
    session_epoch: int = OPENING


class Prober:
    """One user on one machine. ``judge`` takes what has ended."""

    def __init__(
        self,
        clients: ClusterClients,
        hosts: Sequence[NodeHost],
        machine: str,
        administrator: "Administrator",
        judge: Judge,
    ) -> None:
        self.user = MACHINES[machine]
        self._clients = clients
        self._history: History = clients.history
        self._hosts = [host for host in hosts if host.has_partitions]
        self._controllers = tuple(host.name for host in hosts if host.config.is_controller)
        self._administrator = administrator
        self._judge = judge
        self._env: Env = clients.world.client_env(machine)
        self._rng: Random = self._env.rng
        self._asker = Asker(f"User:{self.user}", machine)
        self._wires: dict[str, Wire] = {}
        self._transactional_id = f"deal-{self.user}-{machine}"
        self._tokens: list[tuple[str, str]] = []
        self._count = 0

    async def work(self, _name: str) -> None:
        """Try one thing after the other until it is over."""
        while not self._clients.is_over:
            await self.try_something(self._rng.choice(self._kinds()))
            await trio.sleep(self._rng.expovariate(12))

    async def try_all(self) -> None:
        """Try everything once, each at a node where it can be done."""
        self.leave()
        for kind in dict.fromkeys(self._kinds()):
            await self.try_something(kind)
        self.leave()

    def leave(self) -> None:
        """Close all connections."""
        for name in list(self._wires):
            self._drop(name)

    def _kinds(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            *[self._produce] * 4,
            *[self._fetch] * 4,
            *[self._commit] * 2,
            *[self._describe_groups] * 2,
            self._list_groups,
            *[self._see] * 2,
            *[self._transact] * 2,
            self._create_topic,
            self._create_acl,
            self._log_in_again,
            self._make_token,
            *[self._log_in_by_token] * 2,
        ]

    async def try_something(self, kind: Callable[[], Awaitable[None]]) -> None:
        """Try one thing; a connection that breaks is made again for the next."""
        await kind()

    # What is tried

    async def _produce(self) -> None:
        topic = self._rng.choice(VAULT)
        topic_id = self._topic_id(topic)
        if topic_id is not None:
            value = f"{self.user} {self._asker.host} {self._next()}"
            now_ms = self._clients.world.clocks[self._asker.host].wall_ms()
            asked = requests.produce(
                topic, topic_id, value, now_ms, is_by_id=self._rng.random() < 0.5
            )
            await self._ask(asked, self._leader(topic, 0))

    async def _fetch(self) -> None:
        """Go on with the session of a connection; the first request names all topics by their ids."""
        ids = [(name, self._topic_id(name)) for name in VAULT]
        topics = [(name, topic_id) for name, topic_id in ids if topic_id is not None]
        host = self._leader(self._rng.choice(VAULT), 0)
        wire = await self._wire(host)
        if wire is None or len(topics) < len(VAULT):
            return
        response = await self._ask(
            requests.fetch(topics, wire.session_id, wire.session_epoch), host
        )
        if response is None or response.error_code:
            wire.session_id, wire.session_epoch = 0, OPENING
        elif response.session_id:
            wire.session_id, wire.session_epoch = response.session_id, wire.session_epoch + 1

    async def _commit(self) -> None:
        group = self._rng.choice(CREWS)
        asked = requests.commit(
            group,
            self._rng.sample(VAULT, 2),
            f"position {self.user} {self._asker.host} {self._next()}",
        )
        await self._ask(asked, self._coordinator(group))

    async def _describe_groups(self) -> None:
        group = self._rng.choice(CREWS)
        await self._ask(requests.describe_groups([group]), self._coordinator(group))

    async def _list_groups(self) -> None:
        await self._ask(requests.list_groups(), self._any())

    async def _see(self) -> None:
        wanted = self._rng.choice([None, [*self._rng.sample(VAULT, 2), ABSENT]])
        await self._ask(requests.metadata(VAULT, wanted), self._any())

    async def _create_topic(self) -> None:
        await self._ask(
            requests.create_topic(f"made-{self.user}-{self._asker.host}-{self._next()}"),
            self._any(),
        )

    async def _create_acl(self) -> None:
        await self._ask(
            requests.create_acl(self._asker.principal, f"right-{self._asker.host}-{self._next()}"),
            self._any(),
        )

    async def _transact(self) -> None:
        """Begin a transaction with several topics, and abort it."""
        name = self._transactional_id
        host = self._coordinator(name, TRANSACTION_STATE)
        told = await self._ask(requests.init_producer_id(name), host)
        is_known = told is not None and not told.error_code
        producer_id, epoch = (
            (int(told.producer_id), int(told.producer_epoch)) if is_known else (-1, -1)
        )
        await self._ask(
            requests.add_partitions(
                name, producer_id, epoch, self._rng.sample(VAULT, self._rng.choice([2, 3]))
            ),
            host,
        )
        if is_known:
            await self._ask(requests.end_transaction(name, producer_id, epoch), host)

    async def _log_in_again(self) -> None:
        """Log in anew somewhere, at times with another password than the one that counts."""
        host = self._any()
        if host is not None:
            self._drop(host.name)
            latest = self._administrator.latest[self.user]
            await self._connect(host, max(0, latest + self._rng.choice([0, 0, -1, 1])))

    async def _make_token(self) -> None:
        """Have a token for a short time; the latest are kept, those that have expired, too."""
        told = await self._ask(
            requests.create_token(self._rng.choice(TOKEN_LIFETIMES_MS)), self._any()
        )
        if told is not None and not told.error_code:
            self._tokens = [*self._tokens, (told.token_id, base64.b64encode(told.hmac).decode())][
                -KEPT_TOKENS:
            ]

    async def _log_in_by_token(self) -> None:
        host = self._any()
        if host is not None and self._tokens:
            token_id, secret = self._rng.choice(self._tokens)
            self._drop(host.name)
            line = await self._open(host)
            if line is not None:
                await self._log_in(
                    LogIn(user=self.user, token=token_id, node=host.name), line, secret
                )

    # Asking

    async def _ask(self, asked: Try, host: NodeHost | None) -> Any:
        """Send a request and have its response judged; None where there was none."""
        wire = await self._wire(host)
        if wire is None or host is None:
            return None
        deciders = self._controllers if asked.is_passed_on else (host.name,)
        attempt = Attempt(
            api=asked.api,
            asker=self._asker,
            deciders=deciders,
            parts=asked.parts,
            shown=asked.shown,
            bits=asked.bits,
            login_ends=wire.ends,
        )
        self._history.add(attempt)
        response = None
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                response = await wire.line.ask(asked.request, asked.version)
        except (OSError, trio.TooSlowError) as error:
            self._history.end(attempt, error)
            self._drop(host.name)
        else:
            asked.read(asked, response)
            self._history.end(attempt)
        self._judge(attempt)
        return response

    async def _wire(self, host: NodeHost | None) -> Wire | None:
        """Return the connection to a node, logged in; None where there is none to be had.

        One whose login has ended, or soon will, may log in again, or be used as if nothing had
        happened.
        """
        wire = None if host is None else self._wires.get(host.name)
        if host is None:
            return None
        if wire is None:
            return await self._connect(host, self._administrator.latest[self.user])
        is_old = trio.current_time() - wire.logged_in_at > RELOGIN_SECONDS
        return await self._log_in_on(host, wire) if is_old and self._rng.random() < 0.3 else wire

    async def _connect(self, host: NodeHost, password: int) -> Wire | None:
        line = await self._open(host)
        login = LogIn(user=self.user, password=password, node=host.name)
        return (
            None
            if line is None
            else await self._log_in(login, line, password_of(self.user, password))
        )

    async def _open(self, host: NodeHost) -> Line | None:
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                return Line(await self._env.network.connect(host.name, host.port))
        except (OSError, trio.TooSlowError):
            return None

    async def _log_in_on(self, host: NodeHost, wire: Wire) -> Wire | None:
        """Log in once more on a connection that has a login; a fetch session lives on with it."""
        latest = self._administrator.latest[self.user]
        login = LogIn(user=self.user, password=latest, node=host.name, is_repeated=True)
        renewed = await self._log_in(login, wire.line, password_of(self.user, latest))
        if renewed is not None:
            renewed.session_id, renewed.session_epoch = wire.session_id, wire.session_epoch
        return renewed

    async def _log_in(self, login: LogIn, line: Line, secret: str) -> Wire | None:
        """Log in on a connection, have that judged, and keep the connection where it succeeded."""
        told, clock = None, self._clients.world.clocks[login.node]
        self._history.add(login)
        login.wall_ms = clock.wall_ms()
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                told = await log_in(
                    line, login.token or self.user, secret, self._rng, is_by_token=bool(login.token)
                )
                login.told, login.ended_wall_ms = told.code, clock.wall_ms()
        except (OSError, trio.TooSlowError, LoginError) as error:
            self._history.end(login, error)
        else:
            self._history.end(login)
            self._judge(login)
        if told is None or told.code is not ErrorCode.NONE:
            self._wires.pop(login.node, None)
            line.close()
            return None
        ends = trio.current_time() + told.lifetime_ms / 1_000 if told.lifetime_ms else inf
        wire = self._wires[login.node] = Wire(
            line=line, logged_in_at=trio.current_time(), ends=ends
        )
        return wire

    def _drop(self, name: str) -> None:
        wire = self._wires.pop(name, None)
        if wire is not None:
            wire.line.close()

    def _next(self) -> int:
        self._count += 1
        return self._count

    # Where things are

    def _image(self) -> MetadataImage | None:
        images = [
            host.current.broker.image
            for host in self._hosts
            if host.is_running and host.current is not None
        ]
        return max(images, key=lambda image: image.offset, default=None)

    def _topic_id(self, topic: str) -> UUID | None:
        image = self._image()
        found = None if image is None else image.topics.by_name.get(topic)
        return None if found is None else found.topic_id

    def _any(self) -> NodeHost | None:
        running = [
            host
            for host in self._hosts
            if host.is_running and host.current is not None and host.current.is_up
        ]
        return self._rng.choice(running) if running else None

    def _leader(self, topic: str, partition: int) -> NodeHost | None:
        """Return who leads; now and then another node, and where no one is known to."""
        image = self._image()
        known = None if image is None else image.topics.partition(topic, partition)
        found = next(
            (
                host
                for host in self._hosts
                if known is not None and host.node_id == known.leader and host.is_running
            ),
            None,
        )
        return self._any() if found is None or self._rng.random() < 0.1 else found

    def _coordinator(self, name: str, topic: str = CONSUMER_OFFSETS) -> NodeHost | None:
        host = self._any()
        rooms = None if host is None or host.current is None else host.current.broker.open_rooms
        if rooms is None:
            return None
        service = rooms.groups if topic == CONSUMER_OFFSETS else rooms.transactions
        return self._leader(topic, service.partition_for(name))


@dataclass(slots=True)
class Administrator:
    """Changes rights and users. ``bindings`` are ACLs with whether they are there, None where that
    is not known.

    ``passwords`` has the number of the password that each user was given last, None for one that
    was removed; ``known_passwords`` is of those alone of whom it is known. ``latest`` is the number
    of the newest password of each user.
    """

    clients: ClusterClients
    bindings: dict[AclBinding, bool | None] = field(default_factory=dict)
    passwords: dict[str, int | None] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHANGING_USERS, 0))
    asked_count: int = 0
    _unknown: set[AclBinding | str] = field(default_factory=set)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the requests that change something inside.

        The client library repeats one that gets no response.
        """
        ask = RpcConnection.request

        async def request(
            connection: RpcConnection, message: Message, *arguments: Any, **options: Any
        ) -> Any:
            if isinstance(message, CHANGES) and not HOST.get():
                self.asked_count += 1
            return await ask(connection, message, *arguments, **options)

        with mock.patch.object(RpcConnection, "request", request):
            yield

    async def begin(self) -> None:
        """Create the probers' topics, and give the steady users their rights, and the others some."""
        topics = [
            NewTopic(
                name=name,
                partition_count=1,
                replication_factor=3,
                configs={"min.insync.replicas": "1"},
            )
            for name in VAULT
        ]
        rng = self.clients.world.stream("first rights")
        first = dict.fromkeys(draw_binding(rng) for _ in range(30))
        async with self._admin() as admin:
            await admin.create_topics(topics)
            await self._grant(
                admin,
                [*steady_rights(self.clients.plan.topics[0].name, ROWS, GROUP, COPY_GROUP), *first],
            )

    @property
    def known_passwords(self) -> dict[str, int | None]:
        return {
            user: number for user, number in self.passwords.items() if user not in self._unknown
        }

    async def work(self, name: str) -> None:
        """Change something again and again until it is over."""
        rng = self.clients.world.stream(name)
        async with self._admin() as admin:
            while not self.clients.is_over:
                await trio.sleep(rng.expovariate(8))
                try:
                    await self._change(admin, rng)
                except KafkaError as error:
                    self.clients.world.log(name, error)

    async def settle(self) -> None:
        """Give every user a password, and the first of them rights on everything that there is to
        try.
        """
        async with self._admin() as admin:
            for user in CHANGING_USERS:
                await self._set_password(admin, user)
            await self._remove(admin, AclFilter(permission="deny"))
            granted = [
                AclBinding(
                    resource_type=kind,
                    name=name,
                    principal=f"User:{CHANGING_USERS[0]}",
                    operation="all",
                    pattern_type="prefixed",
                )
                for kind, name in LAST_RIGHTS
            ]
            await self._grant(admin, granted)

    def _admin(self) -> Admin:
        env = self.clients.env("admin")
        return Admin(self.clients.bootstrap, env=env, **self.clients.settings(env))

    async def _change(self, admin: Admin, rng: Random) -> None:
        removed = [user for user, number in sorted(self.passwords.items()) if number is None]
        if removed and rng.random() < 0.4:
            await self._set_password(admin, rng.choice(removed))
            return
        present = [
            binding
            for binding, is_there in self.bindings.items()
            if is_there and is_changed(binding)
        ]
        match rng.choice(
            ["grant"] * 5
            + ["remove"] * 5
            + ["remove some", "change password", "change password", "remove user"]
        ):
            case "grant" if len(present) < 40:
                await self._grant(admin, [draw_binding(rng)])
            case "change password":
                await self._set_password(admin, rng.choice(CHANGING_USERS))
            case "remove user":
                await self._remove_user(admin, rng)
            case "remove some" if present:
                chosen = rng.choice(present)
                wanted = AclFilter(
                    resource_type=chosen.resource_type,
                    name=chosen.name,
                    pattern_type=chosen.pattern_type,
                    principal=chosen.principal,
                )
                await self._remove(admin, wanted)
            case _ if present:
                await self._remove(admin, exactly(rng.choice(present)))

    async def _grant(self, admin: Admin, bindings: Sequence[AclBinding]) -> None:
        with self._changing(bindings) as done:
            await admin.create_acls(bindings, timeout_ms=8_000)
            done(True)

    async def _remove(self, admin: Admin, wanted: AclFilter) -> None:
        with self._changing(
            [binding for binding in self.bindings if is_meant(binding, wanted)]
        ) as done:
            await admin.delete_acls([wanted], timeout_ms=8_000)
            done(False)

    @contextmanager
    def _changing(self, bindings: Sequence[AclBinding]) -> Iterator[Callable[[bool], None]]:
        """Change some ACLs inside, and call the yielded function once the change was acknowledged.

        Its argument tells whether they are there.
        """
        told, before = None, self.asked_count

        def done(is_there: bool) -> None:
            nonlocal told
            told = is_there

        try:
            yield done
        finally:
            if told is None or self.asked_count - before != 1:
                self._unknown.update(bindings)
            self.bindings.update(
                {binding: None if binding in self._unknown else told for binding in bindings}
            )

    async def _set_password(self, admin: Admin, user: str) -> None:
        number = self.latest[user] = self.latest[user] + 1
        password, salt = password_of(user, number), salt_of(user, number)
        await self._set_user(user, number, admin.set_scram_users, [_scram(user, password, salt)])

    async def _remove_user(self, admin: Admin, rng: Random) -> None:
        user = rng.choice(CHANGING_USERS)
        await self._set_user(
            user, None, admin.remove_scram_users, [(user, MECHANISM.mechanism_name)]
        )

    async def _set_user(
        self,
        user: str,
        number: int | None,
        act: Callable[..., Awaitable[None]],
        change: Sequence[Any],
    ) -> None:
        before, is_told = self.asked_count, False
        try:
            await act(change, timeout_ms=8_000)
            is_told = True
        except KafkaError as error:
            is_told = error.code is ErrorCode.RESOURCE_NOT_FOUND
            if not is_told:
                raise
        finally:
            if not is_told or self.asked_count - before != 1:
                self._unknown.add(user)
            self.passwords[user] = number


def _scram(user: str, password: str, salt: bytes) -> ScramUser:
    return ScramUser(name=user, password=password, mechanism=MECHANISM.mechanism_name, salt=salt)


def exactly(binding: AclBinding) -> AclFilter:
    """Return the filter that means one ACL."""
    return AclFilter(
        resource_type=binding.resource_type,
        name=binding.name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission=binding.permission,
    )


def is_meant(binding: AclBinding, wanted: AclFilter) -> bool:
    """Whether a filter of the administrator's means an ACL."""
    pairs = (
        (binding.resource_type, wanted.resource_type),
        (binding.name, wanted.name),
        (binding.pattern_type, wanted.pattern_type),
        (binding.principal, wanted.principal),
        (binding.host, wanted.host),
        (binding.operation, wanted.operation),
        (binding.permission, wanted.permission),
    )
    return all(asked in (None, "any", own) for own, asked in pairs)


# What is granted and denied

_TOPICS = (*((name, "literal") for name in VAULT), ("vault-", "prefixed"), ("v", "prefixed"))
_ON_TOPICS = (
    "read",
    "read",
    "read",
    "write",
    "write",
    "describe",
    "all",
    "all",
    "alter",
    "describe_configs",
)
_RESOURCES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    *(("topic", name, pattern, _ON_TOPICS) for name, pattern in _TOPICS),
    ("topic", "made-", "prefixed", ("create", "all")),
    *(("group", name, "literal", ("read", "read", "describe", "delete", "all")) for name in CREWS),
    ("group", "cr", "prefixed", ("read", "describe")),
    ("transactional_id", "deal-", "prefixed", ("write", "write", "describe")),
    ("transactional_id", "deal-ann-10.0.0.1", "literal", ("write", "all")),
    ("cluster", "kafka-cluster", "literal", ("create", "describe", "idempotent_write")),
)
_EVERYTHING = (
    ("topic", "*", "literal", ("read", "write", "describe", "create")),
    ("group", "*", "literal", ("read", "describe")),
)
"""Only for users of their own: what is denied to everyone would be denied to the steady users."""
_OWN = tuple(f"User:{user}" for user in CHANGING_USERS[:2])


def is_changed(binding: AclBinding) -> bool:
    """Whether an ACL is one of those that come and go."""
    return binding.principal in (*_OWN, "User:*")


def draw_binding(rng: Random) -> AclBinding:
    """Draw an ACL."""
    principal = rng.choice([*_OWN, *_OWN, "User:*"])
    kind, name, pattern, operations = rng.choice(
        _RESOURCES if principal == "User:*" else [*_RESOURCES, *_EVERYTHING]
    )
    machines = [
        address for address, user in MACHINES.items() if principal in (f"User:{user}", "User:*")
    ]
    return AclBinding(
        resource_type=kind,
        name=name,
        principal=principal,
        operation=rng.choice(operations),
        pattern_type=pattern,
        host="*" if rng.random() < 0.7 else rng.choice(machines),
        permission="deny" if rng.random() < 0.15 else "allow",
    )
