"""The area of the flow: one picture from producers over topics and groups to tables and marts.

- ``reading``: the edges that the cluster knows. ``graph``: joins the parts of all areas.
- ``layout``: places nodes and edges in a picture. ``handlers``: the request.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.flow.handlers import show
from log_service.http.console.pages.flow.reading import read_flow


def area() -> Area:
    """Return the area."""
    return Area(
        name="flow",
        label="Flow",
        path="/flow",
        routes=(PageRoute(method="GET", path="/flow", handler=show),),
        templates=Path(__file__).parent / "templates",
        flow=read_flow,
    )
