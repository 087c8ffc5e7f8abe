"""Configuration: every key declared once (name, type, default, validator, reason), read from Kafka's own server properties.

Code never sees keys: it receives one of the small frozen views of ``views``.

- ``definition``: what a key is. ``properties``: Kafka's properties files. ``resolve``: which value of a topic's key holds.
  ``describe``: how values are shown.
- The keys: ``server_keys`` (with ``broker_log_keys``, ``quorum_keys``, ``tls_keys``, ``sasl_keys``, ``authorizer_keys``), ``topic_keys``,
  ``resource_keys``. ``accepted_keys``: those without effect. ``dynamic_keys``: those that change while a node runs.
- What the keys of a node mean together: ``server``, over ``server_values``, with a module for each subject: ``listeners`` and
  ``host_limits``, ``quorum``, ``authorizer``, ``group_times``, ``share_groups``, ``internal_topics``, ``heartbeats``.
  ``open_doors``: what they leave open.
- ``topic``: what a topic's own values make of those. ``dynamic_broker_config``: what of a node's configuration changes while it runs;
  ``broker``: which changes are acceptable.
- Encryption and logins: ``security`` holds the values that both nodes and clients have of them. ``tls`` makes them of the keys ``ssl.*``,
  ``sasl`` of the keys ``sasl.*`` of a node, ``oauth`` of those of OAUTHBEARER. ``client_security`` makes them of a client's settings.
- ``client``: the settings of clients; ``client_properties``: where they may stand in a file or in the environment.
"""
