"""Checks a batch of a produce request in a thread pool, and asks the schema registry.

A check waits for its turn in the queue of its connection (``requests.produce_queues``). The
registry is asked only if nothing else is wrong with the batch, and some of its schemas are neither
accepted nor refused yet. The batch is then checked again, because the registry may refuse a schema.
"""

from log_service.broker.node import Node
from log_service.broker.requests.produce_queues import QueuedRequest
from log_service.common.errors import KafkaError
from log_service.records.validator import Allowance, UnknownSchemasError, ValidatedBatches
from log_service.replication.partition import Partition


async def check_in_queue(  # noqa: PLR0917 - the parts of one check
    node: Node,
    partition: Partition,
    records: memoryview,
    now_ms: int,
    allowance: Allowance,
    queued: QueuedRequest,
) -> ValidatedBatches | KafkaError | None:
    """Check a batch in the queue of its connection, and return the result.

    Return a KafkaError if the registry's decision is missing, and None if the request was dropped.

    Raises:
        KafkaError: as ``Partition.check_in_steps``.
    """
    validation, deadline_ms = node.schema_validation, None
    while True:
        schemas = None if validation is None else validation.schemas_of(partition)
        steps = partition.check_in_steps(records, now_ms, allowance, schemas)
        found = await node.produce_queues.check(node.run_in_pool, steps, queued)
        if validation is None or schemas is None or not isinstance(found, UnknownSchemasError):
            return found
        if deadline_ms is None:
            deadline_ms = validation.deadline_ms(queued.call.request.timeout_ms)
        missing = await validation.learn(schemas, found.names, deadline_ms)
        if missing is not None:
            return missing
        allowance = allowance.for_repetition()
