"""Read a node's identity from its directories, and format fresh directories.

This file decides what is written to a fresh directory, as ``kafka-storage format`` does, and when a
directory must not be changed. Each log directory gets ``bootstrap.checkpoint`` (the first records
of a new cluster) and ``meta.properties``. If the voters of a new cluster are known, the directory
of the metadata log also gets the snapshot ``0-0`` with the KRaft version and the voters. These are
this node alone (``--standalone``), or the given voters (``--initial-controllers``). Without this
snapshot, a node waits until it learns the voters, or gets them from its configuration.

Invariants: ``meta.properties`` is written last, so that a directory is formatted again after a
crash. An existing ``meta.properties`` is not changed. All directories of a node name one cluster.
Logs never exist without the metadata log that knows their topics.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from log_service.common.env import Files, NodeEnv
from log_service.common.errors import StorageError
from log_service.common.types import CLUSTER_METADATA_TOPIC, NodeId
from log_service.config.views import NodeConfig
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.raft.log_view import BOOTSTRAP_SNAPSHOT
from log_service.raft.snapshots import BOOTSTRAP_FILE, encode_snapshot, read_snapshot
from log_service.raft.snapshots import NAME as SNAPSHOT_NAME
from log_service.raft.voters import Voter, VoterEndpoint
from log_service.storage.durable_directory import make_durable_directory
from log_service.storage.file_names import LOG_SUFFIX
from log_service.storage.log_directory import directory_named, is_failing_device
from log_service.storage.meta_properties import (
    MetaProperties,
    check_fresh,
    check_owner,
    first_log,
    read_meta_properties,
    write_meta_properties,
)
from log_service.storage.partition_metadata import format_uuid

logger = logging.getLogger(__name__)

METADATA_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """A node's identity as stored in its directories."""

    node_id: NodeId
    cluster_id: str
    directory_ids: Mapping[Path, UUID]
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    """The contents of a freshly formatted directory.

    If ``cluster_id`` is None, a random one is drawn. ``only_voter_at`` is the address of this node
    as the only voter of a new cluster. ``voters`` are the voters of a larger one. Without both, the
    directory names no voters. ``is_log_elsewhere`` means that other nodes have the metadata log
    too, so that it may be missing here.
    """

    node_id: NodeId
    cluster_id: str | None
    only_voter_at: VoterEndpoint | None = None
    voters: tuple[Voter, ...] = ()
    is_log_elsewhere: bool = False
    bootstrap_records: Sequence[MetadataRecord]
    new_bits: Callable[[int], int]
    now_ms: int


async def identify(
    env: NodeEnv, config: NodeConfig, bootstrap_records: Sequence[MetadataRecord]
) -> NodeIdentity:
    """Format fresh directories, and return the node's identity.

    A new cluster begins with ``bootstrap_records``. A log directory whose device fails is skipped.
    The directory of the metadata log must be readable. A single node without a metadata log creates
    none while a directory fails, because this directory may hold logs, and a new metadata log would
    not know their topics.

    Raises:
        StorageError: a directory belongs to another node or cluster, or holds logs without
            ``meta.properties``, or a directory that is needed fails.
    """
    files = env.files
    owners = await files.run_in_pool(lambda: _read_owners(files, config))
    plan = FormatPlan(
        node_id=NodeId(config.node_id),
        cluster_id=config.cluster_id,
        only_voter_at=own_endpoint(config) if config.is_alone else None,
        is_log_elsewhere=not config.is_alone,
        bootstrap_records=bootstrap_records,
        new_bits=env.rng.getrandbits,
        now_ms=env.clock.wall_ms(),
    )
    if not config.is_alone:
        _check_formatted(owners, config)
    return await files.run_in_pool(
        lambda: format_directories(files, owners, config.metadata_log_dir, plan)
    )


def own_endpoint(config: NodeConfig) -> VoterEndpoint:
    """Return the advertised address of this node as a voter.

    This is the address of its controller listener, or else of its first listener.
    """
    listener = config.controller_listener or config.listeners[0]
    return VoterEndpoint(
        listener.name,
        listener.advertised_host or listener.host,
        listener.advertised_port or listener.port,
    )


def _read_owners(files: Files, config: NodeConfig) -> Mapping[Path, MetaProperties | None]:
    """Return the identity in each directory of the node.

    A directory is left out if its device fails and it does not hold the metadata log.

    Raises:
        StorageError: the directory of the metadata log fails, or a directory fails while a single
            node has no metadata log, or an identity cannot be read.
    """
    owners: dict[Path, MetaProperties | None] = {}
    failure = None
    for directory in dict.fromkeys((*config.log_manager.log_dirs, config.metadata_log_dir)):
        try:
            owners[directory] = _read_owner(files, directory)
        except StorageError as error:
            if directory == config.metadata_log_dir or not is_failing_device(error.__cause__):
                raise
            failure = failure or error
    if failure is not None and config.is_alone:
        with directory_named(config.metadata_log_dir):
            is_there = _has_metadata_log(files, config.metadata_log_dir)
        if not is_there:
            missing = config.metadata_log_dir / METADATA_DIRECTORY
            raise StorageError(
                f"{missing} does not exist, and it is unknown whether it should: {failure}"
            ) from failure
    return owners


def _check_formatted(owners: Mapping[Path, MetaProperties | None], config: NodeConfig) -> None:
    """Refuse to format a fresh node of a larger cluster automatically where that is unsafe.

    A node that knows no cluster id could join the wrong cluster or cause a loss of records. A
    configured voter that returns with an empty disk could vote twice in one election.

    Raises:
        StorageError: the node must be formatted first.
    """
    known = [properties for properties in owners.values() if properties is not None]
    is_static_voter = config.is_controller and bool(config.quorum.voters)
    if owners[config.metadata_log_dir] is None and (
        is_static_voter or (config.cluster_id is None and not known)
    ):
        advice = (
            f"{config.metadata_log_dir} is not formatted, and this node is one of several: run"
            " `tidelog storage format --cluster-id ID"
        )
        if config.is_controller and not config.quorum.voters:
            raise StorageError(
                f"{advice} --no-initial-controllers --config FILE` where it joins a cluster, with"
                " that one's id; with --standalone or --initial-controllers in its place the node"
                " begins one"
            )
        raise StorageError(f"{advice} --config FILE` on each node, with one id for all")


def random_id(new_bits: Callable[[int], int]) -> UUID:
    """Return a random id without a leading dash, so that it can be an argument of a command.

    Its version bits keep it distinct from the small numbers that are reserved as ids of topics and
    directories.
    """
    while True:
        found = UUID(int=new_bits(128), version=4)
        if not format_uuid(found).startswith("-"):
            return found


def format_directories(
    files: Files, log_dirs: Iterable[Path], metadata_log_dir: Path, plan: FormatPlan
) -> NodeIdentity:
    """Format fresh directories, check the others, and return the node's identity. Blocks.

    Raises:
        StorageError: a directory belongs to another node or cluster, holds logs without
            ``meta.properties``, or cannot be used; or the metadata log is missing.
    """
    directories = dict.fromkeys((*log_dirs, metadata_log_dir))
    found = {directory: _read_owner(files, directory) for directory in directories}
    known = [properties for properties in found.values() if properties is not None]
    cluster_id = (
        known[0].cluster_id if known else plan.cluster_id or format_uuid(random_id(plan.new_bits))
    )
    for directory, properties in found.items():
        if properties is not None:
            check_owner(
                properties,
                directory,
                node_id=plan.node_id,
                cluster_id=plan.cluster_id or cluster_id,
            )
        else:
            check_fresh(files, directory)
    if known and not plan.is_log_elsewhere and not _has_metadata_log(files, metadata_log_dir):
        _check_no_logs(files, found, metadata_log_dir)
    directory_ids: dict[Path, UUID] = {}
    for directory, properties in found.items():
        if properties is not None and properties.directory_id is not None:
            directory_ids[directory] = properties.directory_id
            continue
        directory_ids[directory] = directory_id = _directory_id(
            plan, is_of_metadata=directory == metadata_log_dir
        )
        with directory_named(directory):
            if properties is not None:
                write_meta_properties(
                    files, directory, replace(properties, directory_id=directory_id)
                )
                continue
            make_durable_directory(files, directory)
            voters = _first_voters(plan, directory_id)
            if directory == metadata_log_dir and voters and not known:
                _write_first_snapshot(files, directory, voters, plan)
            files.write_atomically(directory / BOOTSTRAP_FILE, _bootstrap(plan))
            own = MetaProperties(
                cluster_id=cluster_id, node_id=plan.node_id, directory_id=directory_id
            )
            write_meta_properties(files, directory, own)
            if known:
                logger.warning(
                    "Log directory %s was empty and begins anew, beside others of this node. That"
                    " is right for a new disk. Where it held logs they are not served: stop the"
                    " node, mount the disk of the directory, and start again",
                    directory,
                )
    return NodeIdentity(
        node_id=plan.node_id, cluster_id=cluster_id, directory_ids=directory_ids, is_new=not known
    )


def is_formatted(files: Files, directory: Path) -> bool:
    """Return whether a directory has ``meta.properties``, which names its node.

    Raises:
        StorageError: ``meta.properties`` cannot be read.
    """
    return _read_owner(files, directory) is not None


def read_bootstrap_records(files: Files, metadata_log_dir: Path) -> tuple[MetadataRecord, ...]:
    """Return the records of ``bootstrap.checkpoint``, with which an empty metadata log begins.

    There are none if the directory has no such file.

    Raises:
        StorageError: the file is damaged, or cannot be read.
    """
    path = metadata_log_dir / BOOTSTRAP_FILE
    with directory_named(metadata_log_dir):
        return read_snapshot(files, path, BOOTSTRAP_SNAPSHOT).records if files.exists(path) else ()


def _read_owner(files: Files, directory: Path) -> MetaProperties | None:
    with directory_named(directory):
        return read_meta_properties(files, directory)


def _check_no_logs(files: Files, directories: Iterable[Path], metadata_log_dir: Path) -> None:
    """Refuse to begin a new metadata log beside older logs, which would all become strays.

    Raises:
        StorageError: a directory holds logs.
    """
    for directory in directories:
        name = first_log(files, directory)
        if name is not None:
            missing = metadata_log_dir / METADATA_DIRECTORY
            raise StorageError(
                f"{missing} is not there, but {directory} holds logs such as {name}, whose topics"
                " only that knows; restore it, or name an empty directory"
            )


def _has_metadata_log(files: Files, metadata_log_dir: Path) -> bool:
    path = metadata_log_dir / METADATA_DIRECTORY
    names = files.list_directory(path) if files.is_directory(path) else ()
    return any(name.endswith(LOG_SUFFIX) or SNAPSHOT_NAME.fullmatch(name) for name in names)


def _directory_id(plan: FormatPlan, *, is_of_metadata: bool) -> UUID:
    """Return the id of a fresh directory, which is random unless the plan's voters name it.

    They name the directory of this node's metadata log if the node is a voter.
    """
    own = next((voter for voter in plan.voters if voter.node_id == plan.node_id), None)
    return own.directory_id if own is not None and is_of_metadata else random_id(plan.new_bits)


def _first_voters(plan: FormatPlan, directory_id: UUID) -> tuple[Voter, ...]:
    if plan.only_voter_at is None:
        return plan.voters
    return (
        Voter(node_id=plan.node_id, directory_id=directory_id, endpoints=(plan.only_voter_at,)),
    )


def _write_first_snapshot(
    files: Files, directory: Path, voters: tuple[Voter, ...], plan: FormatPlan
) -> None:
    batches = encode_snapshot(
        (),
        epoch=0,
        timestamp_ms=plan.now_ms,
        last_contained_timestamp_ms=plan.now_ms,
        voters=voters,
    )
    make_durable_directory(files, directory / METADATA_DIRECTORY)
    files.write_atomically(
        directory / METADATA_DIRECTORY / BOOTSTRAP_SNAPSHOT.file_name, b"".join(batches)
    )


def _bootstrap(plan: FormatPlan) -> bytes:
    return b"".join(
        encode_snapshot(
            plan.bootstrap_records, epoch=0, timestamp_ms=plan.now_ms, last_contained_timestamp_ms=0
        )
    )
