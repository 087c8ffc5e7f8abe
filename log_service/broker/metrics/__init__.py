"""The metrics page of a broker: its families, the sources of their values, and the server.

- ``sources``: the objects that the families read, and the values kept between two scrapes.
- ``traffic``: topics and requests.
- ``state``: partitions, controller, groups and connections as counts.
- ``partitions``: one row for each partition.
- ``lag``: groups and their lag.
- ``transactions``: verification, markers and late transactions.
- ``elections``: unclean elections.
- ``quotas``: clients that had to pause.
- ``logins``: logins and handshakes.
- ``authorizer``: allowed and denied operations.
- ``schema_validation``: checks of schemas, and requests to the registry.
- ``shares``: share groups.
- ``clients``: metrics that clients pushed.
- ``process``: the process and Python.
- ``loop_turns``: stalls of the event loop.
- ``page``: all families in order.
- ``endpoint``: HTTP over one listener of the broker's own loop.

Names are those that the JMX exporter gives Apache Kafka's own metrics with the rules of its sample
file (lower case, ``_total``, ``_percent``, ``quantile``). Groups and offsets have the names of
kafka_exporter.
"""
