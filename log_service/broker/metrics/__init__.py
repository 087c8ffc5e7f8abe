"""The metrics page of a broker: which families there are, where their values come from, and who serves them.

- ``sources``: what the families are read from, and what is remembered between two looks.
- ``traffic``: topics and requests. ``state``: partitions, controller, groups and connections as counts. ``partitions``: one row for each
  partition. ``lag``: groups and their lag. ``transactions``: verification, markers, late ones. ``elections``: unclean elections.
  ``quotas``: clients that had to pause. ``logins``: logins and handshakes. ``authorizer``: what was allowed and denied. ``shares``: share
  groups.
  ``clients``: what clients pushed. ``process``: the process and Python. ``loop_turns``: stalls of the loop.
- ``page``: all of them in order. ``endpoint``: HTTP over one listener of the broker's own loop.

Names are those that the JMX exporter gives Apache Kafka's own metrics with the rules of its sample file (lower case, ``_total``,
``_percent``, ``quantile``), and kafka_exporter's for groups and offsets.
"""
