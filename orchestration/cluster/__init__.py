"""The cluster as managed infrastructure: an asset with health checks, a sensor that tells when its health changes, jobs that operate it.

``asset`` looks at the cluster and judges it; ``sensor`` does the same at short intervals and tells of changes; ``jobs`` rebalance it, give
new brokers their share, empty a broker, and restart brokers one by one, each as a dry run unless its config says otherwise.
"""

from orchestration.cluster.asset import cluster_asset
from orchestration.cluster.jobs import cluster_jobs
from orchestration.cluster.sensor import cluster_sensor

__all__ = ["cluster_asset", "cluster_jobs", "cluster_sensor"]
