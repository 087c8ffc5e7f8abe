"""Logs that move to another directory."""

from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory
from tests.sim.files import MemoryFiles
from tests.unit.storage.context import NOW_MS, idempotent, validated
from tests.unit.storage.managed_logs import FIRST, ID_A, SECOND, A, Node, run

BOTH = (FIRST, SECOND)


def filled(files: MemoryFiles | None = None, count: int = 7) -> Node:
    """A node with two directories and one log, in the first."""
    node = Node(files, dirs=BOTH)
    run(node.manager.load)
    node.manager.create_log(A, ID_A, node.config)
    for sequence in range(count):
        write(node.manager.logs[A], sequence)
    return node


def write(log: Log, sequence: int) -> None:
    log.append_as_leader(
        validated(idempotent(7, sequence, value=b"%d" % sequence)), leader_epoch=0, now_ms=NOW_MS
    )


def second(node: Node) -> LogDirectory:
    return node.manager.placement.find_directory(str(SECOND))


def moved(node: Node) -> list[Log]:
    """Move the log to the second directory; the logs that were put in its place."""
    replaced: list[Log] = []
    log = node.manager.logs[A]

    async def main() -> None:
        await node.manager.futures.move(log, second(node), replaced.append)

    run(main)
    return replaced
