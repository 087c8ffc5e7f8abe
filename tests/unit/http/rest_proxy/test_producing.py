"""A request is refused while the records of earlier ones wait for the cluster."""

from types import SimpleNamespace
from typing import Any

import pytest

from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.producing import require_room


def producer(buffered_bytes: int, throttle_ms: float) -> Any:
    """Return the parts of a producer that are asked."""
    return SimpleNamespace(
        accumulator=SimpleNamespace(buffered_bytes=buffered_bytes),
        config=SimpleNamespace(buffer_memory=1_000),
        metrics=lambda: SimpleNamespace(produce_throttle_time_max=throttle_ms),
    )


@pytest.mark.parametrize(
    ("throttle_ms", "pause"),
    [(float("nan"), "1"), (0.0, "1"), (1_200.0, "2"), (1_000_000.0, "60")],
)
def test_the_pause_is_that_of_the_cluster(throttle_ms: float, pause: str) -> None:
    """Without a throttle the cluster is slow, and a second has to do."""
    require_room(producer(499, throttle_ms))
    with pytest.raises(RestError) as refused:
        require_room(producer(500, throttle_ms))
    assert (refused.value.status, refused.value.headers) == (429, (("retry-after", pause),))
