"""The demo, ``python -m orchestration.demo``: real data, from an empty directory to an answer.

``directory`` prepares the demo's own data directory. ``installation`` starts broker, Spark, code
server and daemon. ``source`` reads the data, and ``production`` sends it. ``freshness`` finds the
assets that have not caught up. ``verification`` proves that no record was lost or doubled.
``report`` prints, and ``story`` puts the steps in order.
"""
