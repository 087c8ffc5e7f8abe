"""The cluster as managed infrastructure: an asset with checks, a sensor for changes, and jobs.

A run of ``asset`` checks the health of the cluster. ``sensor`` does the same at short intervals and
reports changes. ``jobs`` rebalance it, move replicas to new brokers, empty a broker, and restart
brokers one by one. Each job is a dry run unless its config says otherwise.
"""

from orchestration.infrastructure.cluster.asset import cluster_asset
from orchestration.infrastructure.cluster.jobs import cluster_jobs
from orchestration.infrastructure.cluster.sensor import cluster_sensor

__all__ = ["cluster_asset", "cluster_jobs", "cluster_sensor"]
