"""A whole node serves share groups in virtual time.

It has its own share coordinator and its own dead letters, and restarts in between.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.broker.metrics.shares import share_families
from log_service.broker.metrics.sources import Rates
from log_service.broker.metrics.traffic import topic_families
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import SHARE_VERSION
from log_service.config.resource_keys import DEAD_LETTER_TOPIC
from log_service.coordinator.share.share_state import ShareKey, ShareState
from log_service.metadata import features
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.network.server import ConnectionContext
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.record import Record
from log_service.replication.traffic import Traffic
from tests.helpers.garbage import counted_garbage
from tests.sim.world import World, sim_run
from tests.unit.broker.context import RawClient, Story, batch, running
from tests.unit.broker.share.context import ACCEPT, GROUP, REJECT, RELEASE, Member

PROPERTIES = {
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
}


@pytest.fixture(autouse=True)
def _share_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have new clusters begin with share groups."""
    monkeypatch.setitem(features.SUPPORTED_FEATURES, SHARE_VERSION, (0, 1))
    monkeypatch.setitem(features.FIRST_LEVELS, SHARE_VERSION, 1)


class SharingStory:
    """Members ask a node in this story, each over its own connection."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.topic_ids: dict[str, Any] = {}
        self.clients: dict[int, RawClient] = {}

    @property
    def image(self) -> MetadataImage:
        return self.story.broker.image

    async def ask(self, request: Any, version: int, connection: ConnectionContext) -> Any:
        client = self.clients.get(connection.connection_id)
        if client is None:
            client = self.clients[connection.connection_id] = await self.story.connect()
        return await client.ask(request, version)

    def member(self) -> Member:
        return Member(self, GROUP, 2)  # type: ignore[arg-type]  # it has what a member uses

    def vanish(self, member: Member) -> None:
        self.clients.pop(member.connection.connection_id).close()
        member.epoch = 0

    def key(self, topic: str) -> ShareKey:
        return ShareKey(group_id=GROUP, topic_id=self.topic_ids[topic], partition=0)

    async def share(self, topic: str = "a") -> None:
        known = self.image.topics.by_name.get(topic)
        self.topic_ids[topic] = (
            (await self.story.create_topic(topic)) if known is None else known.topic_id
        )
        await self.call(
            lambda done: self.persister.initialize(
                self.key(topic), state_epoch=1, start_offset=0, on_done=done
            )
        )

    @property
    def persister(self) -> Any:
        return self.story.broker.rooms.share_persister

    async def stored(self, topic: str = "a") -> ShareState:
        state: ShareState = await self.call(
            lambda done: self.persister.summarize(self.key(topic), leader_epoch=-1, on_done=done)
        )
        return state

    async def call(self, ask: Callable[[Callable[[Any], None]], None]) -> Any:
        done = trio.Event()
        told: list[Any] = []

        def on_done(what: Any) -> None:
            told.append(what)
            done.set()

        ask(on_done)
        await done.wait()
        assert not isinstance(told[0], KafkaError), told
        return told[0]

    async def configure_group(self, name: str, value: str) -> None:
        resource = AlterConfigsResource(
            resource_type=ResourceType.GROUP,
            resource_name=GROUP,
            configs=[AlterableConfig(name=name, config_operation=0, value=value)],
        )
        response = await self.story.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert response.responses[0].error_code == 0, response

    async def records(self, topic: str) -> list[Record]:
        found = await self.story.fetch(topic, 0)
        records: Any = found.records
        content = bytes(records or b"")
        return [
            record
            for position, _ in iterate_headers(content)
            for record in iterate_records(content, position)
        ]


def tell(main: Callable[[SharingStory], Any], **properties: str) -> None:
    async def whole(world: World) -> None:
        async with running(world, **PROPERTIES, **properties) as story:
            await main(SharingStory(story))

    sim_run(1, whole)


def test_what_is_acknowledged_outlives_the_node() -> None:
    async def main(world: World) -> None:
        async with running(world, **PROPERTIES) as story:
            node = SharingStory(story)
            await node.share()
            for value in (b"one", b"two", b"three"):
                await story.produce("a", batch(value))
            member = node.member()
            assert (await member.fetch(max_wait_ms=30_000)).acquired == [(0, 2, 1)]
            assert await member.acknowledge((0, 2, [ACCEPT, RELEASE, ACCEPT])) == 0
            other = node.member()
            assert (await other.fetch(max_wait_ms=1_000)).acquired == [(1, 1, 2)]
        async with running(world, **PROPERTIES) as story:
            node = SharingStory(story)
            node.topic_ids["a"] = node.image.topics.by_name["a"].topic_id
            member = node.member()
            assert [
                (first, last)
                for first, last, _ in (await member.fetch(max_wait_ms=30_000)).acquired
            ] == [(1, 1)]
            assert await member.acknowledge((1, 1, [ACCEPT])) == 0
            assert not (await member.fetch(max_wait_ms=100)).acquired

    sim_run(1, main)


def test_a_closed_connection_releases_at_once() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.produce("a", batch(b"one"))
        gone, other = node.member(), node.member()
        assert (await gone.fetch(max_wait_ms=30_000)).acquired == [(0, 0, 1)]
        began = trio.current_time()
        node.vanish(gone)
        assert (await other.fetch(max_wait_ms=10_000)).acquired == [(0, 0, 2)]
        assert trio.current_time() - began < 5

    tell(main)


def test_a_dead_letter_is_the_record_and_says_where_it_was_and_why() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.configure_group(DEAD_LETTER_TOPIC, "dead")
        await node.story.produce("a", batch(b"one", b"two", key=b"k"))
        member = node.member()
        await member.fetch(max_wait_ms=30_000)
        assert await member.acknowledge((0, 1, [ACCEPT, REJECT])) == 0
        (letter,) = await node.records("dead")
        assert (letter.key, letter.value) == (b"k", b"two")
        headers = dict(letter.headers)
        assert headers["__dlq.errors.topic"] == b"a"
        assert headers["__dlq.errors.partition"] == b"0"
        assert headers["__dlq.errors.offset"] == b"1"
        assert headers["__dlq.errors.group"] == GROUP.encode()
        assert headers["__dlq.errors.delivery.count"] == b"1"
        assert headers["__dlq.errors.message"] == b"a member rejected it"
        assert (await node.stored()).start_offset in {0, 2}

    tell(main)


def test_a_record_in_the_middle_of_a_batch_has_its_letter() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.configure_group(DEAD_LETTER_TOPIC, "dead")
        await node.story.produce("a", batch(b"one", b"two", b"three", b"four"))
        member = node.member()
        await member.fetch(max_wait_ms=30_000)
        assert await member.acknowledge((0, 3, [REJECT, ACCEPT, REJECT, ACCEPT])) == 0
        assert [letter.value for letter in await node.records("dead")] == [b"one", b"three"]

    tell(main)


def test_what_share_groups_do_is_counted() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.produce("a", batch(b"one", b"two"))
        member = node.member()
        await member.fetch(max_wait_ms=30_000)
        assert await member.acknowledge((0, 0, [ACCEPT])) == 0
        told = told_of(node)
        where = f'group="{GROUP}",topic="a",partition="0"'
        assert told["kafka_server_sharesessioncache_sharesessionscount", ""] == 1
        assert (
            told["kafka_server_sharegroupmetrics_recordacknowledgements_total", 'ackType="Accept"']
            == 1
        )
        assert told["kafka_server_sharepartitionmetrics_inflightmessagecount", where] in {1, 2}
        assert told["kafka_server_sharepartitionmetrics_inflightbatchcount", where] == 1
        node.vanish(member)
        await trio.sleep(1)
        assert told_of(node)["kafka_server_sharesessioncache_sharesessionevictions_total", ""] == 1

    tell(main)


def told_of(node: SharingStory) -> dict[tuple[str, str], float]:
    rooms = node.story.broker.rooms
    sources: Any = SimpleNamespace(
        node=rooms, rates=Rates(0), now_ms=lambda: int(trio.current_time() * 1_000)
    )
    return {
        (family.name + suffix, name): value
        for family in share_families(sources)
        for suffix, name, value in family.samples
    }


def test_fetches_of_a_group_are_counted_with_what_they_found() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.produce("a", batch(b"one", b"two"))
        first, second = node.member(), node.member()
        await first.fetch(max_wait_ms=30_000)
        await second.fetch(max_wait_ms=500)
        told, group = told_of(node), f'group="{GROUP}"'
        assert (
            told["kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio_count", group]
            == 2
        )
        assert (
            told["kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio_sum", group]
            == 200
        )
        assert told["kafka_server_delayedsharefetchmetrics_expires_total", ""] == 1

    tell(main)


def test_a_fetch_that_may_acquire_from_no_partition_is_counted_with_its_wait() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.configure_group("share.partition.max.record.locks", "100")
        await node.story.produce("a", batch(*[b"record"] * 100))
        first, second = node.member(), node.member()
        await first.fetch(max_wait_ms=30_000)
        ratio = (
            "kafka_server_sharegroupmetrics_requesttopicpartitionsfetchratio_sum",
            f'group="{GROUP}"',
        )
        waited = (
            "kafka_server_sharegroupmetrics_topicpartitionsacquiretimems_sum",
            f'group="{GROUP}"',
        )
        before = told_of(node)
        await second.fetch(max_wait_ms=500)
        after = told_of(node)
        assert after[ratio] == before[ratio]
        assert after[waited] - before[waited] == 500

    tell(main)


def test_locks_that_expire_are_counted_for_their_share_partition() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.produce("a", batch(b"one", b"two"))
        await node.member().fetch(max_wait_ms=30_000)
        await trio.sleep(61)
        told, name = (
            told_of(node),
            "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total",
        )
        assert told[name, f'group="{GROUP}",topic="a",partition="0"'] == 2
        assert told[name, ""] == 2

    tell(main)


def test_batches_in_flight_are_counted_with_their_records_when_they_come_and_when_they_are_loaded() -> (
    None
):
    """KIP-1103: InFlightBatchMessageCount. A second delivery is no new batch."""

    async def main(world: World) -> None:
        where = f'group="{GROUP}",topic="a",partition="0"'
        count, records = (
            ("kafka_server_sharepartitionmetrics_inflightbatchmessagecount" + suffix, where)
            for suffix in ("_count", "_sum")
        )
        async with running(world, **PROPERTIES) as story:
            node = SharingStory(story)
            await node.share()
            await story.produce("a", batch(b"one", b"two", b"three"))
            member = node.member()
            await member.fetch(max_wait_ms=30_000)
            await story.produce("a", batch(b"four"))
            assert await member.acknowledge((0, 2, [ACCEPT, RELEASE, ACCEPT])) == 0
            await member.fetch(max_wait_ms=30_000)
            told = told_of(node)
            assert (told[count], told[records]) == (2, 4)
            assert await member.acknowledge((1, 1, [RELEASE])) == 0
        async with running(world, **PROPERTIES) as story:
            node = SharingStory(story)
            node.topic_ids["a"] = node.image.topics.by_name["a"].topic_id
            assert (await node.member().fetch(max_wait_ms=500)).acquired
            told = told_of(node)
            # What is stored of 1 and of 2, and record 3, which nothing is stored of.
            assert (told[count], told[records]) == (
                3,
                3,
            )

    sim_run(1, main)


def test_the_time_is_counted_for_which_a_fetch_has_a_share_partition_to_itself() -> None:
    """KIP-1103: FetchLockTimeMs and FetchLockRatio. A fetch that finds nothing to acquire from
    takes no time of a partition.
    """

    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.produce("a", batch(b"one"))
        await node.member().fetch(max_wait_ms=30_000)
        await node.member().fetch(max_wait_ms=0)
        told, where = told_of(node), f'group="{GROUP}",topic="a",partition="0"'
        for name in ("fetchlocktimems", "fetchlockratio"):
            assert told[f"kafka_server_sharepartitionmetrics_{name}_count", where] == 2

    tell(main)


def test_requests_of_share_groups_are_counted_by_topic() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.produce("a", batch(b"one", b"two"))
        member = node.member()
        await member.fetch(max_wait_ms=30_000)
        assert await member.acknowledge((0, 0, [ACCEPT])) == 0
        assert await member.acknowledge((1, 1, [ACCEPT])) == 0
        assert await member.acknowledge((7, 7, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        traffic = Traffic()
        traffic.add(node.story.broker.rooms.replicas.get_partition("a", 0))
        told = {
            family.name: list(family.samples)
            for family in topic_families({"a": traffic, "b": Traffic()}, traffic)
        }
        counts = {
            "totalsharefetch": 1,
            "failedsharefetch": 0,
            "totalshareacknowledgement": 3,
            "failedshareacknowledgement": 1,
        }
        for name, count in counts.items():
            assert told[f"kafka_server_brokertopicmetrics_{name}requests_total"] == [
                ("", "", count),
                ("", 'topic="a"', count),
            ]

    tell(main)


def test_writes_of_states_are_counted_and_timed() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.produce("a", batch(b"one"))
        member = node.member()
        await member.fetch(max_wait_ms=30_000)
        before = told_of(node)
        assert await member.acknowledge((0, 0, [ACCEPT])) == 0
        after, prefix = told_of(node), "kafka_server_share_coordinator_metrics_"
        assert after[f"{prefix}write_total", ""] - before[f"{prefix}write_total", ""] == 1
        assert (
            after[f"{prefix}last_pruned_offset", 'topic="__share_group_state",partition="0"'] == 0
        )

    tell(main)


def test_a_letter_that_is_too_large_for_its_topic_says_so() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.create_topic("dead", max_message_bytes="1000")
        await node.configure_group(DEAD_LETTER_TOPIC, "dead")
        await node.story.produce("a", batch(b"x" * 900, b"small"))
        member = node.member()
        await member.fetch(max_wait_ms=30_000)
        assert await member.acknowledge((0, 1, [REJECT])) == 0
        letters = {
            dict(each.headers)["__dlq.errors.offset"]: each for each in await node.records("dead")
        }
        assert letters[b"0"].value is None
        assert b"too large" in (dict(letters[b"0"].headers)["__dlq.errors.omitted"] or b"")
        assert letters[b"1"].value == b"small"

    tell(main)


def test_without_their_topic_dead_letters_wait_and_nothing_is_given_up() -> None:
    async def main(node: SharingStory) -> None:
        await node.share()
        await node.configure_group(DEAD_LETTER_TOPIC, "dead")
        await node.story.produce("a", batch(b"one"))
        member = node.member()
        await member.fetch(max_wait_ms=30_000)
        assert await member.acknowledge((0, 0, [REJECT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await node.story.create_topic("dead")
        assert await member.acknowledge((0, 0, [REJECT])) == 0
        assert [each.value for each in await node.records("dead")] == [b"one"]

    tell(main, auto_create_topics_enable="false")


def test_a_letter_that_is_safe_is_not_written_again_while_another_cannot_be() -> None:
    """A topic that is compacted refuses letters without a key, each time that they are tried."""

    async def main(node: SharingStory) -> None:
        await node.share()
        await node.story.create_topic("dead", cleanup_policy="compact")
        await node.configure_group(DEAD_LETTER_TOPIC, "dead")
        for value, key in ((b"one", b"k"), (b"two", b"k"), (b"three", None)):
            await node.story.produce("a", batch(value, key=key))
        member = node.member()
        acquired = (await member.fetch(max_wait_ms=30_000)).acquired
        while max(last for _, last, _ in acquired) < 2:
            acquired = (await member.fetch(max_wait_ms=30_000)).acquired
        assert await member.acknowledge((1, 1, [ACCEPT])) == 0
        for _ in range(3):
            assert (
                await member.acknowledge((0, 0, [REJECT]), (2, 2, [REJECT]))
                == ErrorCode.INVALID_RECORD
            )
        assert [each.value for each in await node.records("dead")] == [b"one"]
        assert (await node.stored()).start_offset == 0
        assert await member.acknowledge((0, 0, [REJECT])) == 0
        assert [each.value for each in await node.records("dead")] == [b"one"]

    tell(main)


@pytest.mark.parametrize("seed", range(6))
def test_a_node_that_is_killed_loses_no_record_of_a_group_with_dead_letters(seed: int) -> None:
    """A crash at any moment loses no record.

    Each record was accepted, has its letter, or is delivered again. A letter may be there
    twice.
    """

    async def main(world: World) -> None:
        values = [b"%d" % number for number in range(12)]
        accepted: set[bytes | None] = set()
        rng = world.rng
        is_prepared = False
        for _ in range(4):
            async with trio.open_nursery() as nursery, running(world, **PROPERTIES) as story:
                node = SharingStory(story)
                if not is_prepared:
                    await node.share()
                    await node.configure_group(DEAD_LETTER_TOPIC, "dead")
                    for value in values:
                        await story.produce("a", batch(value))
                    is_prepared = True
                node.topic_ids["a"] = node.image.topics.by_name["a"].topic_id
                nursery.start_soon(_work_until_killed, node, accepted, rng)
                await trio.sleep(rng.uniform(0.5, 4))
                nursery.cancel_scope.cancel()
        async with running(world, **PROPERTIES) as story:
            node = SharingStory(story)
            node.topic_ids["a"] = node.image.topics.by_name["a"].topic_id
            member = node.member()
            left: set[bytes | None] = set()
            for _ in range(8):
                got = await member.fetch(max_wait_ms=2_000)
                for first, last, _ in got.acquired:
                    left |= set(values[first : last + 1])
                    assert await member.acknowledge((first, last, [ACCEPT])) == 0
            letters = (
                {each.value for each in await node.records("dead")}
                if "dead" in node.image.topics.by_name
                else set()
            )
            assert accepted | letters | left == set(values)
            assert not accepted & left

    sim_run(seed, main)


async def _work_until_killed(node: SharingStory, accepted: set[bytes | None], rng: Any) -> None:
    member = node.member()
    try:
        while True:
            got = await member.fetch(max_wait_ms=1_000, max_records=2)
            for first, last, _ in got.acquired:
                for offset in range(first, last + 1):
                    kind = rng.choice([ACCEPT, REJECT, RELEASE])
                    if await member.acknowledge((offset, offset, [kind])) == 0 and kind is ACCEPT:
                        accepted.add(b"%d" % offset)
    except (EOFError, OSError):
        return


def test_refused_partitions_and_acknowledgements_leave_no_garbage() -> None:
    async def story(node: SharingStory) -> None:
        await node.share()
        node.topic_ids["gone"] = UUID(int=77)
        member = node.member()
        await member.send(("a", "gone"))
        with counted_garbage() as left:
            for _ in range(20):
                other = node.member()
                await other.send(("gone",))
                node.vanish(other)
                await member.send(acks={("a", 0): [(5, 2, [ACCEPT])]})
        assert {name: count for name, count in left.items() if count >= 20} == {}

    tell(story)
