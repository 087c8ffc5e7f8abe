"""Tells when the health of the cluster changes; give it ``notify=`` to send that elsewhere."""

from assets.infrastructure import cluster
from orchestration import cluster_sensor

cluster_health = cluster_sensor(cluster)
