"""A controller's listener over sockets gets hostile votes, fetches, registrations and voter
changes.

They come from peers that know the cluster's id. Nodes trust each other where no listener asks who
they are: a false peer may fence a broker or win an election, here as in Apache Kafka. A finding is
what no peer may cause: a process that ended, a traceback in its log, more resident memory than
``MEMORY_BUDGET_BYTES``, or a controller that does not respond to a good request. A node whose
broker was fenced or whose quorum was voted away is spent: the next window gets another one.
"""

from functools import partial
from pathlib import Path
from typing import Any

from log_service.broker.requests.call import Side
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tests.fuzz import process_node
from tests.helpers.ports import free_ports
from tests.integration.wire import Wire


class QuorumNode(process_node.Node):
    """A broker and controller whose controller's listener is attacked."""

    ENGINE = "quorum_node"
    SIDE = Side.CONTROLLER

    def __init__(self, folder: Path) -> None:
        broker_port, self._controller_port = free_ports(2)
        properties = {
            **process_node.PROPERTIES,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
        }
        super().__init__(folder, properties)

    @property
    def attacked(self) -> str:
        return f"127.0.0.1:{self._controller_port}"

    def known_values(self) -> list[Any]:
        return [*super().known_values(), self.cluster_id()]

    def cluster_id(self) -> str:
        """The id that every peer has to name."""
        lines = (self.broker.directory / "data" / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))

    def is_spent(self) -> bool:
        return bool(self.honest_request())

    def silence(self) -> str:
        request = DescribeQuorumRequest(
            topics=[
                RequestTopicData(
                    topic_name="__cluster_metadata",
                    partitions=[RequestPartitionData(partition_index=0)],
                )
            ]
        )
        try:
            with Wire(self.attacked) as wire:
                wire.ask(request, 2)
        except (OSError, TimeoutError) as error:
            return f"no response to a good request: {type(error).__name__}"
        return ""


fuzz = partial(process_node.fuzz, kind=QuorumNode)
replay = partial(process_node.replay, kind=QuorumNode)
