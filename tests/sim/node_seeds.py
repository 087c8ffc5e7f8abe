"""Lists the seeds with which the simulation of one node runs.

All but 4 and 94 of those of the usual run are chosen among the first sixty-one: the cheapest that
have, together, every kind of fault that the first thirty have, four fifths as many faults and three
quarters of the records. By 4 and 94 planted bugs are known that the others show late or not at all.
Logs move in nine of them, and fourteen judge how long requests wait.
"""

from tests.sim.node_runs import parse_seeds

SEEDS = tuple(parse_seeds("0,2-4,6-7,11-14,19-21,24,27,30,35-40,44-48,50,55-57,94"))
"""Of the usual run. The known seeds of planted bugs are among them: without a bug they show
nothing.
"""
LONG_SEEDS = tuple(range(100))
"""Of a long run."""
