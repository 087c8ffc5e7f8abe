"""The table of all routes of version 3."""

from typing import Final

from log_service.http.rest_proxy.bodies import MAX_BODY_BYTES
from log_service.http.rest_proxy.context import CallHandler, RestContext, handled
from log_service.http.rest_proxy.v3 import acls, clusters, configs, groups, share_groups, topics
from log_service.http.rest_proxy.v3.documents import ClusterHandler, in_cluster
from log_service.http.rest_proxy.v3.produce import produce, produce_batch
from log_service.http.server.routes import Route

CLUSTER: Final = "/v3/clusters/{cluster}"
TOPIC: Final = "/topics/{topic}"
PARTITION: Final = f"{TOPIC}/partitions/{{partition}}"
BROKER: Final = "/brokers/{broker}"
GROUP: Final = "/consumer-groups/{group}"
CONSUMER: Final = f"{GROUP}/consumers/{{consumer}}"
SHARE_GROUP: Final = "/share-groups/{group}"
SHARE_CONSUMER: Final = f"{SHARE_GROUP}/consumers/{{consumer}}"
Row = tuple[str, str, ClusterHandler]

ROWS: Final[tuple[Row, ...]] = (
    ("GET", "", clusters.get_cluster),
    ("GET", "/brokers", clusters.list_brokers),
    ("GET", BROKER, clusters.get_broker),
    ("GET", f"{BROKER}/partition-replicas", topics.list_broker_replicas),
    ("GET", "/topics", topics.list_topics),
    ("POST", "/topics", topics.create_topic),
    ("GET", TOPIC, topics.get_topic),
    ("PATCH", TOPIC, topics.change_topic),
    ("DELETE", TOPIC, topics.delete_topic),
    ("GET", f"{TOPIC}/partitions", topics.list_partitions),
    ("GET", PARTITION, topics.get_partition),
    ("GET", f"{PARTITION}/replicas", topics.list_replicas),
    ("GET", f"{PARTITION}/replicas/{{broker}}", topics.get_replica),
    ("GET", f"{PARTITION}/reassignment", topics.get_reassignment),
    ("GET", f"{TOPIC}/partitions/-/reassignment", topics.list_reassignments),
    ("GET", "/topics/-/partitions/-/reassignment", topics.list_reassignments),
    ("GET", "/topics/-/configs", configs.list_all_topic_configs),
    ("POST", "/topics/-/configs:alter", configs.alter_topics_configs),
    ("GET", f"{TOPIC}/default-configs", configs.list_new_topic_configs),
    ("GET", "/brokers/-/configs", configs.list_all_broker_configs),
    ("POST", f"{TOPIC}/records:batch", produce_batch),
    ("GET", "/acls", acls.list_acls),
    ("POST", "/acls", acls.create_acl),
    ("POST", "/acls:batch", acls.create_acls),
    ("DELETE", "/acls", acls.delete_acls),
    ("GET", "/consumer-groups", groups.list_groups),
    ("GET", GROUP, groups.get_group),
    ("GET", f"{GROUP}/consumers", groups.list_consumers),
    ("GET", CONSUMER, groups.get_consumer),
    ("GET", f"{CONSUMER}/assignments", groups.list_assignments),
    (
        "GET",
        f"{CONSUMER}/assignments/{{topic}}/partitions/{{partition}}",
        groups.get_assignment,
    ),
    ("GET", f"{GROUP}/lags", groups.list_lags),
    ("GET", f"{GROUP}/lags/{{topic}}/partitions/{{partition}}", groups.get_lag),
    ("GET", f"{GROUP}/lag-summary", groups.get_lag_summary),
    ("GET", "/share-groups", share_groups.list_groups),
    ("GET", SHARE_GROUP, share_groups.get_group),
    ("GET", f"{SHARE_GROUP}/consumers", share_groups.list_consumers),
    ("GET", SHARE_CONSUMER, share_groups.get_consumer),
    ("GET", f"{SHARE_CONSUMER}/assignments", share_groups.list_assignments),
    *(
        row
        for path in (f"{TOPIC}/configs", f"{BROKER}/configs", "/broker-configs")
        for row in (
            ("GET", path, configs.list_configs),
            ("POST", f"{path}:alter", configs.alter_configs),
            ("GET", f"{path}/{{name}}", configs.get_config),
            ("PUT", f"{path}/{{name}}", configs.put_config),
            ("DELETE", f"{path}/{{name}}", configs.delete_config),
        )
    ),
)
"""The routes below a cluster."""


def routes(context: RestContext) -> list[Route]:
    """Return the routes of version 3."""
    rows: list[tuple[str, str, CallHandler]] = [
        ("GET", "/v3/clusters", clusters.list_clusters),
        *((method, CLUSTER + path, in_cluster(handler)) for method, path, handler in ROWS),
    ]
    whole = [
        Route(
            method=method,
            path=path,
            handler=handled(context, handler),
            max_body_bytes=MAX_BODY_BYTES,
        )
        for method, path, handler in rows
    ]
    stream = Route(
        method="POST",
        path=f"{CLUSTER}{TOPIC}/records",
        handler=handled(context, produce),
        is_streamed=True,
    )
    return [*whole, stream]
