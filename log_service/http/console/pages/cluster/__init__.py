"""The area of the cluster: brokers, quorum, problems, disks and moves of partitions.

- ``view``: the page as values. ``handlers``: the requests.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.cluster import handlers


def area() -> Area:
    """Return the area."""
    return Area(
        name="cluster",
        label="Cluster",
        path="/cluster",
        routes=(
            PageRoute(method="GET", path="/", handler=handlers.show),
            PageRoute(method="GET", path="/cluster", handler=handlers.show),
        ),
        templates=Path(__file__).parent / "templates",
    )
