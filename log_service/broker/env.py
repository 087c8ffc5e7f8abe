"""The real environment of a node: the system's clock, randomness, network and disk."""

import random

from log_service.common.clock import SystemClock
from log_service.common.env import NodeEnv
from log_service.config.views import NodeConfig
from log_service.network.sockets import SocketNetwork
from log_service.storage.files import RealFiles


def real_env(config: NodeConfig) -> NodeEnv:
    """Return the production environment of a node with this configuration."""
    limits = config.limits
    network = SocketNetwork(
        send_buffer_bytes=limits.socket_send_buffer_bytes,
        receive_buffer_bytes=limits.socket_receive_buffer_bytes,
    )
    return NodeEnv(
        clock=SystemClock(),
        rng=random.SystemRandom(),
        network=network,
        files=RealFiles(config.disk_pool_threads),
    )
