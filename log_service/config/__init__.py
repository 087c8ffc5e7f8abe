"""Configuration keys, each declared once, and the views that are built from them.

A key has a name, type, default, validator, update mode, traits and reason. Values come from Kafka's
own server properties. Other code never sees keys, but receives one of the small frozen views of
``views``.

- ``definition``: the parts of a key.
- ``properties``: Kafka's properties files.
- ``resolve``: the value in effect for a topic key.
- ``describe``: values as DescribeConfigs shows them.
- ``server_keys``, ``broker_log_keys``, ``quorum_keys``, ``tls_keys``, ``sasl_keys``,
  ``authorizer_keys``, ``schema_registry_keys``: the keys of a node.
- ``topic_keys``: the keys of topics.
- ``resource_keys``: the keys of groups and of client metrics.
- ``accepted_keys``: keys without effect.
- ``runtime_keys``: keys that requests set and files cannot.
- ``dynamic_keys``: overrides of keys for listeners.
- ``server``: the configuration of a node, built from all its keys, over ``server_values``.
- ``listeners``, ``host_limits``, ``quorum``, ``authorizer``, ``group_times``, ``share_groups``,
  ``internal_topics``, ``heartbeats``: parts of ``server``, one for each subject.
- ``open_doors``: warnings about access that a configuration leaves open.
- ``topic``: the topic's own values over the broker's defaults.
- ``dynamic_broker_config``: the values of a node that change while it runs.
- ``broker``: the check of changes to a running broker's configuration.
- ``security``: values of encryption and logins, for nodes and clients.
- ``tls``: the TLS values of ``security``, from the ``ssl.*`` keys.
- ``sasl``: the login values of ``security``, from a node's ``sasl.*`` keys.
- ``oauth``: the token values of ``security``, from the keys of OAUTHBEARER.
- ``schema_registry``: the registry that a node asks about schemas.
- ``client_security``: the encryption and logins of a client, from its settings.
- ``client``: the settings of clients.
- ``client_properties``: the settings of clients from a file or the environment.
- ``views``: the frozen views, with the fields that keys declare (``view_fields``).
"""
