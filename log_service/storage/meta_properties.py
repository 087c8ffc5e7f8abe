"""The file ``meta.properties``, which names the node and cluster of a log directory.

This module defines the text format (Java properties, version 1), and checks the owner of a
directory. Version 0, of brokers before KRaft, is not read, because Kafka migrates such a directory
first. A node refuses a directory that holds logs but names no node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from log_service.common.env import Files
from log_service.common.errors import StorageError
from log_service.storage.file_names import (
    FUTURE_DIRECTORY_SUFFIX,
    LOG_SUFFIX,
    is_set_aside,
    parse_directory_name,
)
from log_service.storage.log_directory import directory_named
from log_service.storage.partition_metadata import format_uuid, parse_uuid

META_PROPERTIES_FILE = "meta.properties"
_VERSION = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The node id, cluster id and directory id of a formatted directory.

    A directory that was formatted by an old tool has no directory id.
    """

    cluster_id: str
    node_id: int
    directory_id: UUID | None = None


def read_meta_properties(files: Files, directory: Path) -> MetaProperties | None:
    """Return the properties of a directory, or None if it was never formatted.

    Raises:
        StorageError: the file is damaged or has another version.
    """
    path = directory / META_PROPERTIES_FILE
    try:
        content = files.read_bytes(path).decode("latin-1")
    except FileNotFoundError:
        return None
    values = dict(
        _parse_line(line)
        for line in content.splitlines()
        if line.strip() and not line.lstrip().startswith(("#", "!"))
    )
    try:
        directory_id = values.get("directory.id")
        if values["version"] == _VERSION:
            return MetaProperties(
                cluster_id=values["cluster.id"],
                node_id=int(values["node.id"]),
                directory_id=parse_uuid(directory_id) if directory_id else None,
            )
    except (KeyError, ValueError) as error:
        text = f"{path} is damaged ({error}): it has to name cluster.id, node.id and directory.id"
        raise StorageError(text) from error
    text = f"{path} has version {values['version']}; only version {_VERSION} is read"
    raise StorageError(text)


def _parse_line(line: str) -> tuple[str, str]:
    name, _, value = line.strip().partition("=")
    return name.strip(), value.strip().replace("\\", "")


def write_meta_properties(files: Files, directory: Path, properties: MetaProperties) -> None:
    """Format the directory. The file is durable on return."""
    lines = [
        f"version={_VERSION}",
        f"cluster.id={properties.cluster_id}",
        f"node.id={properties.node_id}",
    ]
    if properties.directory_id is not None:
        lines.append(f"directory.id={format_uuid(properties.directory_id)}")
    files.write_atomically(directory / META_PROPERTIES_FILE, "\n".join([*lines, ""]).encode())


def claim_directory(
    files: Files,
    directory: Path,
    *,
    node_id: int | None,
    cluster_id: str | None,
    new_id: Callable[[], UUID],
) -> MetaProperties | None:
    """Return the directory's properties. Write them if it has none and both ids are given.

    Raises:
        StorageError: the directory belongs to another node or cluster, or holds logs without an
            owner, or the file is damaged.
    """
    properties = read_meta_properties(files, directory)
    if properties is None and node_id is not None and cluster_id is not None:
        check_fresh(files, directory)
        properties = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=new_id())
        write_meta_properties(files, directory, properties)
    if properties is not None and node_id is not None:
        check_owner(properties, directory, node_id=node_id, cluster_id=cluster_id)
    return properties


def check_owner(
    properties: MetaProperties, directory: Path, *, node_id: int, cluster_id: str | None
) -> None:
    """Refuse a directory of another node or cluster.

    If ``cluster_id`` is None, any cluster is accepted.

    Raises:
        StorageError: the directory belongs to another node or cluster.
    """
    if properties.node_id != node_id:
        text = (
            f"{directory} belongs to node {properties.node_id}, this is node {node_id}: use the"
            " directory of this node, or an empty one"
        )
        raise StorageError(text)
    if cluster_id is not None and properties.cluster_id != cluster_id:
        text = (
            f"{directory} belongs to cluster {properties.cluster_id}, this node is of {cluster_id}:"
            " use another directory"
        )
        raise StorageError(text)


def check_fresh(files: Files, directory: Path) -> None:
    """Refuse a directory that holds logs but names no node, because another node may own it.

    Raises:
        StorageError: the directory holds logs, or cannot be read.
    """
    name = first_log(files, directory)
    if name is not None:
        raise StorageError(
            f"{directory} holds logs such as {name} but no meta.properties to say which node they"
            " belong to; restore meta.properties, or name an empty directory"
        )


def first_log(files: Files, directory: Path) -> str | None:
    """Return the name of a partition directory that holds records, or None.

    Other directories, such as ``lost+found``, are not read.

    Raises:
        StorageError: the directory cannot be read.
    """
    with directory_named(directory):
        for name in files.list_directory(directory):
            inner = directory / name
            is_partition = parse_directory_name(name) is not None or is_set_aside(
                name, FUTURE_DIRECTORY_SUFFIX
            )
            if (
                is_partition
                and files.is_directory(inner)
                and any(entry.endswith(LOG_SUFFIX) for entry in files.list_directory(inner))
            ):
                return name
        return None
