"""Services that speak HTTP/1.1 in front of a cluster. They reach it through the client only.

The rooms, from the bottom up:

- ``server``: one HTTP/1.1 server on trio, with limits, deadlines, TLS and logins.
- ``schema_registry``: the schemas of records, with the REST API of Confluent's clients.

The cluster may also be Apache Kafka.
"""
