"""``tidelog log verify``: what is wrong with a segment or its indexes is found and said."""

import struct
from pathlib import Path

import pytest

from log_service.cli.log_verify import checked
from log_service.records.batch import plain_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.outline import outline_records
from log_service.records.record import NewRecord
from log_service.records.rewrite import empty_batch, retain_records
from tests.helpers.unreadable_batches import garble
from tests.integration.command_line import run
from tests.unit.records.framed_records import (
    ACCEPTED_BY_KAFKA,
    Framed,
    framed_batch,
    framed_sections,
)

BASE = 100


def write_segment(directory: Path, count: int = 3) -> tuple[Path, list[int]]:
    """Write a segment of ``count`` batches of two records each, and return it with its positions.

    Its indexes have an entry for each batch.
    """
    content, positions = b"", []
    for number in range(count):
        records = [
            NewRecord(timestamp=1_000 + 10 * number + step, key=b"k", value=b"v") for step in (0, 1)
        ]
        positions.append(len(content))
        content += bytes(build_batch(records, base_offset=BASE + 2 * number))
    path = directory / f"{BASE:020}.log"
    path.write_bytes(content)
    write_indexes(path, [(2 * number, position) for number, position in enumerate(positions)])
    path.with_suffix(".timeindex").write_bytes(
        b"".join(struct.pack(">qi", 1_001 + 10 * number, 2 * number + 1) for number in range(count))
    )
    return path, positions


def write_indexes(path: Path, entries: list[tuple[int, int]]) -> None:
    path.with_suffix(".index").write_bytes(
        b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(16)
    )


def problems(path: Path) -> str:
    return str(checked(path)["problems"])


def test_a_whole_segment_has_no_problems(tmp_path: Path) -> None:
    path, _ = write_segment(tmp_path)
    found = checked(path)
    assert (found["batches"], found["records"], found["problems"]) == (3, 6, None)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path, positions = write_segment(tmp_path)
    content = bytearray(path.read_bytes())
    content[positions[2] - 1] ^= 1
    path.write_bytes(content)
    assert (
        f"at {positions[1]}: the checksum of the batch of offset {BASE + 2} is wrong"
        in problems(path)
    )


def test_a_batch_that_no_client_can_read_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "flights-0"
    directory.mkdir()
    path, positions = write_segment(directory)
    garble(path, BASE + 2)
    said = f"at {positions[1]}: the records at offsets {BASE + 2} to {BASE + 3} of flights-0 cannot be read: "
    assert said in problems(path)
    assert checked(path)["batches"] == 3
    finished = run(["log", "verify", str(directory)])
    assert finished.exit_code == 1
    assert "cannot be read" in finished.output


@pytest.mark.parametrize("case", list(framed_sections()), ids=lambda case: case.name)
def test_what_a_leader_refuses_is_found_in_a_log(tmp_path: Path, case: Framed) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(framed_batch(case))
    assert (checked(path)["problems"] is None) == (case.name in ACCEPTED_BY_KAFKA)


@pytest.mark.parametrize("kept", [[0, 1, 2], [0, 2], [2], [1]])
def test_batches_that_compaction_left_are_read(tmp_path: Path, kept: list[int]) -> None:
    batch = build_batch(
        [NewRecord(1, b"k%d" % index, b"v") for index in range(3)], codec=Codec.GZIP
    )
    header, plain = plain_records(batch)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(
        retain_records(header, plain, outline_records(header, plain), kept)
        + empty_batch(header._replace(base_offset=3))
    )
    assert checked(path)["problems"] is None


def test_a_torn_end_is_found(tmp_path: Path) -> None:
    path, positions = write_segment(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    assert f"at {positions[2]}: " in problems(path)
    assert checked(path)["batches"] == 2


def test_offsets_that_do_not_rise_are_found(tmp_path: Path) -> None:
    path, positions = write_segment(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: positions[1]] + content[: positions[1]])
    assert f"offset {BASE} comes after {BASE + 1}" in problems(path)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([(2, 7)], f"offset {BASE + 2} is said to be at 7, where no batch begins"),
        ([(4, 0)], f"offset {BASE + 4} is said to be at 0, where {BASE} to {BASE + 1} are"),
    ],
)
def test_an_index_that_points_elsewhere_is_found(
    tmp_path: Path, entries: list[tuple[int, int]], said: str
) -> None:
    path, _ = write_segment(tmp_path)
    write_indexes(path, entries)
    assert said in problems(path)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([(1_011, 3), (1_001, 1)], "time 1001 at offset 101 comes after 1011 at 103"),
        ([(5_000, 1)], "no record up to offset 101 has time 5000"),
        ([(1_001, 99)], "no record up to offset 199 has time 1001"),
    ],
)
def test_a_time_index_that_lies_is_found(
    tmp_path: Path, entries: list[tuple[int, int]], said: str
) -> None:
    path, _ = write_segment(tmp_path)
    path.with_suffix(".timeindex").write_bytes(
        b"".join(struct.pack(">qi", *entry) for entry in entries)
    )
    assert said in problems(path)


def test_an_index_that_is_cut_is_said(tmp_path: Path) -> None:
    path, _ = write_segment(tmp_path)
    path.with_suffix(".index").write_bytes(bytes(7))
    assert "7 bytes are not entries of 8 bytes" in problems(path)


def test_many_problems_are_counted(tmp_path: Path) -> None:
    path, _ = write_segment(tmp_path)
    write_indexes(path, [(2, 7)] * 9)
    assert problems(path).endswith("; and 4 more")


def test_the_command_tells_by_its_exit_code(tmp_path: Path) -> None:
    path, _ = write_segment(tmp_path)
    (tmp_path / "notes.log").write_text("no segment")
    assert run(["log", "verify", str(tmp_path)]).exit_code == 0
    write_indexes(path, [(2, 7)])
    finished = run(["log", "verify", str(tmp_path)])
    assert finished.exit_code == 1
    assert "where no batch begins" in finished.output
    assert run(["log", "verify", str(tmp_path), "--json"]).exit_code == 1


def test_the_command_checks_all_partitions_of_a_log_directory(tmp_path: Path) -> None:
    for partition in ("orders-0", "orders-1"):
        (tmp_path / "logs" / partition).mkdir(parents=True)
        write_segment(tmp_path / "logs" / partition)
    finished = run(["log", "verify", str(tmp_path / "logs")])
    assert finished.exit_code == 0
    assert "orders-0/" in finished.output
    assert "orders-1/" in finished.output


def test_the_command_refuses_a_directory_in_which_nothing_would_be_checked(tmp_path: Path) -> None:
    finished = run(["log", "verify", str(tmp_path)])
    assert finished.exit_code == 1
    assert "holds no segments: name a partition's directory" in finished.errors
