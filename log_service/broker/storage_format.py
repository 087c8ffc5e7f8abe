"""``tidelog storage format`` formats a node's directories before its first start.

It is like ``kafka-storage format``. Decides which options fit a configuration, and the features of
a new cluster. The checks are Apache Kafka's (StorageTool, Formatter). ``raft.format`` decides the
content of the files.

A combination that cannot work is a ``ConfigError`` and leaves every directory as it was. Examples
are voters in both the configuration and the command, initial controllers without this node, and a
feature level that this version does not support.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError
from log_service.common.features import (
    DYNAMIC_QUORUM,
    KRAFT_VERSION,
    METADATA_VERSION,
    STATIC_QUORUM,
)
from log_service.common.repeated import repeated
from log_service.common.types import NodeId
from log_service.config.definition import MAX_INT
from log_service.config.views import NodeConfig
from log_service.metadata.access import ScramUser
from log_service.metadata.access_records import credential_record
from log_service.metadata.features import (
    FIRST_LEVELS,
    METADATA_VERSION_LEVEL,
    SUPPORTED_FEATURES,
    is_supported,
)
from log_service.metadata.partition import FIRST_FREE_DIRECTORY_ID
from log_service.protocol.stored.metadata_records import FeatureLevelRecord, MetadataRecord
from log_service.raft.format import (
    FormatPlan,
    NodeIdentity,
    format_directories,
    is_formatted,
    own_endpoint,
)
from log_service.raft.voters import Voter, VoterEndpoint
from log_service.security.sasl.scram import GetBits
from log_service.security.sasl.scram_argument import ScramArgument
from log_service.storage.partition_metadata import parse_uuid

INITIAL_CONTROLLER = re.compile(
    r"(?P<id>\d{1,10})@(?P<host>\S+):(?P<port>\d{1,5}):(?P<directory>[A-Za-z0-9_-]{22})"
)
FIRST_LEVEL_WITH_SCRAM = 11
"""The first metadata.version (3.5-IV2) whose metadata may hold SCRAM credentials."""
RELEASES = frozenset({"4.3", "4.3-IV0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """Options of the command line.

    At most one of ``is_standalone``, ``initial_controllers`` and ``is_without_controllers`` is set.
    """

    cluster_id: str
    is_standalone: bool = False
    initial_controllers: str | None = None
    is_without_controllers: bool = False
    features: Mapping[str, int] | None = None
    release: str | None = None
    is_formatted_ignored: bool = False
    scram_users: tuple[ScramArgument, ...] = ()
    """Users of the new cluster, with their passwords."""


def format_node(env: NodeEnv, config: NodeConfig, options: FormatOptions) -> NodeIdentity:
    """Format a node's directories. Waits for the disk.

    Raises:
        ConfigError: the options do not fit the configuration; nothing was written.
        StorageError: a directory is formatted, belongs to another node or cluster, or cannot be
            used.
    """
    _validate(config, options)
    voters = (
        _initial_voters(config, options.initial_controllers)
        if options.initial_controllers is not None
        else ()
    )
    plan = FormatPlan(
        node_id=NodeId(config.node_id),
        cluster_id=options.cluster_id,
        only_voter_at=own_endpoint(config) if options.is_standalone else None,
        voters=voters,
        is_log_elsewhere=not options.is_standalone,
        bootstrap_records=[
            *_first_records(config, options),
            *_first_users(options, env.rng.getrandbits),
        ],
        new_bits=env.rng.getrandbits,
        now_ms=env.clock.wall_ms(),
    )
    directories = tuple(dict.fromkeys((*config.log_manager.log_dirs, config.metadata_log_dir)))
    formatted = [directory for directory in directories if is_formatted(env.files, directory)]
    if formatted and not options.is_formatted_ignored:
        raise ConfigError(
            f"{formatted[0]} is formatted already; --ignore-formatted leaves it as it is and"
            " formats the others"
        )
    return format_directories(env.files, directories, config.metadata_log_dir, plan)


def _validate(config: NodeConfig, options: FormatOptions) -> None:
    given = [
        name
        for name, is_given in (
            ("--standalone", options.is_standalone),
            ("--initial-controllers", options.initial_controllers is not None),
            ("--no-initial-controllers", options.is_without_controllers),
        )
        if is_given
    ]
    if len(given) > 1:
        raise ConfigError(f"{given[0]} and {given[1]} exclude each other; give one of them")
    if given and config.quorum.voters:
        raise ConfigError(
            f"controller.quorum.voters names the voters already; leave out {given[0]}, or remove"
            " the key"
        )
    if given and given[0] != "--no-initial-controllers" and not config.is_controller:
        raise ConfigError(
            f"{given[0]} makes this node a voter, but process.roles is broker; leave it out"
        )
    if given == ["--no-initial-controllers"] and not config.quorum.bootstrap_servers:
        raise ConfigError(
            "--no-initial-controllers is for a node that joins a cluster, and"
            " controller.quorum.bootstrap.servers does not say where: this node would begin a"
            " cluster of its own; name controllers of the cluster in that key of the file, as"
            " host:port"
        )
    if not given and config.is_controller and not config.quorum.voters:
        raise ConfigError(
            "the first voters are not named; give --standalone for a cluster that begins with this"
            " node, --initial-controllers for one that begins with several, or"
            " --no-initial-controllers for a controller that joins later"
        )
    if not options.cluster_id.strip():
        raise ConfigError(
            "--cluster-id is empty; make one with `tidelog storage random-uuid`, the same for all"
            " nodes of a cluster"
        )
    if not options.cluster_id.isprintable() or set(" \\") & set(options.cluster_id):
        raise ConfigError(
            f"--cluster-id is {options.cluster_id!r}, which has a space, a backslash or what cannot"
            " be printed: meta.properties could not say it so that every node reads the same; make"
            " one with `tidelog storage random-uuid`"
        )
    if config.cluster_id not in {None, options.cluster_id}:
        raise ConfigError(
            f"--cluster-id is {options.cluster_id}, but cluster.id in the file is"
            f" {config.cluster_id}; they have to agree"
        )
    if options.release is not None and options.release not in RELEASES:
        raise ConfigError(
            f"--release-version is {options.release}; this version keeps 4.3 (metadata.version"
            f" {METADATA_VERSION_LEVEL}) alone"
        )


def _initial_voters(config: NodeConfig, text: str) -> tuple[Voter, ...]:
    """Parse comma-separated voters of the form ``id@host:port:directory id``."""
    voters: dict[int, Voter] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        match = INITIAL_CONTROLLER.fullmatch(item)
        if match is None or not 0 < int(match["port"]) <= 65_535:
            raise ConfigError(
                f"--initial-controllers names {item!r}, which is not id@host:port:directory-id"
            )
        node_id = NodeId(int(match["id"]))
        if node_id > MAX_INT:
            raise ConfigError(
                f"--initial-controllers names node {node_id}; a node.id is {MAX_INT} at most"
            )
        if node_id in voters:
            raise ConfigError(f"--initial-controllers names node {node_id} twice")
        endpoint = VoterEndpoint(
            config.quorum.listener_name,
            match["host"].removeprefix("[").removesuffix("]"),
            int(match["port"]),
        )
        directory_id = parse_uuid(match["directory"])
        if directory_id.int < FIRST_FREE_DIRECTORY_ID:
            raise ConfigError(
                f"--initial-controllers gives node {node_id} the directory id {match['directory']},"
                " which is reserved; make one with `tidelog storage random-uuid`"
            )
        voters[node_id] = Voter(node_id=node_id, directory_id=directory_id, endpoints=(endpoint,))
    if config.node_id not in voters:
        named = ", ".join(map(str, voters)) or "no node"
        raise ConfigError(
            f"--initial-controllers names {named}, but this is node {config.node_id}; a later"
            " controller joins without it"
        )
    directory_ids = {voter.directory_id for voter in voters.values()}
    if len(directory_ids) < len(voters):
        raise ConfigError(
            "--initial-controllers gives two nodes one directory id; make one for each with"
            " `tidelog storage random-uuid`"
        )
    return tuple(voters[node_id] for node_id in sorted(voters))


def _first_records(config: NodeConfig, options: FormatOptions) -> list[MetadataRecord]:
    levels = dict(options.features or {})
    for name, level in levels.items():
        if not is_supported(name, level):
            known = SUPPORTED_FEATURES.get(name)
            kept = (
                f"keeps {name} from {known[0]} to {known[1]}"
                if known
                else f"has no {name}; it has {', '.join(sorted(SUPPORTED_FEATURES))}"
            )
            raise ConfigError(f"--feature {name}={level}: this version {kept}")
    kraft_version = levels.pop(KRAFT_VERSION, None)
    if kraft_version == DYNAMIC_QUORUM and config.quorum.voters:
        raise ConfigError(
            f"--feature {KRAFT_VERSION}=1: controller.quorum.voters fixes the voters; remove the"
            " key, or raise the level later"
        )
    if kraft_version == STATIC_QUORUM and not config.quorum.voters:
        raise ConfigError(f"--feature {KRAFT_VERSION}=0 needs controller.quorum.voters in the file")
    chosen = dict(FIRST_LEVELS) | dict(sorted(levels.items()))
    return [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in chosen.items()
        if level
    ]


def _first_users(options: FormatOptions, get_bits: GetBits) -> list[MetadataRecord]:
    """Return the records of a new cluster's users."""
    named = [ScramUser(user.mechanism, user.name) for user in options.scram_users]
    for user in repeated(named):
        raise ConfigError(
            f"--add-scram names {user.name!r} twice for one mechanism; give it one password"
        )
    level = (options.features or {}).get(METADATA_VERSION, METADATA_VERSION_LEVEL)
    if named and level < FIRST_LEVEL_WITH_SCRAM:
        raise ConfigError(
            f"--add-scram needs metadata.version {FIRST_LEVEL_WITH_SCRAM} or later; --feature asks"
            f" for {level}"
        )
    return [
        credential_record(user, argument.credential(get_bits))
        for user, argument in zip(named, options.scram_users, strict=True)
    ]
