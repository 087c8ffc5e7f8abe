"""The cluster on which the example runs, with its health checks and the jobs that operate it.

The jobs are dry runs unless their config says otherwise.
"""

from orchestration import cluster_asset, cluster_jobs

cluster = cluster_asset()
jobs = cluster_jobs()
