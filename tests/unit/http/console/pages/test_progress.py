"""The lag of a group is that behind the known ends, and a queue's is what its cluster counts."""

import pytest

from log_service.client.admin.values import PartitionOffsets
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.http.console.pages.groups.progress import Progress

ONE, TWO, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ENDS = {
    where: PartitionOffsets(
        topic_id=NO_TOPIC_ID,
        log_start_offset=0,
        high_watermark=end,
        last_stable_offset=end,
        leader_epoch=0,
    )
    for where, end in ((ONE, 10), (TWO, 20))
}


@pytest.mark.parametrize(
    ("progress", "lag"),
    [
        (Progress(positions={ONE: 4, TWO: 20}), 6),
        (Progress(positions={ONE: 12}), 0),
        (Progress(positions={ONE: 4, OTHER: 1, TWO: None}), 6),
        (Progress(positions={OTHER: 1}), None),
        (Progress(), None),
        (Progress(positions={ONE: 4}, queue_lag=2), 2),
    ],
)
def test_the_lag_counts_what_is_known(progress: Progress, lag: int | None) -> None:
    assert progress.lag(ENDS) == lag
