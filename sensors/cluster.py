"""Reports changes of the cluster's health.

Pass ``notify=``, a function, to send them elsewhere, e.g. to a chat.
"""

from assets.infrastructure import cluster
from orchestration import cluster_sensor

cluster_health = cluster_sensor(cluster)
