"""The ``tidelog`` command, one module per noun.

- ``main``: the group of all commands. It imports a command's module only when the command is
  called.
- ``output``: aligned tables, JSON, errors and exit codes of all commands. ``names``: topics, groups
  and partitions as users type, match and complete them. ``times``, ``record_lines``: times and
  records as text. ``numbers``, ``sizes``, ``node_ids``: numbers, bytes a second and nodes as users
  type them. ``explain``: errors as sentences. ``connection``: reaching a cluster. ``running``:
  commands as trio tasks. ``standard_input``: lines and responses that users type or pipe.
- ``init``: a project; ``project_settings``: its ``.env``.
- ``up``, ``status``, ``serve``, ``demo``: installations and nodes. ``installation_nodes``,
  ``node_files``: their nodes, from another command. ``storage``: directories before a first start.
- ``topics``, ``configs``, ``offsets``, ``records``, ``groups`` (with ``group_resets`` and
  ``share_groups``), ``transactions``, ``quotas``, ``produce``, ``consume`` (with
  ``consume_queue``): a cluster, through the client.
- ``users``, ``certificates``, ``acls``, ``tokens``: logins and permissions. ``passwords``: how
  secrets reach a command. ``secret_values``: secrets among configs. ``command_config``: where the
  clients of a command get their settings.
- ``cluster``: brokers and replicas, with ``cluster_status``, ``cluster_moves`` (and ``plan_view``),
  ``cluster_roll``, ``cluster_nodes`` and ``cluster_voters``.
- ``mirror``: topics of one cluster copied into another. ``registry``: serves schemas over HTTP.
  ``rest``: serves records over HTTP. ``console``: serves pages of a cluster. ``http_services``:
  what these three have in common.
- ``schemas``: sends requests to a schema registry, through ``registry_connection``.
  ``schema_files``: types by suffix. ``registry_client``: says on standard error that a response of
  the registry is late. ``record_schemas``: keys and values with schemas, as JSON.
- ``top`` (with ``top_metrics``, ``top_registry``, ``top_rates``, ``top_view``): a cluster in a
  terminal.
- ``log_dump``, ``log_verify``: a segment's files, read from disk.
- ``completion``: scripts for shells.

Exit codes: 0 done; 1 failed, one sentence on standard error says why; 2 wrong usage; 130
interrupted (docs/command-line.md).
"""
