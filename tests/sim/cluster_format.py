"""Formats the disks of a simulated cluster before its first start.

Each node does it as ``tidelog storage format``.

Decides directory ids. With dynamic voters each controller is told of all of them
(``--initial-controllers``); brokers, and all nodes where the configuration names the voters, are
not.
"""

from collections.abc import Sequence
from random import Random
from uuid import UUID

from log_service.common.features import ELIGIBLE_LEADER_REPLICAS, TRANSACTION_VERSION
from log_service.common.types import NodeId
from log_service.metadata.features import TRANSACTION_VERSION_LEVEL, first_feature_records
from log_service.protocol.stored.metadata_records import FeatureLevelRecord, MetadataRecord
from log_service.raft.format import FormatPlan, format_directories
from log_service.raft.voters import Voter, VoterEndpoint
from tests.sim.access_users import first_users
from tests.sim.clock import EPOCH_MS
from tests.sim.cluster_plan import CLUSTER_ID, CONTROLLER_PORT, ClusterPlan
from tests.sim.node_plan import NodePlan
from tests.sim.world import World


def format_cluster(world: World, plan: ClusterPlan) -> None:
    """Format the disks of all nodes; a cluster of one formats itself."""
    if len(plan.nodes) == 1:
        return
    rng = Random(f"format {plan.seed}")
    directory_ids = {
        node.name: UUID(int=rng.getrandbits(128), version=4)
        for node in plan.nodes
        if node.config.is_controller
    }
    voters = tuple(
        voter_of(node, directory_ids[node.name]) for node in plan.nodes if node.config.is_controller
    )
    records: list[MetadataRecord] = first_users() if plan.is_secure else []
    if plan.has_eligible_leaders:
        records.append(FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1))
    for node, skew_ms in zip(plan.nodes, plan.skews_ms, strict=True):
        world.node_env(node.name)
        world.clocks[node.name].skew_ms = skew_ms
        format_node(
            world,
            node,
            rng,
            voters if plan.are_voters_dynamic and node.config.is_controller else (),
            records,
            transaction_level=plan.transaction_level,
        )


def voter_of(node: NodePlan, directory_id: UUID) -> Voter:
    """Return a controller as the voters name it."""
    endpoint = VoterEndpoint("CONTROLLER", node.name, CONTROLLER_PORT)
    return Voter(
        node_id=NodeId(node.config.node_id), directory_id=directory_id, endpoints=(endpoint,)
    )


def format_node(
    world: World,
    node: NodePlan,
    rng: Random,
    voters: tuple[Voter, ...] = (),
    feature_records: Sequence[MetadataRecord] = (),
    *,
    transaction_level: int = TRANSACTION_VERSION_LEVEL,
) -> None:
    """Format the disk of one node, and make it durable."""
    config = node.config
    drawn = (TRANSACTION_VERSION, ELIGIBLE_LEADER_REPLICAS)
    first = [
        record for record in first_feature_records() if getattr(record, "name", "") not in drawn
    ]
    if transaction_level:
        first.append(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=transaction_level))
    whole = FormatPlan(
        node_id=NodeId(config.node_id),
        cluster_id=CLUSTER_ID,
        voters=voters,
        is_log_elsewhere=True,
        bootstrap_records=[*first, *feature_records],
        new_bits=rng.getrandbits,
        now_ms=EPOCH_MS,
    )
    format_directories(
        world.node_env(node.name).files, config.log_manager.log_dirs, config.metadata_log_dir, whole
    )
    world.disks[node.name].sync_all()
