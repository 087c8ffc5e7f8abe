"""Runs the part in which rights and users change.

It casts the administrator and the probers, and has their responses judged.

Decides when something is judged: a response at once, by what the deciding nodes knew meanwhile;
what is left of requests, and what the nodes know, once all is calm.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import trio

from log_service.client import AclBinding, Admin, Consumer
from log_service.client.admin.access import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.metadata.image import MetadataImage
from tests.sim.access_checker import (
    check_attempt,
    check_effects,
    check_known,
    check_login,
    verdicts,
)
from tests.sim.access_clients import CONSUMER_OFFSETS, MACHINES, VAULT, Administrator, Prober
from tests.sim.access_history import Attempt, LogIn
from tests.sim.access_model import AccessState, Rule
from tests.sim.access_users import cheap_logins
from tests.sim.access_witness import AccessWitness
from tests.sim.cluster_clients import ClusterClients
from tests.sim.node_history import History
from tests.sim.node_host import NodeHost

Begin = Callable[[Callable[[str], Awaitable[None]], str], None]
Report = Callable[[str, str], None]
FOREVER = float("inf")


class Accessing:
    """The users of one run whose rights change. ``report`` takes what breaks a promise; ``counts``
    says how requests were decided.
    """

    def __init__(self, clients: ClusterClients, hosts: Sequence[NodeHost], report: Report) -> None:
        self._clients = clients
        self._history: History = clients.history
        self._hosts = hosts
        self._report = report
        self.witness = AccessWitness([host.name for host in hosts])
        self.administrator = Administrator(clients)
        self.probers = [
            Prober(clients, hosts, machine, self.administrator, self._judge) for machine in MACHINES
        ]
        self.counts: Counter[str] = Counter()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watch what happens inside."""
        with ExitStack() as stack:
            stack.enter_context(self.witness.attached())
            stack.enter_context(cheap_logins())
            stack.enter_context(self.administrator.counting())
            yield

    def begin(self, begin: Begin) -> None:
        """Cast the users: they end when it is over."""
        begin(self.administrator.work, "administrator")
        for number, prober in enumerate(self.probers):
            begin(prober.work, f"prober-{number}")

    async def begin_with_rights(self) -> None:
        """Give the users their first rights, and wait until every node knows them."""
        await self.administrator.begin()
        await self._wait_until_level()

    async def settle(self) -> None:
        """Try everything once more when all is calm.

        Before that, all users get their last rights, and every node learns of them.
        """
        await self.administrator.settle()
        await self._wait_until_level()
        async with trio.open_nursery() as nursery:
            for prober in self.probers:
                nursery.start_soon(prober.try_all)
        self._check_known()

    async def look_at_what_is_left(self) -> None:
        """Judge the records, positions, topics and ACLs that are there at last."""
        left = set(self._names_left())
        env = self._clients.env("left")
        settings = self._clients.settings(env)
        async with Admin(self._clients.bootstrap, env=env, **settings) as admin:
            ends = await admin.describe_offsets([*VAULT, CONSUMER_OFFSETS])
        async with Consumer(self._clients.bootstrap, env=env, **settings) as consumer:
            for partition, offsets in sorted(ends.items()):
                texts = await _texts(
                    consumer, partition, offsets.log_start_offset, offsets.high_watermark
                )
                left |= (
                    {text.decode() for text in texts}
                    if partition.topic in VAULT
                    else self._positions(texts)
                )
        for attempt in self._history.of(Attempt):
            until = attempt.ended_time if attempt.is_ok else FOREVER
            for violation in check_effects(
                attempt, self.witness.states(attempt.deciders, attempt.time, until), left
            ):
                self._report(violation.rule, violation.text)

    def _judge(self, ended: Attempt | LogIn) -> None:
        """Judge what a user was told, by what the deciding nodes knew meanwhile."""
        names = ended.deciders if isinstance(ended, Attempt) else (ended.node,)
        states = self.witness.states(names, ended.time, ended.ended_time)
        for violation in (
            check_attempt(ended, states)
            if isinstance(ended, Attempt)
            else check_login(ended, states)
        ):
            self._report(violation.rule, violation.text)
        self._count(ended, states)

    def _count(self, ended: Attempt | LogIn, states: Sequence[AccessState]) -> None:
        if isinstance(ended, LogIn):
            self.counts["logins" if ended.told is ErrorCode.NONE else "logins refused"] += 1
            return
        for part in ended.parts:
            legal = verdicts(ended, part, states)
            kind = (
                "either" if len(legal) > 1 else "allowed" if ErrorCode.NONE in legal else "denied"
            )
            self.counts[kind if part.told is not None else "not told"] += 1

    async def _wait_until_level(self) -> None:
        while not self._are_level():  # noqa: ASYNC110 - many nodes make it so
            await trio.sleep(0.1)

    def _are_level(self) -> bool:
        images = self._images()
        newest = max(images, key=lambda image: image.offset)
        return len(images) == len(self._hosts) and all(
            image.access == newest.access for image in images
        )

    def _images(self) -> list[MetadataImage]:
        return [
            host.current.broker.image
            for host in self._hosts
            if host.is_running and host.current is not None
        ]

    def _check_known(self) -> None:
        known = {
            rule_of(binding): is_there
            for binding, is_there in self.administrator.bindings.items()
            if is_there is not None
        }
        for host in self._hosts:
            for violation in check_known(
                host.name, self.witness.newest(host.name), known, self.administrator.known_passwords
            ):
                self._report(violation.rule, violation.text)

    def _names_left(self) -> Iterator[str]:
        for image in self._images():
            yield from image.topics.by_name
            yield from (entry.resource_name for entry in image.access.acls.values())

    def _positions(self, texts: Sequence[bytes]) -> set[str]:
        """The marks of commits that stand in records of the groups' topic."""
        whole = b"\n".join(texts)
        marks = (
            part.mark
            for attempt in self._history.of(Attempt)
            for part in attempt.parts
            if attempt.api == "OffsetCommit"
        )
        return {mark for mark in marks if mark.encode() in whole}


async def _texts(
    consumer: Consumer, partition: TopicPartition, start: int, end: int
) -> list[bytes]:
    """Return the values of all records of a partition."""
    consumer.assign([partition])
    await consumer.seek(partition, start)
    values: list[bytes] = []
    while await consumer.position(partition) < end:
        values += [
            record.value
            for record in await consumer.poll(timeout_ms=1_000)
            if record.value is not None
        ]
    return values


def rule_of(binding: AclBinding) -> Rule:
    """Return an ACL of the administrator's as the judges know it."""
    return Rule(
        principal=binding.principal,
        host=binding.host,
        operation=OPERATIONS[binding.operation],
        permission=PERMISSIONS[binding.permission],
        resource=RESOURCE_TYPES[binding.resource_type],
        pattern=PATTERN_TYPES[binding.pattern_type],
        name=binding.name,
    )
