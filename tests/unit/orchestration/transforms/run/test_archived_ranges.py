"""From where on archive and log hold a partition without a gap."""

from typing import Any

import pytest

from orchestration.offsets.planning import PartitionOffsets
from orchestration.offsets.ranges import OffsetRange
from orchestration.retained.readable_records import HeldTopic
from orchestration.transforms.run.archived_ranges import readable_starts


def spans(*bounds: tuple[int, int]) -> list[OffsetRange]:
    return [OffsetRange(partition=0, start=start, end=end) for start, end in bounds]


@pytest.mark.parametrize(
    ("archived", "log", "start"),
    [
        pytest.param([(0, 50)], (50, 60), 0, id="the archive ends where the log begins"),
        pytest.param([(4, 55)], (50, 60), 4, id="both hold some"),
        pytest.param([(0, 20), (30, 50)], (50, 60), 30, id="a hole in the archive"),
        pytest.param([(0, 40)], (50, 60), None, id="a gap behind the archive"),
        pytest.param([(0, 60)], (60, 60), 0, id="nothing is left in the log"),
        pytest.param(
            [(0, 40)], (60, 60), None, id="nothing is left in the log, and a gap behind the archive"
        ),
        pytest.param([], (50, 60), None, id="nothing is archived"),
        pytest.param([(0, 70)], (0, 70), None, id="the log holds all"),
    ],
)
def test_reading_begins_below_the_log_only_where_nothing_is_missing(
    archived: list[tuple[int, int]], log: tuple[int, int], start: int | None
) -> None:
    log_start, end = log
    archived_end = max([archived_end for _, archived_end in archived], default=0)
    live = [(max(log_start, archived_end), end)] if max(log_start, archived_end) < end else []
    client: Any = None
    held = HeldTopic(
        topic="t", log=client, archive=None, archived={0: spans(*archived)}, live={0: spans(*live)}
    )
    offsets = PartitionOffsets(
        partition=0, log_start_offset=log_start, last_stable_offset=end, high_watermark=end
    )
    assert readable_starts(held, [offsets]) == ({} if start is None else {0: start})
