"""The metadata log of one node: what is committed survives, what is not committed is never handed
out.
"""

import errno
from contextlib import suppress
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.config.views import MetadataLogConfig
from log_service.protocol.stored.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from log_service.protocol.stored.metadata_records import ConfigRecord, MetadataRecord
from log_service.raft.log_view import SnapshotId
from log_service.raft.quorum_store import read_quorum_state
from log_service.raft.snapshots import list_snapshots
from log_service.storage.log_directory import is_full_disk
from log_service.storage.meta_properties import MetaProperties, write_meta_properties
from tests.unit.raft.node import DIRECTORY, METADATA, Machine, commit, until_committed


def config(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=value)


def run(main: object) -> None:
    trio.run(main, clock=MockClock(autojump_threshold=0))  # type: ignore[arg-type]


def formatted(settings: MetadataLogConfig | None = None) -> Machine:
    machine = Machine(settings)
    machine.format()
    return machine


def test_the_first_start_opens_epoch_one_with_leader_version_and_voters() -> None:
    async def main() -> None:
        async with formatted().started() as (raft, replayed):
            (batch,) = replayed.batches
            leader, version, voters = batch.control
            assert isinstance(leader, LeaderChangeMessage)
            assert isinstance(version, KRaftVersionRecord)
            assert isinstance(voters, VotersRecord)
            assert (leader.leader_id, [voter.voter_id for voter in leader.voters]) == (1, [1])
            assert (raft.epoch, raft.high_watermark, raft.log_end_offset) == (1, 3, 3)

    run(main)


def test_every_start_has_an_epoch_of_its_own_and_says_so_in_the_log() -> None:
    async def main() -> None:
        machine = formatted()
        for epoch in (1, 2, 3):
            async with machine.started() as (raft, replayed):
                assert raft.epoch == epoch
                assert replayed.batches[-1].epoch == epoch
                assert isinstance(replayed.batches[-1].control[0], LeaderChangeMessage)
                state = read_quorum_state(machine.files, METADATA)
                assert state is not None
                assert state.leader_epoch == epoch

    run(main)


def test_an_epoch_that_crashed_before_its_first_record_is_not_used_again() -> None:
    async def main() -> None:
        machine = formatted()
        machine.files.fail_next("append", containing=".log")
        with pytest.raises(StorageError):
            async with machine.started():
                pass
        machine.files.crash()
        async with machine.started() as (raft, _):
            assert raft.epoch == 2

    run(main)


def test_appended_records_are_handed_out_once_they_are_durable() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, replayed):
            machine.files.sync_seconds = (5.0, 5.0)
            started_s = trio.current_time()
            end_offset = raft.append([config("1"), config("2")])
            assert raft.high_watermark == 3
            assert replayed.records == []
            await until_committed(raft, end_offset)
            assert trio.current_time() - started_s >= 5
            assert replayed.records == [config("1"), config("2")]
            assert (end_offset, raft.epoch, raft.high_watermark) == (5, 1, 5)

    run(main)


def test_appends_that_wait_share_one_sync() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, replayed):
            raft.append([config("first")])
            machine.files.sync_seconds = (1.0, 1.0)
            await wait_all_tasks_blocked()
            for value in range(50):
                raft.append([config(str(value))])
            before = machine.files.sync_count
            await until_committed(raft, raft.log_end_offset)
            assert machine.files.sync_count - before <= 4
            assert [
                record.value for record in replayed.records if isinstance(record, ConfigRecord)
            ][-50:] == [str(n) for n in range(50)]

    run(main)


def test_listeners_hear_when_leadership_ends() -> None:
    async def main() -> None:
        async with formatted().started() as (raft, replayed):
            await raft.close()
            assert replayed.leaders == [(-1, 1), (1, 1), (-1, 1)]

    run(main)


def test_a_node_that_does_not_lead_appends_nothing() -> None:
    async def main() -> None:
        async with formatted().started() as (raft, _):
            await raft.close()
            with pytest.raises(KafkaError) as raised:
                raft.append([config("1")])
            assert raised.value.code is ErrorCode.NOT_CONTROLLER

    run(main)


def test_what_was_committed_survives_any_crash() -> None:
    async def main() -> None:
        machine = formatted()
        committed: list[MetadataRecord] = []
        for start in range(8):
            async with machine.started() as (raft, replayed):
                assert replayed.records[: len(committed)] == committed
                committed = list(replayed.records)
                for step in range(start):
                    records = [config(f"{start}.{step}")]
                    await commit(raft, *records)
                    committed += records
                machine.files.sync_seconds = (9.0, 9.0)
                raft.append([config("no caller was told")])
            machine.files.sync_seconds = (0.0, 0.0)
            machine.files.crash()

    run(main)


def test_a_disk_that_is_full_is_told_from_one_that_failed() -> None:
    async def main() -> None:
        machine = formatted()
        with pytest.RaisesGroup(pytest.RaisesExc(StorageError, check=is_full_disk)):
            async with machine.started() as (raft, _):
                machine.files.fail_next("sync", error=errno.ENOSPC)
                raft.append([config("1")])
                await trio.sleep_forever()

    run(main)


def test_a_failed_sync_is_final() -> None:
    async def main() -> None:
        machine = formatted()
        with pytest.RaisesGroup(StorageError):
            async with machine.started() as (raft, replayed):
                machine.files.fail_next("sync")
                raft.append([config("1")])
                await trio.sleep_forever()
        assert replayed.records == []
        with pytest.raises(KafkaError) as raised:
            raft.append([config("2")])
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    run(main)


def test_a_failed_append_is_final() -> None:
    async def main() -> None:
        machine = formatted()
        with pytest.RaisesGroup(StorageError):
            async with machine.started() as (raft, _):
                await commit(raft, config("0"))
                machine.files.fail_next("append")
                with pytest.raises(KafkaError) as raised:
                    raft.append([config("1")])
                assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
                await trio.sleep_forever()

    run(main)


def test_a_full_disk_costs_the_append_and_nothing_else() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, replayed):
            machine.files.fail_next("append", error=errno.ENOSPC)
            with pytest.raises(KafkaError, match="make room"):
                raft.append([config("1")])
            await commit(raft, config("2"))
            assert replayed.records == [config("2")]

    run(main)


def test_a_decision_that_does_not_fit_into_one_batch_is_refused_whole() -> None:
    async def main() -> None:
        async with formatted(MetadataLogConfig(max_batch_bytes=2_000)).started() as (raft, _):
            with pytest.raises(KafkaError, match="ask for less at once") as raised:
                raft.append([config("x" * 100) for _ in range(20)])
            assert raised.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
            assert raft.log_end_offset == 3

    run(main)


def test_a_closed_log_opens_where_it_ended() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, _):
            raft.append([config("1")])
            await raft.close()
        async with machine.started() as (raft, replayed):
            assert replayed.records == [config("1")]
            assert raft.high_watermark == 5

    run(main)


def test_damage_below_what_was_synced_is_refused_and_left_alone() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, _):
            for value in range(5):
                await commit(raft, config(str(value)))
            await raft.close()
        segment = machine.files.open(METADATA / "00000000000000000000.log")
        segment.write_at(300, b"\xff\xff\xff")
        segment.close()
        with pytest.raises(StorageError, match="damaged below offset 8"):
            async with machine.started():
                pass

    run(main)


def test_a_snapshot_replaces_the_log_before_it() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, _):
            await commit(raft, config("1"))
            snapshot = await raft.write_snapshot([config("1")])
            assert snapshot == SnapshotId(4, 1)
            await commit(raft, config("2"))
        async with machine.started() as (raft, replayed):
            (loaded,) = replayed.snapshots
            assert (loaded.id, loaded.records) == (snapshot, (config("1"),))
            assert [voter.node_id for voter in loaded.voters] == [1]
            assert replayed.records == [config("2")]
            assert [voter.node_id for voter in raft.voters] == [1]

    run(main)


def test_two_snapshots_are_kept_and_the_log_begins_at_the_older() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, _):
            for value in range(4):
                await commit(raft, config(str(value)))
                await raft.write_snapshot([config(str(value))])
        assert list_snapshots(machine.files, METADATA) == [SnapshotId(6, 1), SnapshotId(7, 1)]
        logs = [name for name in machine.files.list_directory(METADATA) if name.endswith(".log")]
        assert logs[0] == "00000000000000000006.log"
        async with machine.started() as (raft, replayed):
            assert replayed.snapshots[0].records == (config("3"),)
            assert raft.high_watermark == 8

    run(main)


def test_a_snapshot_is_written_by_itself_when_the_log_has_grown() -> None:
    async def main() -> None:
        machine = formatted(MetadataLogConfig(max_record_bytes_between_snapshots=2_000))
        async with (
            machine.started(is_running=False) as (raft, replayed),
            trio.open_nursery() as nursery,
        ):
            await nursery.start(raft.run, lambda: list(replayed.records[-1:]))
            for value in range(30):
                await commit(raft, config(str(value)))
            nursery.cancel_scope.cancel()
        assert len(list_snapshots(machine.files, METADATA)) == 2
        async with machine.started() as (_, replayed):
            known = [*replayed.snapshots[0].records, *replayed.records]
            assert known[-1] == config("29")

    run(main)


def test_a_snapshot_waits_while_its_source_has_none_to_give() -> None:
    async def main() -> None:
        machine = formatted(MetadataLogConfig(max_record_bytes_between_snapshots=2_000))
        async with machine.started(is_running=False) as (raft, _), trio.open_nursery() as nursery:
            given: list[list[MetadataRecord] | None] = [None]
            await nursery.start(raft.run, lambda: given[0])
            for value in range(30):
                await commit(raft, config(str(value)))
            assert list_snapshots(machine.files, METADATA) == [SnapshotId(0, 0)]
            given[0] = [config("last")]
            await commit(raft, config("last"))
            await wait_all_tasks_blocked()
            assert list_snapshots(machine.files, METADATA)[-1] > SnapshotId(0, 0)
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize("place", [".checkpoint.tmp", ".log", "synced-offset-checkpoint"])
def test_a_full_disk_puts_a_snapshot_off(place: str) -> None:
    async def main() -> None:
        machine = formatted(MetadataLogConfig(max_record_bytes_between_snapshots=2_000))
        async with (
            machine.started(is_running=False) as (raft, replayed),
            trio.open_nursery() as nursery,
        ):
            await nursery.start(raft.run, lambda: list(replayed.records[-1:]))
            machine.files.fail_next("open", error=errno.ENOSPC, containing=place)
            for value in range(60):
                await commit(raft, config(str(value)))
            assert len(list_snapshots(machine.files, METADATA)) == 2
            assert not [
                name for name in machine.files.list_directory(METADATA) if name.endswith(".tmp")
            ]
            nursery.cancel_scope.cancel()
        async with machine.started() as (_, replayed):
            assert [*replayed.snapshots[0].records, *replayed.records][-1] == config("59")

    run(main)


def test_a_disk_that_fails_while_a_snapshot_is_written_is_final() -> None:
    async def main() -> None:
        machine = formatted(MetadataLogConfig(max_record_bytes_between_snapshots=2_000))
        with pytest.RaisesGroup(
            pytest.RaisesExc(StorageError, match="the snapshot of offset"), flatten_subgroups=True
        ):
            async with (
                machine.started(is_running=False) as (raft, replayed),
                trio.open_nursery() as nursery,
            ):
                await nursery.start(raft.run, lambda: list(replayed.records[-1:]))
                machine.files.fail_next("open", containing=".checkpoint.tmp")
                for value in range(60):
                    await commit(raft, config(str(value)))
                nursery.cancel_scope.cancel()

    run(main)


def test_what_a_crash_left_of_a_snapshot_goes_with_the_next_one() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, _):
            unfinished = METADATA / "00000000000000000002-0000000001.checkpoint.tmp"
            machine.files.write_atomically(unfinished, b"half")
            await commit(raft, config("1"))
            await raft.write_snapshot([config("1")])
            assert not machine.files.exists(unfinished)

    run(main)


def test_a_torn_snapshot_is_refused_by_name() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, _):
            await raft.write_snapshot([config("1")])
        path = METADATA / SnapshotId(3, 1).file_name
        machine.files.write_atomically(path, machine.files.read_bytes(path)[:-75])
        with pytest.raises(StorageError, match=r"0001\.checkpoint is not a whole snapshot"):
            async with machine.started():
                pass

    run(main)


def test_a_listener_must_not_come_late() -> None:
    async def main() -> None:
        async with formatted().started() as (raft, replayed):
            with pytest.raises(AssertionError):
                raft.subscribe(replayed)

    run(main)


def test_a_directory_without_voters_can_still_be_led() -> None:
    async def main() -> None:
        machine = Machine()
        machine.files.make_directory(DIRECTORY)
        async with machine.started() as (raft, _):
            await commit(raft, config("1"))
            assert (raft.voters, raft.high_watermark) == ((), 2)

    run(main)


def test_a_directory_that_is_no_voters_is_refused_and_says_so() -> None:
    async def main() -> None:
        machine = formatted()
        other = MetaProperties(cluster_id="c", node_id=1, directory_id=UUID(int=77))
        write_meta_properties(machine.files, DIRECTORY, other)
        with pytest.raises(StorageError, match="is not the only voter of its metadata log"):
            async with machine.started():
                pass

    run(main)


def test_an_idle_quorum_of_one_is_never_woken() -> None:
    async def main() -> None:
        machine = formatted()
        async with machine.started() as (raft, _):
            await commit(raft, config("1"))
            await wait_all_tasks_blocked()
            assert raft.deadline_ms is None

    run(main)


def test_a_directory_apart_from_the_logs_is_locked() -> None:
    async def main() -> None:
        machine = formatted(MetadataLogConfig(is_directory_apart=True))
        async with machine.started() as (raft, _):
            with pytest.raises(StorageError, match="in use by another process"):
                async with machine.started():
                    pass
            await raft.close()
        async with machine.started() as (raft, _):
            assert raft.epoch == 2

    run(main)


@pytest.mark.parametrize(
    "operation", ["append", "sync", "rename", "sync_directory", "open", "truncate"]
)
def test_a_crash_at_any_write_keeps_all_that_was_committed(operation: str) -> None:
    async def main() -> None:
        for passed_count in range(0, 60, 3):
            machine = formatted()
            machine.files.fail_at(operation, passed_count)
            committed: list[MetadataRecord] = []
            epochs: list[int] = []
            with suppress(StorageError, KafkaError, BaseExceptionGroup):
                await work(machine, committed, epochs)
            machine.files.later = None
            machine.files.crash()
            async with machine.started() as (raft, replayed):
                snapshot = replayed.snapshots[-1].records if replayed.snapshots else ()
                found = [*snapshot, *replayed.records]
                assert found[: len(committed)] == committed, f"{operation} {passed_count}"
                assert len(found) <= len(committed) + 1
                assert raft.epoch > max(epochs, default=0)

    run(main)


async def work(machine: Machine, committed: list[MetadataRecord], epochs: list[int]) -> None:
    """Start three times, write, take a snapshot now and then; note what was committed."""
    for start in range(3):
        async with machine.started() as (raft, _):
            epochs.append(raft.epoch)
            for step in range(4):
                record = config(f"{start}.{step}")
                await commit(raft, record)
                committed.append(record)
            await raft.write_snapshot(list(committed))
            if start == 1:
                await raft.close()
        machine.files.crash()
