"""The demo: the whole path on real data, from an empty directory to an answered question; ``python -m orchestration.demo`` runs it.

``directory`` prepares the demo's own data directory, ``installation`` starts broker, Spark, code server and daemon, ``source`` reads the
data, ``production`` sends it, ``freshness`` says what is still behind, ``verification`` proves that nothing was lost or doubled,
``report`` prints, ``story`` puts the steps in order.
"""
