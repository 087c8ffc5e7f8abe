"""``partition.metadata``: which topic, by its id, a partition directory belongs to.

Decides the text format only. Without the file a directory's topic is known by name alone (Kafka before 2.8 wrote none).
"""

import base64
import binascii
from pathlib import Path
from uuid import UUID

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.common.types import TopicId

PARTITION_METADATA_FILE = "partition.metadata"


def format_uuid(value: UUID) -> str:
    """Return an id as Kafka prints it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """Return the id that ``text`` spells.

    Raises:
        ValueError: it does not spell one.
    """
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(text) from error


def read_topic_id(files: Files, directory: Path) -> TopicId | None:
    """Return the topic id of a partition directory, None where none was written, or a crash left only a part of that.

    Raises:
        StorageError: the file is there and says something else.
    """
    path = directory / PARTITION_METADATA_FILE
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return None
    if not content.endswith(b"\n"):
        return None
    try:
        version, topic_id = content.decode().split("\n")[:2]
        return TopicId(parse_uuid(topic_id.removeprefix("topic_id: ") if version == "version: 0" else ""))
    except ValueError as error:
        text = f"{path} is damaged: it has to say `version: 0` and `topic_id: <id>`"
        raise StorageError(text) from error


def write_topic_id(files: Files, directory: Path, topic_id: TopicId) -> None:
    """Write the file; ``sync_topic_id`` makes it durable, which is due before the first record is."""
    file = files.open(directory / PARTITION_METADATA_FILE)
    try:
        file.truncate(0)
        file.append_gathered([f"version: 0\ntopic_id: {format_uuid(topic_id)}\n".encode()])
    finally:
        file.close()


def sync_topic_id(files: Files, directory: Path) -> None:
    """Make the file durable where there is one; blocks."""
    try:
        file = files.open(directory / PARTITION_METADATA_FILE, create=False)
    except FileNotFoundError:
        return
    try:
        file.sync_nowait()
    finally:
        file.close()
