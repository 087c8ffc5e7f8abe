"""Checkpoints, partition.metadata, meta.properties, the clean-shutdown marker, and names."""

from pathlib import Path
from uuid import UUID

import pytest

from log_service.common.errors import StorageError
from log_service.common.types import TopicId, TopicPartition
from log_service.storage.checkpoints import read_offsets, write_offsets
from log_service.storage.clean_shutdown import read_marker, remove_marker, write_marker
from log_service.storage.file_names import (
    file_name,
    is_set_aside,
    offsets_by_suffix,
    parse_directory_name,
    parse_file_name,
    set_aside_name,
)
from log_service.storage.meta_properties import (
    MetaProperties,
    check_owner,
    read_meta_properties,
    write_meta_properties,
)
from log_service.storage.partition_metadata import (
    format_uuid,
    parse_uuid,
    read_topic_id,
    write_topic_id,
)
from tests.sim.files import MemoryFiles

ROOT = Path("/")
TOPIC_ID = TopicId(UUID("0b8c5a5f-6b1c-4f0e-9d53-6a1a6d1f2c3b"))


def put(files: MemoryFiles, name: str, content: bytes) -> None:
    files.open(ROOT / name).append_gathered([content])


def test_offset_checkpoints_are_kafkas_text() -> None:
    files = MemoryFiles()
    offsets = {TopicPartition("flights", 0): 12, TopicPartition("a.b-c_d", 3): 0}
    write_offsets(files, ROOT / "c", offsets)
    assert files.read_bytes(ROOT / "c") == b"0\n2\nflights 0 12\na.b-c_d 3 0\n"
    assert read_offsets(files, ROOT / "c") == offsets


def test_a_missing_checkpoint_is_empty_and_an_empty_one_too() -> None:
    """Apache Kafka creates checkpoints before it writes them."""
    files = MemoryFiles()
    assert read_offsets(files, ROOT / "c") == {}
    put(files, "c", b"")
    assert read_offsets(files, ROOT / "c") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"0\n",
        b"0\nx\n",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"\xff\xff",
    ],
)
def test_a_damaged_checkpoint_is_named(content: bytes) -> None:
    files = MemoryFiles()
    put(files, "recovery-point-offset-checkpoint", content)
    with pytest.raises(StorageError, match="recovery-point-offset-checkpoint"):
        read_offsets(files, ROOT / "recovery-point-offset-checkpoint")


def test_topic_ids_are_written_as_kafka_writes_them() -> None:
    files = MemoryFiles()
    write_topic_id(files, ROOT, TOPIC_ID)
    assert (
        files.read_bytes(ROOT / "partition.metadata")
        == b"version: 0\ntopic_id: C4xaX2scTw6dU2oabR8sOw"
    )
    assert read_topic_id(files, ROOT) == TOPIC_ID
    assert parse_uuid(format_uuid(TOPIC_ID)) == TOPIC_ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 40,
        b"version: 0\ntopic_id: C4xaX2scT",
        b"version: 0\n" + b"\0" * 30,
        b"version: 0\n",
    ],
)
def test_partition_metadata_that_a_crash_tore_says_nothing(content: bytes) -> None:
    files = MemoryFiles()
    put(files, "partition.metadata", content)
    assert read_topic_id(files, ROOT) is None
    assert read_topic_id(MemoryFiles(), ROOT) is None


@pytest.mark.parametrize(
    "content",
    [
        b"version: 1\ntopic_id: C4xaX2scTw6dU2oabR8sOw",
        b"version: 0\ntopic_id: C4xaX2scTw6dU2oabR8s/w",
        b"C4xaX2scTw6dU2oabR8sOw",
        b"x",
    ],
)
def test_damaged_partition_metadata_is_named(content: bytes) -> None:
    files = MemoryFiles()
    put(files, "partition.metadata", content)
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        read_topic_id(files, ROOT)


def test_meta_properties_round_trip() -> None:
    files = MemoryFiles()
    properties = MetaProperties(
        cluster_id="4L6g3nShT-eMCtK--X86sw", node_id=3, directory_id=TOPIC_ID
    )
    write_meta_properties(files, ROOT, properties)
    assert read_meta_properties(files, ROOT) == properties


def test_meta_properties_of_kafka_are_read() -> None:
    files = MemoryFiles()
    put(
        files,
        "meta.properties",
        b"#\n#Fri Nov 21 10:00:00 UTC 2025\nnode.id=1\ndirectory.id=C4xaX2scTw6dU2oabR8sOw\nversion=1\ncluster.id=abc\n",
    )
    assert read_meta_properties(files, ROOT) == MetaProperties(
        cluster_id="abc", node_id=1, directory_id=TOPIC_ID
    )
    assert read_meta_properties(MemoryFiles(), ROOT) is None


@pytest.mark.parametrize(
    "content",
    [
        b"version=0\nbroker.id=1\n",
        b"version=1\nnode.id=x\ncluster.id=a\n",
        b"node.id=1\n",
        b"version=1\n",
    ],
)
def test_meta_properties_that_cannot_be_used_are_named(content: bytes) -> None:
    files = MemoryFiles()
    put(files, "meta.properties", content)
    with pytest.raises(StorageError, match=r"meta\.properties"):
        read_meta_properties(files, ROOT)


def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    properties = MetaProperties(cluster_id="abc", node_id=1)
    check_owner(properties, ROOT, node_id=1, cluster_id="abc")
    check_owner(properties, ROOT, node_id=1, cluster_id=None)
    with pytest.raises(StorageError, match="node 1, this is node 2"):
        check_owner(properties, ROOT, node_id=2, cluster_id="abc")
    with pytest.raises(StorageError, match="cluster abc"):
        check_owner(properties, ROOT, node_id=1, cluster_id="xyz")


def test_the_marker_is_there_until_it_is_removed() -> None:
    files = MemoryFiles()
    write_marker(files, ROOT, 17)
    assert files.read_bytes(ROOT / ".kafka_cleanshutdown") == b'{"version": 0, "brokerEpoch": 17}'
    assert read_marker(files, ROOT) == 17
    remove_marker(files, ROOT)
    assert read_marker(files, ROOT) is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff"])
def test_a_marker_without_an_epoch_still_marks(content: bytes) -> None:
    files = MemoryFiles()
    put(files, ".kafka_cleanshutdown", content)
    assert read_marker(files, ROOT) == -1


def test_segment_names() -> None:
    assert file_name(1234, ".log") == "00000000000000001234.log"
    assert parse_file_name("00000000000000001234.log", ".log") == 1234
    for name in (
        "1234.log",
        "00000000000000001234.index",
        "0000000000000000123x.log",
        "00000000000000001234.log.deleted",
    ):
        assert parse_file_name(name, ".log") is None


def test_offsets_of_a_directory_by_suffix() -> None:
    zero, next_one = "00000000000000000000", "00000000000000000012"
    names = [
        f"{zero}.log",
        f"{zero}.index",
        f"{next_one}.log",
        f"{next_one}.log.swap",
        "7.log",
        "partition.metadata",
        "0000000000000000001x.log",
    ]
    assert offsets_by_suffix(names) == {".log": [0, 12], ".index": [0], ".log.swap": [12]}


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("flights-0", TopicPartition("flights", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("flights", None),
        ("-0", None),
        ("flights-", None),
        ("flights-x", None),
        ("flights-0.0b8c5a5f6b1c4f0e9d536a1a6d1f2c3b-delete", None),
    ],
)
def test_directory_names(name: str, parsed: TopicPartition | None) -> None:
    assert parse_directory_name(name) == parsed


def test_names_of_what_is_set_aside_fit_into_a_name() -> None:
    name = set_aside_name(TopicPartition("t" * 249, 0), "-delete", TOPIC_ID)
    assert len(name) == 255
    assert is_set_aside(name, "-delete")
    assert not is_set_aside(name, "-stray")
    assert not is_set_aside("my-delete", "-delete")
