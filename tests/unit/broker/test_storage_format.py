"""``tidelog storage format``: what it writes, and what it refuses without having written anything."""

from pathlib import Path
from random import Random

import pytest
import trio

from log_service.broker.storage_format import FormatOptions, format_node
from log_service.common.clock import SystemClock
from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError, StorageError, TidelogError
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig
from log_service.protocol.stored.metadata_records import (
    FeatureLevelRecord,
    UserScramCredentialRecord,
)
from log_service.raft.format import identify, read_bootstrap_records
from log_service.raft.log_view import BOOTSTRAP_SNAPSHOT
from log_service.raft.snapshots import read_snapshot
from log_service.security.sasl.scram_argument import parse_scram_argument
from log_service.storage.meta_properties import read_meta_properties
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork

DATA = Path("/data")
FIRST_SNAPSHOT = DATA / "__cluster_metadata-0" / BOOTSTRAP_SNAPSHOT.file_name
LISTENERS = {"broker": "PLAINTEXT://h:9092", "controller": "CONTROLLER://a:9093"}
STATIC = "controller.quorum.voters=1@a:9093,2@b:9093\n"
DYNAMIC = "controller.quorum.bootstrap.servers=a:9093,b:9093\n"
INITIAL = "1@a:9093:" + "D" * 21 + "g,2@b:9093:" + "B" * 21 + "g"


class Disk:
    def __init__(self) -> None:
        self.files = MemoryFiles(rng=Random(1))

    def env(self) -> NodeEnv:
        return NodeEnv(
            clock=SystemClock(),
            rng=Random(2),
            network=MemoryNetwork(Random(0)).host("h"),
            files=self.files,
        )

    def config(self, text: str, roles: str = "broker,controller") -> NodeConfig:
        listeners = ",".join(LISTENERS[role] for role in roles.split(","))
        config, _ = parse_server_properties(
            f"node.id=1\nlog.dirs={DATA}\nlisteners={listeners}\n{text}"
        )
        return config

    def start_alone(self, text: str, roles: str = "broker,controller") -> None:
        trio.run(identify, self.env(), self.config(text, roles), ())

    def format(self, text: str, **options: object) -> None:
        config = self.config(text, str(options.pop("roles", "broker,controller")))
        format_node(
            self.env(),
            config,
            FormatOptions(cluster_id=options.pop("cluster_id", "c1"), **options),  # type: ignore[arg-type]
        )


def test_voters_of_the_configuration_leave_the_metadata_without_voters() -> None:
    disk = Disk()
    disk.format(STATIC)
    own = read_meta_properties(disk.files, DATA)
    assert own is not None
    assert (own.cluster_id, own.node_id) == ("c1", 1)
    assert not disk.files.exists(FIRST_SNAPSHOT)


def test_initial_controllers_are_the_first_voters_and_this_node_gets_its_directory_id() -> None:
    disk = Disk()
    disk.format(DYNAMIC, initial_controllers=INITIAL)
    snapshot = read_snapshot(disk.files, FIRST_SNAPSHOT, BOOTSTRAP_SNAPSHOT)
    assert [(voter.node_id, voter.endpoints) for voter in snapshot.voters] == [
        (1, (("CONTROLLER", "a", 9093),)),
        (2, (("CONTROLLER", "b", 9093),)),
    ]
    own = read_meta_properties(disk.files, DATA)
    assert own is not None
    assert own.directory_id == snapshot.voters[0].directory_id


def test_standalone_begins_a_cluster_with_this_node() -> None:
    disk = Disk()
    disk.format("", is_standalone=True)
    (voter,) = read_snapshot(disk.files, FIRST_SNAPSHOT, BOOTSTRAP_SNAPSHOT).voters
    own = read_meta_properties(disk.files, DATA)
    assert own is not None
    assert (voter.node_id, voter.directory_id) == (1, own.directory_id)


@pytest.mark.parametrize(
    "is_alone", [True, False], ids=["a node that formats itself", "storage format --standalone"]
)
def test_the_only_voter_is_found_at_its_advertised_address(*, is_alone: bool) -> None:
    disk = Disk()
    advertised = "process.roles=broker,controller\ncontroller.listener.names=CONTROLLER\nadvertised.listeners=PLAINTEXT://out:19092,CONTROLLER://out:19093\n"
    if is_alone:
        disk.start_alone(advertised)
    else:
        disk.format(DYNAMIC + advertised, is_standalone=True)
    (voter,) = read_snapshot(disk.files, FIRST_SNAPSHOT, BOOTSTRAP_SNAPSHOT).voters
    assert voter.endpoints == (("CONTROLLER", "out", 19093),)


def test_without_initial_controllers_a_node_waits_to_hear_of_the_voters() -> None:
    disk = Disk()
    disk.format(DYNAMIC, is_without_controllers=True)
    assert not disk.files.exists(FIRST_SNAPSHOT)


@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
def test_a_voter_of_the_configuration_with_an_empty_disk_does_not_format_itself(roles: str) -> None:
    """It may have voted in an election that goes on, and would vote again."""
    disk = Disk()
    with pytest.raises(
        StorageError,
        match="/data is not formatted, and this node is one of several: run `tidelog storage format",
    ):
        disk.start_alone(
            f"{STATIC}cluster.id=c1\nprocess.roles={roles}\ncontroller.listener.names=CONTROLLER\n",
            roles,
        )
    assert read_meta_properties(disk.files, DATA) is None


def test_a_controller_that_is_not_formatted_is_told_a_command_that_its_file_fits() -> None:
    """The advice names a command that fits the node's file.

    The quorum's voters are in the metadata here. The command for static voters is refused,
    because the file names none.
    """
    disk = Disk()
    with pytest.raises(StorageError) as refused:
        disk.start_alone(DYNAMIC)
    command = str(refused.value).split("`")[1]
    assert (
        command == "tidelog storage format --cluster-id ID --no-initial-controllers --config FILE"
    )
    disk.format(DYNAMIC, is_without_controllers=True)
    disk.start_alone(DYNAMIC)


def test_a_broker_of_a_cluster_that_its_file_names_formats_itself() -> None:
    disk = Disk()
    disk.start_alone(
        f"{STATIC.replace('1@', '3@')}cluster.id=c1\nprocess.roles=broker\ncontroller.listener.names=CONTROLLER\n",
        "broker",
    )
    own = read_meta_properties(disk.files, DATA)
    assert own is not None
    assert (own.cluster_id, own.node_id) == ("c1", 1)


BROKER = "process.roles=broker\ncontroller.listener.names=CONTROLLER\n"


def test_a_broker_that_names_no_cluster_formats_itself_only_beside_a_directory_that_does() -> None:
    disk = Disk()
    with pytest.raises(
        StorageError, match="/data is not formatted, and this node is one of several"
    ):
        disk.start_alone(DYNAMIC + BROKER, "broker")
    disk.format(DYNAMIC + BROKER, roles="broker")
    disk.start_alone(f"{DYNAMIC}{BROKER}metadata.log.dir=/meta\n", "broker")
    new = read_meta_properties(disk.files, Path("/meta"))
    assert new is not None
    assert (new.cluster_id, new.node_id) == ("c1", 1)


def test_a_controller_that_joins_later_is_told_where_the_quorum_is() -> None:
    """Without, it would begin a quorum of its own with the id of the cluster, and say that it is
    ready.
    """
    disk = Disk()
    with pytest.raises(
        ConfigError,
        match=r"joins a cluster, and controller\.quorum\.bootstrap\.servers does not say where",
    ):
        disk.format("", is_without_controllers=True)
    assert not disk.files.exists(DATA)
    disk.format(DYNAMIC, is_without_controllers=True)


def test_a_broker_alone_is_not_made_a_voter() -> None:
    disk = Disk()
    with pytest.raises(ConfigError, match="--standalone makes this node a voter, but process"):
        disk.format(DYNAMIC + BROKER, roles="broker", is_standalone=True)
    with pytest.raises(ConfigError, match="--initial-controllers makes this node a voter"):
        disk.format(DYNAMIC + BROKER, roles="broker", initial_controllers=INITIAL)
    assert not disk.files.exists(DATA)
    disk.format(DYNAMIC + BROKER, roles="broker", is_without_controllers=True)


def lose_the_metadata_log(disk: Disk) -> None:
    """Leave a formatted node the log of a topic, and no metadata."""
    disk.files.remove_tree(FIRST_SNAPSHOT.parent)
    disk.files.make_directory(DATA / "orders-0")
    disk.files.open(DATA / "orders-0" / "00000000000000000000.log").close()


def test_a_node_that_has_the_metadata_for_itself_does_not_begin_it_anew_over_its_logs() -> None:
    disk = Disk()
    disk.start_alone("")
    lose_the_metadata_log(disk)
    with pytest.raises(
        StorageError,
        match=r"__cluster_metadata-0 is not there, but /data holds logs such as orders-0",
    ):
        disk.start_alone("")
    with pytest.raises(
        StorageError,
        match=r"__cluster_metadata-0 is not there, but /data holds logs such as orders-0",
    ):
        disk.format(
            DYNAMIC, is_standalone=True, is_formatted_ignored=True, cluster_id=cluster_of(disk)
        )


def test_a_node_of_several_fetches_the_metadata_that_it_has_lost() -> None:
    disk = Disk()
    disk.format(DYNAMIC, is_standalone=True)
    lose_the_metadata_log(disk)
    disk.start_alone(
        f"{DYNAMIC}process.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n"
    )
    disk.format(DYNAMIC, is_without_controllers=True, is_formatted_ignored=True)


def cluster_of(disk: Disk) -> str:
    own = read_meta_properties(disk.files, DATA)
    assert own is not None
    return own.cluster_id


def test_the_largest_node_id_and_port_are_taken() -> None:
    disk = Disk()
    disk.format(
        DYNAMIC,
        initial_controllers=INITIAL.replace("2@b:9093", "2147483647@b:65535").replace(
            "a:9093", "a:1"
        ),
    )
    voters = read_snapshot(disk.files, FIRST_SNAPSHOT, BOOTSTRAP_SNAPSHOT).voters
    assert [(voter.node_id, voter.endpoints[0].port) for voter in voters] == [
        (1, 1),
        (2147483647, 65535),
    ]


def test_features_are_among_the_first_records() -> None:
    disk = Disk()
    disk.format(STATIC, features={"transaction.version": 1, "kraft.version": 0}, release="4.3")
    levels = {
        record.name: record.feature_level
        for record in read_bootstrap_records(disk.files, DATA)
        if isinstance(record, FeatureLevelRecord)
    }
    assert levels == {
        "metadata.version": 30,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 1,
        "eligible.leader.replicas.version": 1,
    }


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_new_cluster_may_begin_at_another_level_of_a_feature(level: int) -> None:
    disk = Disk()
    disk.format(STATIC, features={"transaction.version": level})
    found = [
        record
        for record in read_bootstrap_records(disk.files, DATA)
        if isinstance(record, FeatureLevelRecord)
    ]
    told = [(record.name, record.feature_level) for record in found]
    assert told == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        *([("transaction.version", level)] if level else []),
    ]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (DYNAMIC, {}, "the first voters are not named"),
        (DYNAMIC, {"is_standalone": True, "is_without_controllers": True}, "exclude each other"),
        (STATIC, {"is_standalone": True}, "controller.quorum.voters names the voters already"),
        (DYNAMIC, {"initial_controllers": "1@a:9093"}, "which is not id@host:port:directory-id"),
        (
            DYNAMIC,
            {"initial_controllers": INITIAL.replace("1@", "7@")},
            "names 7, 2, but this is node 1",
        ),
        (DYNAMIC, {"initial_controllers": INITIAL.replace("2@", "1@")}, "names node 1 twice"),
        (DYNAMIC, {"initial_controllers": INITIAL.replace("B", "D")}, "two nodes one directory id"),
        (
            DYNAMIC,
            {"initial_controllers": INITIAL.replace("2@", "2147483648@")},
            "names node 2147483648; a node.id is 2147483647 at most",
        ),
        (
            DYNAMIC,
            {"initial_controllers": INITIAL.replace("b:9093", "b:0")},
            "which is not id@host:port:directory-id",
        ),
        (
            DYNAMIC,
            {"initial_controllers": INITIAL.replace("b:9093", "b:65536")},
            "which is not id@host:port:directory-id",
        ),
        (
            DYNAMIC,
            {"initial_controllers": INITIAL.replace("@b", "@ b")},
            "which is not id@host:port:directory-id",
        ),
        (
            DYNAMIC,
            {"initial_controllers": INITIAL.replace("B" * 21 + "g", "A" * 22)},
            "node 2 the directory id A{22}, which is reserved",
        ),
        (
            DYNAMIC,
            {"initial_controllers": INITIAL.replace("B" * 21 + "g", "A" * 21 + "Q")},
            "which is reserved; make one with",
        ),
        (DYNAMIC, {"initial_controllers": ""}, "names no node, but this is node 1"),
        (STATIC, {"features": {"metadata.version": 29}}, "keeps metadata.version from 30 to 30"),
        (
            STATIC,
            {"features": {"dreams.version": 1}},
            "this version has no dreams.version; it has eligible",
        ),
        (STATIC, {"features": {"kraft.version": 1}}, "fixes the voters"),
        (
            DYNAMIC,
            {"is_without_controllers": True, "features": {"kraft.version": 0}},
            "needs controller.quorum.voters",
        ),
        (STATIC, {"release": "3.9"}, "this version keeps 4.3"),
        (STATIC, {"cluster_id": " "}, "--cluster-id is empty"),
        (STATIC, {"cluster_id": "c1 "}, "--cluster-id is 'c1 ', which has a space"),
        (
            STATIC,
            {"cluster_id": "c1\nnode.id=2"},
            "which has a space, a backslash or what cannot be printed",
        ),
        (
            STATIC,
            {"cluster_id": "c\\1"},
            "which has a space, a backslash or what cannot be printed",
        ),
        (STATIC + "cluster.id=other\n", {}, "they have to agree"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    text: str, options: dict[str, object], said: str
) -> None:
    disk = Disk()
    with pytest.raises(ConfigError, match=said):
        disk.format(text, **options)
    assert not disk.files.exists(DATA)


def test_a_formatted_directory_is_left_as_it_is() -> None:
    disk = Disk()
    disk.format(STATIC)
    before = disk.files.read_bytes(DATA / "meta.properties")
    with pytest.raises(ConfigError, match="is formatted already; --ignore-formatted"):
        disk.format(STATIC)
    disk.format(STATIC, is_formatted_ignored=True)
    assert disk.files.read_bytes(DATA / "meta.properties") == before
    with pytest.raises(TidelogError, match="belongs to cluster c1, this node is of c2"):
        disk.format(STATIC, is_formatted_ignored=True, cluster_id="c2")


USERS = tuple(
    map(
        parse_scram_argument,
        ("SCRAM-SHA-256=[name=alice,password=secret]", "SCRAM-SHA-512=[name=alice,password=other]"),
    )
)


def test_users_are_in_the_metadata_of_a_new_cluster() -> None:
    disk = Disk()
    disk.format(DYNAMIC, is_standalone=True, scram_users=USERS)
    records = [
        record
        for record in read_bootstrap_records(disk.files, DATA)
        if isinstance(record, UserScramCredentialRecord)
    ]
    assert [(record.name, record.mechanism, record.iterations) for record in records] == [
        ("alice", 1, 4096),
        ("alice", 2, 4096),
    ]
    assert len({bytes(record.salt) for record in records}) == 2


@pytest.mark.parametrize(
    ("users", "features", "complaint"),
    [
        ((USERS[0], USERS[0]), None, "'alice' twice"),
        (USERS, {"metadata.version": 10}, "metadata.version"),
    ],
)
def test_users_that_cannot_be_added_leave_the_directories_alone(
    users: object, features: object, complaint: str
) -> None:
    disk = Disk()
    with pytest.raises(ConfigError, match=complaint):
        disk.format(DYNAMIC, is_standalone=True, scram_users=users, features=features)
    assert read_meta_properties(disk.files, DATA) is None
