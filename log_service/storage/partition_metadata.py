"""The file ``partition.metadata``, which holds the topic id of a partition directory.

This module only defines the text format. Without the file, only the name of a directory's topic is
known (Kafka before 2.8 wrote no file).
"""

import base64
import binascii
import re
from pathlib import Path
from uuid import UUID

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.common.types import TopicId

PARTITION_METADATA_FILE = "partition.metadata"
_PREFIX = b"version: 0\ntopic_id: "
_ID_DIGITS = 22
_ID = re.compile("[A-Za-z0-9_-]{22}")


def format_uuid(value: UUID) -> str:
    """Return an id in Kafka's text form, which is URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """Return the id in Kafka's text form.

    Raises:
        ValueError: ``text`` is not an id.
    """
    if not _ID.fullmatch(text):
        raise ValueError(text)
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except binascii.Error as error:
        raise ValueError(text) from error


def read_topic_id(files: Files, directory: Path) -> TopicId | None:
    """Return the topic id of a partition directory.

    Return None if there is no file, or if a crash left only a part of it.

    Raises:
        StorageError: the file has other content.
    """
    path = directory / PARTITION_METADATA_FILE
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return None
    whole = content.rstrip(b"\0\n")
    if len(whole) < len(_PREFIX) + _ID_DIGITS and (
        _PREFIX.startswith(whole) or whole.startswith(_PREFIX)
    ):
        return None
    spelled = whole.removeprefix(_PREFIX) if whole.startswith(_PREFIX) else b""
    try:
        return TopicId(parse_uuid(spelled.decode()))
    except ValueError as error:
        text = f"{path} is damaged: it must contain `version: 0` and `topic_id: <id>`"
        raise StorageError(text) from error


def write_topic_id(files: Files, directory: Path, topic_id: TopicId) -> None:
    """Write the file. ``sync_topic_id`` must make it durable before the first record is durable."""
    file = files.open(directory / PARTITION_METADATA_FILE)
    try:
        file.truncate(0)
        file.append_gathered([_PREFIX, format_uuid(topic_id).encode()])
    finally:
        file.close()


def sync_topic_id(files: Files, directory: Path) -> None:
    """Make the file durable if it exists. Blocks."""
    try:
        file = files.open(directory / PARTITION_METADATA_FILE, create=False)
    except FileNotFoundError:
        return
    try:
        file.sync_nowait()
    finally:
        file.close()
