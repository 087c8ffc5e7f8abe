"""Reports changes of the cluster's health. ``notify=`` sends them elsewhere."""

from assets.infrastructure import cluster
from orchestration import cluster_sensor

cluster_health = cluster_sensor(cluster)
