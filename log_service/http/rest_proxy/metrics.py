"""The figures of a REST proxy on its page of metrics."""

from collections.abc import Iterator

from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.rest_proxy.v1.shared_readers import SharedReaders
from log_service.http.rest_proxy.v2.instances import ConsumerInstances
from log_service.http.server.metrics import HttpMeter
from log_service.metrics.exposition import Family


def families(
    meter: HttpMeter, clients: ClusterClients, instances: ConsumerInstances, readers: SharedReaders
) -> Iterator[Family]:
    """Yield the metrics of requests, and the number of open clients of the cluster by kind."""
    yield from meter.families()
    counts = {
        "logins": ("Logins that have clients open.", clients.login_count),
        "consumer_instances": ("Consumer instances of version 2.", len(instances)),
        "stream_readers": ("Consumers that read topics for streams.", len(readers)),
    }
    for name, (text, count) in counts.items():
        samples = [("", "", count)]
        yield Family(name=f"tidelog_rest_{name}", type="gauge", help=text, samples=samples)
