"""Keys about logs take effect wherever they are set.

They stand in the file, for all brokers while they run, for one broker, or for a topic.

Each effect is written once, and observed in what clients are answered and in the files of the
partition.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from log_service.broker.one_error import one_error
from log_service.config.topic_keys import TOPIC_KEYS
from tests.sim import World, sim_run
from tests.unit.broker.context import DATA, Story, batch, running
from tests.unit.broker.effects_on_logs import (
    BROKER,
    EFFECTS,
    EFFECTS_OF_UNITS,
    QUICK_UPKEEP,
    Effect,
    log_of,
    now_ms,
    produce,
    segment_files,
    segments_roll_at_different_ages,
    set_dynamically,
)

EPOCH_MS = 1_700_000_000_000


async def records_of_any_age_stay(node: Story) -> None:
    assert await produce(node, timestamp_ms=now_ms(node) - 30 * 24 * 3_600_000) == 0
    await trio.sleep(3)
    assert log_of(node).log_start_offset == 0


FROM_THE_NEXT_SEGMENT_ON = {"index.interval.bytes", "segment.index.bytes"}
"""These act on a partition when it begins a segment, as in Kafka."""


def tell(effect: Effect, story: Callable[[Story], Awaitable[None]], **properties: str) -> None:
    async def main(world: World) -> None:
        async with running(world, **{**effect.beside, **properties}) as node:
            await story(node)
            await effect.seen(node)

    with one_error():
        sim_run(1, main)


@pytest.mark.parametrize("key", EFFECTS)
def test_where_nothing_is_set_the_effect_is_not_seen(key: str) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", EFFECTS[key].partition_count)

    with pytest.raises(AssertionError):
        tell(EFFECTS[key], story)


@pytest.mark.parametrize("key", EFFECTS)
def test_set_in_the_file(key: str) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", EFFECTS[key].partition_count)

    tell(EFFECTS[key], story, **{TOPIC_KEYS[key].synonyms[0]: EFFECTS[key].value})


@pytest.mark.parametrize("key", sorted(EFFECTS.keys() - FROM_THE_NEXT_SEGMENT_ON))
@pytest.mark.parametrize("broker", ["", "1"])
def test_set_for_brokers_while_they_run(key: str, broker: str) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", EFFECTS[key].partition_count)
        await set_dynamically(node, BROKER, broker, TOPIC_KEYS[key].synonyms[0], EFFECTS[key].value)

    tell(EFFECTS[key], story)


@pytest.mark.parametrize("key", sorted(FROM_THE_NEXT_SEGMENT_ON))
def test_indexes_follow_a_change_from_the_next_segment_on(key: str) -> None:
    async def story(node: Story) -> None:
        await set_dynamically(node, BROKER, "", TOPIC_KEYS[key].synonyms[0], EFFECTS[key].value)
        await node.create_topic("a")

    tell(EFFECTS[key], story)


@pytest.mark.parametrize("key", EFFECTS)
def test_set_for_a_topic(key: str) -> None:
    async def story(node: Story) -> None:
        await node.create_topic(
            "a", EFFECTS[key].partition_count, **{key.replace(".", "_"): EFFECTS[key].value}
        )

    tell(EFFECTS[key], story)


@pytest.mark.parametrize("key", EFFECTS_OF_UNITS)
def test_coarser_units_in_the_file(key: str) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")

    tell(EFFECTS_OF_UNITS[key], story, **{key: EFFECTS_OF_UNITS[key].value})


def test_the_finer_unit_wins_and_a_topic_over_all() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")

    kept = Effect("-1", records_of_any_age_stay, QUICK_UPKEEP)
    tell(
        kept,
        story,
        **{"log.retention.ms": "-1", "log.retention.minutes": "1", "log.retention.hours": "1"},
    )
    tell(kept, story, **{"log.retention.minutes": "-1", "log.retention.hours": "1"})
    with pytest.raises(AssertionError):
        tell(kept, story, **{"log.retention.minutes": "1", "log.retention.hours": "-1"})

    async def of_topic(node: Story) -> None:
        await node.create_topic("a", retention_ms="-1")

    tell(kept, of_topic, **{"log.retention.ms": "1000"})


@pytest.mark.parametrize(("hours", "count"), [("1", 2), ("3", 1)])
def test_hours_of_rolling(hours: str, count: int) -> None:
    async def roll(node: Story) -> None:
        for late_ms in (-7_200_000, 0):
            assert await produce(node, timestamp_ms=now_ms(node) + late_ms) == 0
        assert len(segment_files(node)) == count

    async def story(node: Story) -> None:
        await node.create_topic("a")

    tell(Effect(hours, roll), story, **{"log.roll.hours": hours})


def test_hours_of_jitter() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 12)

    tell(Effect("168", segments_roll_at_different_ages), story, **{"log.roll.jitter.hours": "168"})


@pytest.mark.parametrize(
    ("codec", "key", "fast", "small"),
    [
        ("gzip", "compression.gzip.level", "1", "9"),
        ("lz4", "compression.lz4.level", "1", "12"),
        ("zstd", "compression.zstd.level", "-100", "19"),
    ],
)
def test_levels_of_compression_act_in_the_file_and_live(
    codec: str, key: str, fast: str, small: str
) -> None:
    text = " ".join(
        f"flight {number * 7_919 % 10_007} of the day" for number in range(4_000)
    ).encode()

    async def main(world: World) -> None:
        async with running(world, **{"compression.type": codec, key: fast}) as node:
            await node.create_topic("a")
            sizes = []
            for value in (fast, small):
                await set_dynamically(node, BROKER, "", key, value)
                before = log_of(node).size_bytes
                assert (await node.produce("a", batch(text, timestamp_ms=EPOCH_MS))).error_code == 0
                sizes.append(log_of(node).size_bytes - before)
            assert sizes[1] < sizes[0]

    sim_run(1, main)


@pytest.mark.parametrize(
    ("codec", "key", "fast", "small"),
    [
        ("gzip", "compression_gzip_level", "1", "9"),
        ("lz4", "compression_lz4_level", "1", "12"),
        ("zstd", "compression_zstd_level", "-100", "19"),
    ],
)
def test_levels_of_compression_are_a_topics_own(
    codec: str, key: str, fast: str, small: str
) -> None:
    text = " ".join(
        f"flight {number * 7_919 % 10_007} of the day" for number in range(4_000)
    ).encode()

    async def main(world: World) -> None:
        async with running(world, **{"compression.type": codec}) as node:
            for topic, level in (("fast", fast), ("small", small)):
                await node.create_topic(topic, 1, **{key: level})
                assert (
                    await node.produce(topic, batch(text, timestamp_ms=EPOCH_MS))
                ).error_code == 0
            assert log_of(node, topic="small").size_bytes < log_of(node, topic="fast").size_bytes

    sim_run(1, main)


def test_the_upkeep_begins_after_its_delay_and_comes_in_its_intervals() -> None:
    """log.initial.task.delay.ms, log.retention.check.interval.ms."""

    async def main(world: World) -> None:
        properties = {
            "log.initial.task.delay.ms": "20000",
            "log.retention.check.interval.ms": "10000",
            "log.retention.ms": "1000",
        }
        async with running(world, **properties) as node:
            await node.create_topic("a")
            assert await produce(node, timestamp_ms=now_ms(node) - 60_000) == 0
            await trio.sleep(29)
            assert log_of(node).log_start_offset == 0
            await trio.sleep(2)
            assert log_of(node).log_start_offset == 1

    sim_run(1, main)


@pytest.mark.parametrize(
    ("key", "file", "said"),
    [
        ("log.flush.offset.checkpoint.interval.ms", "recovery-point-offset-checkpoint", "a 0 1"),
        ("log.flush.start.offset.checkpoint.interval.ms", "log-start-offset-checkpoint", "a 0 1"),
        ("replica.high.watermark.checkpoint.interval.ms", "replication-offset-checkpoint", "a 0 1"),
    ],
)
def test_checkpoints_are_written_in_their_intervals(key: str, file: str, said: str) -> None:
    async def main(world: World) -> None:
        async with running(
            world,
            **{"log.initial.task.delay.ms": "0", "log.flush.interval.messages": "1", key: "3000"},
        ) as node:
            await node.create_topic("a")
            assert await produce(node) == 0
            log_of(node).advance_log_start_offset(1)
            path = Path(DATA / file)
            files = node.broker.env.files
            assert not files.exists(path) or said not in files.read_bytes(path).decode()
            await trio.sleep(4)
            assert said in files.read_bytes(path).decode()

    sim_run(1, main)
