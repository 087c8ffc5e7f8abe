"""A reader of the topic against a leader whose log is cut, refused and full of holes, in virtual
time.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.http.schema_registry.log.errors import ReadTimedOut
from log_service.http.schema_registry.log.reader import LogRecord, SchemasReader
from log_service.protocol.messages.fetch import PartitionData
from log_service.records.builder import build_batch
from tests.sim.world import World, sim_run
from tests.unit.client.scripted_broker import ScriptedBroker
from tests.unit.client.scripted_leader import Leader

TIMEOUT_MS = 60_000


class Seen:
    """A listener that keeps the values since each beginning."""

    def __init__(self) -> None:
        self.begun: list[list[bytes | None]] = []
        self.is_begun_again = trio.Event()

    def begin_anew(self) -> None:
        self.begun.append([])
        if len(self.begun) > 1:
            self.is_begun_again.set()

    def apply(self, record: LogRecord) -> None:
        self.begun[-1].append(record.value)

    async def settled(self) -> None:
        """Take more records at once."""


Story = Callable[[Leader, SchemasReader, Seen], Awaitable[None]]


def tell(story: Story) -> None:
    """Run a story of one reader."""

    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        leader, seen = Leader(broker), Seen()
        reader = SchemasReader("broker:9092", "t", seen, world.client_env(), {})
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            nursery.start_soon(reader.run)
            with trio.fail_after(1_000):
                await story(leader, reader, seen)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


def test_records_come_once_and_in_order() -> None:
    """The position is behind the last one."""

    async def story(leader: Leader, reader: SchemasReader, seen: Seen) -> None:
        leader.records(0, [b"a", b"b"])
        leader.records(2, [b"c"])
        await reader.read_to(2, TIMEOUT_MS)
        assert seen.begun == [[b"a", b"b", b"c"]]
        assert reader.position == 3

    tell(story)


def test_offsets_without_records_are_passed() -> None:
    """The end of the log may be a marker, or a hole that compaction left."""

    async def story(leader: Leader, reader: SchemasReader, seen: Seen) -> None:
        leader.records(0, [b"a"])
        await reader.read_to(0, TIMEOUT_MS)
        marker = build_batch(
            [(0, b"\0\0\0\0", b"\0\0\0\0\0\0")],
            base_offset=5,
            is_control=True,
            is_transactional=True,
            producer_id=1,
        )
        leader.scripts[0].append(PartitionData(records=marker, high_watermark=6))
        await reader.read_to(5, TIMEOUT_MS)
        assert (seen.begun, reader.position) == ([[b"a"]], 6)

    tell(story)


def test_an_offset_that_does_not_come_is_told() -> None:
    """The text names the position."""

    async def story(leader: Leader, reader: SchemasReader, seen: Seen) -> None:
        leader.records(0, [b"a"])
        with pytest.raises(ReadTimedOut, match="read to offset 1 "):
            await reader.read_to(1, TIMEOUT_MS)

    tell(story)


@pytest.mark.parametrize("is_truncated", [True, False], ids=["truncated", "deleted records"])
def test_a_log_without_records_that_were_read_is_read_anew(
    is_truncated: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Records that others will never see may not stay in the state."""

    async def story(leader: Leader, reader: SchemasReader, seen: Seen) -> None:
        leader.records(0, [b"a", b"lost"])
        await reader.read_to(1, TIMEOUT_MS)
        if is_truncated:
            leader.truncation(1)
        else:
            leader.error(ErrorCode.OFFSET_OUT_OF_RANGE)
        await seen.is_begun_again.wait()
        # A fetch of the old position may be under way, and would take the records below.
        await trio.sleep(1)
        leader.records(0, [b"a", b"b", b"c"])
        await reader.read_to(2, TIMEOUT_MS)
        assert seen.begun == [[b"a", b"lost"], [b"a", b"b", b"c"]]

    tell(story)
    (error,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "read anew" in error.getMessage()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_other_errors_keep_the_state(code: ErrorCode) -> None:
    """Reading goes on where it stood, once the cause has passed."""

    async def story(leader: Leader, reader: SchemasReader, seen: Seen) -> None:
        leader.records(0, [b"a"])
        for _ in range(3):
            leader.error(code)
        leader.records(1, [b"b"])
        await reader.read_to(1, TIMEOUT_MS)
        assert seen.begun == [[b"a", b"b"]]

    tell(story)
