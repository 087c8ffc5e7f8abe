"""Start offsets of share groups in partitions without stored state.

The earliest and the latest offset are known at once. A duration needs a lookup in the time index.
If all records are older than the duration, the group begins at the end of the log, because the next
record will be younger. The offset is stored with the first write, and at the latest when the last
session of the group ends. If the leader changes before that, the next leader finds the offset
again, as in Apache Kafka.
"""

from collections.abc import Callable
from functools import partial

from log_service.broker.requests.call import StartTask
from log_service.broker.share.group_settings import GroupShareSettings, OffsetReset
from log_service.common.env import Clock, RunInPool
from log_service.common.errors import KafkaError
from log_service.common.types import NO_LEADER_EPOCH
from log_service.replication.follower_state import UNKNOWN_OFFSET
from log_service.replication.partition import OffsetSpec, Partition
from log_service.replication.partition_state import Isolation

OnFound = Callable[[int | KafkaError], None]
_SPECS = {OffsetReset.EARLIEST: OffsetSpec.EARLIEST, OffsetReset.LATEST: OffsetSpec.LATEST}


class StartOffsets:
    """Finds start offsets. Lookups that may wait for the disk run in the pool."""

    def __init__(self, clock: Clock, run_in_pool: RunInPool, start_task: StartTask) -> None:
        self._clock = clock
        self._run_in_pool = run_in_pool
        self._start_task = start_task

    def find(self, partition: Partition, settings: GroupShareSettings, on_found: OnFound) -> None:
        """Call ``on_found`` once, with a group's start offset under these settings, or an error."""
        spec = _SPECS.get(settings.reset)
        if spec is None:
            self._start_task(
                self._find_by_time,
                partition,
                self._clock.wall_ms() - settings.reset_duration_ms,
                on_found,
            )
            return
        try:
            found = partition.find_offset(spec, NO_LEADER_EPOCH).offset
        except KafkaError as error:
            on_found(error)
        else:
            on_found(found)

    async def _find_by_time(
        self, partition: Partition, timestamp_ms: int, on_found: OnFound
    ) -> None:
        try:
            found = await self._run_in_pool(
                partial(partition.find_offset, max(timestamp_ms, 0), NO_LEADER_EPOCH)
            )
            if found.offset == UNKNOWN_OFFSET:
                found = partition.find_offset(
                    OffsetSpec.LATEST, NO_LEADER_EPOCH, Isolation.READ_UNCOMMITTED
                )
        except KafkaError as error:
            on_found(error)
        else:
            on_found(found.offset)
