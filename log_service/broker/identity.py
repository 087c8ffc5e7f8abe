"""Who a node is: read from its directories, or written into them where they are fresh.

Decides with what a fresh directory is formatted: the cluster id of the configuration (or a drawn one), this node as the only voter, and
the first feature levels. The directories themselves are ``raft.format``'s and ``storage.meta_properties``'.
"""

from log_service.common.env import NodeEnv
from log_service.common.types import NodeId
from log_service.config.views import NodeConfig
from log_service.metadata.features import first_feature_records
from log_service.raft.format import FormatPlan, NodeIdentity, format_directories


async def identify(env: NodeEnv, config: NodeConfig) -> NodeIdentity:
    """Format what is fresh, and return who the node is.

    Raises:
        StorageError: a directory is of another node or cluster, or holds logs that no node owns.
    """
    voter = config.controller_listener or config.listeners[0]
    plan = FormatPlan(
        node_id=NodeId(config.node_id),
        cluster_id=config.cluster_id,
        voter_listener=(voter.name, voter.advertised_host or voter.host, voter.port),
        bootstrap_records=first_feature_records(),
        new_bits=env.rng.getrandbits,
        now_ms=env.clock.wall_ms(),
    )
    return await env.files.run_in_pool(lambda: format_directories(env.files, config.log_manager.log_dirs, config.metadata_log_dir, plan))
