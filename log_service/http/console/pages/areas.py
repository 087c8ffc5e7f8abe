"""The console's own areas, in the order of the navigation."""

from log_service.http.console.areas import Area
from log_service.http.console.pages import (
    cluster,
    flow,
    groups,
    records,
    schemas,
    security,
    topics,
    transactions,
)


def own_areas() -> list[Area]:
    """Return the console's own areas, in the order of the navigation."""
    rooms = (cluster, flow, topics, records, groups, schemas, transactions, security)
    return [each.area() for each in rooms]
