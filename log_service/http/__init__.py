"""Services that give access to a cluster over HTTP/1.1. They use only the Kafka client.

The rooms, from the bottom up:

- ``server``: one HTTP/1.1 server on trio, with limits, deadlines, TLS and logins.
- ``service_settings``: the settings that all services share.
- ``serving``: the listeners of a service: binds, serves and drains them.
- ``cluster_clients``: clients of the cluster that act as the user behind a request.
- ``record_formats``: keys and values as JSON, and filters over records.
- ``rest_proxy``: produce and consume over HTTP, with the API of Confluent's REST proxy.
- ``schema_registry``: the schemas of records, with the REST API of Confluent's clients.
- ``console``: pages of a cluster for people, who act with their own rights.

The cluster may also be Apache Kafka.
"""

from typing import Final

ONCE_PREFIX: Final = "rest-once-"
"""Begins the groups in which the REST proxy keeps its responses to idempotent requests.

They have no readers, so the console does not list them among other groups.
"""
