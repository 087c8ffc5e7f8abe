"""Asks a schema registry whether it accepts the schemas that batches name.

Decides how many requests are sent, and how long a batch waits. If no response comes, its producer
gets REQUEST_TIMED_OUT and sends the batch again. A decision is the registry's decision on a schema.
It accepts the schema, or refuses it with a reason.

Invariants: at most one request about a schema is in progress. At most ``MAX_ASKED_AT_ONCE``
requests are in progress in all, and ``MAX_ASKED_PER_SECOND`` begin for a topic, whatever its
producers send. While the registry does not respond, one request per ``PAUSE_MS`` tries it. A batch
is never accepted without a decision of the registry.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import trio

from log_service.broker.schema_validation.checked_appends import CheckedAppends
from log_service.broker.schema_validation.decisions import Decisions, Key
from log_service.broker.schema_validation.registry import RegistryUnavailableError, SchemaRegistry
from log_service.broker.schema_validation.subjects import SubjectRule
from log_service.broker.schema_validation.topic_decisions import TopicDecisions, subject_rules
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.rules import NamedSchema, SchemaName
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager

MAX_WAIT_MS: Final = 5_000
"""How long a batch waits for decisions on its schemas."""
MAX_ASKED_AT_ONCE: Final = 4
MAX_ASKED_PER_SECOND: Final = 100
"""The most requests to the registry per second for a topic. Keys and values count separately."""
MAX_TOPICS_COUNTED: Final = 1_000
MAX_ALIASES: Final = 3
"""Subjects of a schema that are looked up as aliases, before it is refused."""
PAUSE_MS: Final = 1_000

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class SchemaCounts:
    """Counts of the checked batches, and of the requests to the registry by their outcome."""

    checked_batches: int = 0
    accepted: int = 0
    refused: int = 0
    unanswered: int = 0
    asked_ms: int = 0


class SchemaValidation:
    """Validates the records of a node's topics by one schema registry."""

    def __init__(self, registry: SchemaRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self.decisions = Decisions()
        self.counts = SchemaCounts()
        self._asking: dict[Key, trio.Event] = {}
        self._turns = trio.CapacityLimiter(MAX_ASKED_AT_ONCE)
        self._asked: dict[SubjectRule, tuple[int, int]] = {}
        self._failure: str | None = None
        self._pause_until_ms = 0

    def __repr__(self) -> str:
        return f"<SchemaValidation {self.decisions!r} asking={len(self._asking)}>"

    def checked_appends(self, replicas: ReplicaManager) -> CheckedAppends:
        """Return a layer above ``replicas`` that checks the schemas of batches first."""
        return CheckedAppends(replicas, self.schemas_of)

    def schemas_of(self, partition: Partition) -> TopicDecisions | None:
        """Return the decisions on a topic's schemas, or None if the topic is not validated.

        Raises:
            KafkaError: as ``Partition.served_log``.
        """
        config = partition.served_log().config
        if not config.is_schema_validated:
            return None
        self.counts.checked_batches += 1
        rules = subject_rules(partition.topic_partition.topic, config)
        now_ms = self._clock.monotonic_ms()
        return TopicDecisions(rules=rules, decisions=self.decisions, now_ms=now_ms)

    def deadline_ms(self, timeout_ms: int) -> int:
        """Return until when a batch may wait for decisions, in monotonic milliseconds.

        ``timeout_ms`` is the time that the batch's producer waits for the response.
        """
        return self._clock.monotonic_ms() + min(max(timeout_ms, 0), MAX_WAIT_MS)

    async def learn(
        self, schemas: TopicDecisions, names: Collection[NamedSchema], deadline_ms: int
    ) -> KafkaError | None:
        """Ask the registry about schemas, and wait for the decisions.

        Return None if all decisions are known by then, else the error for the batch.
        """
        wanted = [(schemas.rules[named.is_key], named.name) for named in names]
        left_ms = deadline_ms - self._clock.monotonic_ms()
        with trio.move_on_after(max(left_ms, 0) / 1_000):
            async with trio.open_nursery() as nursery:
                for rule, name in wanted:
                    nursery.start_soon(self._ask_once, rule, name)
        now_ms = self._clock.monotonic_ms()
        is_all = all(
            self.decisions.of(rule, name, now_ms) is not None
            or self.decisions.renew(rule, name, now_ms)
            for rule, name in wanted
        )
        return None if is_all else self._missing()

    def _missing(self) -> KafkaError:
        reason = (
            self._failure or "the schema registry did not respond in time, or is asked too much"
        )
        text = f"the schemas of the batch could not be checked, so nothing was written: {reason}"
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)

    async def _ask_once(self, rule: SubjectRule, name: SchemaName) -> None:
        """Ask the registry about a schema, or wait for a request about it in progress."""
        key = (rule, name)
        other = self._asking.get(key)
        if other is not None:
            await other.wait()
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._pause_until_ms or not self._may_ask(rule, now_ms):
            return
        is_done = self._asking[key] = trio.Event()
        try:
            async with self._turns:
                await self._ask(rule, name)
        finally:
            del self._asking[key]
            is_done.set()

    async def _ask(self, rule: SubjectRule, name: SchemaName) -> None:
        if self._clock.monotonic_ms() < self._pause_until_ms:  # it failed while this one waited
            return
        began_ms = self._clock.monotonic_ms()
        try:
            fault = await self._fault(rule, name)
        except RegistryUnavailableError as error:
            now_ms = self._clock.monotonic_ms()
            self.counts.unanswered += 1
            self.counts.asked_ms += now_ms - began_ms
            if self._failure is None:
                logger.warning("Topics with schema validation take no unknown schemas: %s", error)
            self._failure, self._pause_until_ms = str(error), now_ms + PAUSE_MS
            return
        self._failure, self._pause_until_ms = None, 0
        now_ms = self._clock.monotonic_ms()
        self.counts.asked_ms += now_ms - began_ms
        if fault:
            self.counts.refused += 1
        else:
            self.counts.accepted += 1
        self.decisions.note(rule, name, fault, now_ms)

    async def _fault(self, rule: SubjectRule, name: SchemaName) -> str:
        """Ask the registry about a schema. Return the reason why it is refused, or an empty text.

        A schema is also accepted if it is registered under a subject to which an alias among the
        topic's subjects refers.

        Raises:
            RegistryUnavailableError: no registry gave a usable response.
        """
        found = await self._registry.registered(name, has_record_names=rule.has_record_names)
        fault = rule.fault(name, found)
        if not fault or not found.subjects:
            return fault
        for subject in rule.subjects(found)[:MAX_ALIASES]:
            if await self._registry.aliased(subject) in found.subjects:
                return ""
        return fault

    def _may_ask(self, rule: SubjectRule, now_ms: int) -> bool:
        """Count a request for a topic. Return False if it has made too many within a second."""
        began_ms, count = self._asked.get(rule, (now_ms, 0))
        if now_ms - began_ms >= 1_000:
            began_ms, count = now_ms, 0
        if count >= MAX_ASKED_PER_SECOND:
            return False
        if len(self._asked) >= MAX_TOPICS_COUNTED and rule not in self._asked:
            self._asked.clear()
        self._asked[rule] = (began_ms, count + 1)
        return True
