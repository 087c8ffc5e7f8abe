"""Measures seconds without service where a node of three dies, stops in order or hangs.

``failover`` measures them, product beside product. The node leads the one partition that is
produced to and is not the active controller. Where the active controller dies, the figure is the
time until another broker has a topic created. Timeouts of the nodes are as shipped.
"""

import signal

from benchmarks.cluster_nodes import Nodes
from benchmarks.clusters import ClusterBench
from benchmarks.failover import after_controller, after_signal
from benchmarks.table import Goal, Row, at_most, value_at_most

SIGNALS: tuple[tuple[str, int, Goal, Goal | None], ...] = (
    ("kill -9 of a leader", signal.SIGKILL, value_at_most(0.5), None),
    ("clean stop of a leader", signal.SIGTERM, value_at_most(0.16), value_at_most(0)),
    ("SIGSTOP of a leader", signal.SIGSTOP, at_most(1.0), None),
)
"""Faults by their signals, with the goals of the seconds and of the records that fail for good."""


def measure(nodes: Nodes, _bench: ClusterBench) -> list[Row]:
    """Measure one round."""
    rows = []
    for name, number, goal, failed_goal in SIGNALS:
        gap_s, failed_count = after_signal(nodes, number)
        rows += [
            Row(
                figure=f"{name}: longest time without an acknowledgement",
                unit="s",
                rounds=(gap_s,),
                goal=goal,
            ),
            Row(
                figure=f"  records that failed for good, {name}",
                unit="records",
                rounds=(float(failed_count),),
                goal=failed_goal,
            ),
        ]
    figure = "kill -9 of the active controller: until a topic is created"
    return [
        *rows,
        Row(figure=figure, unit="s", rounds=(after_controller(nodes),), goal=at_most(0.5)),
    ]
