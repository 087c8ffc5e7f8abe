"""The ``tidelog`` command, one module per noun.

- ``main``: the group of all commands; each command's module is imported only when it is called.
- ``output``: what everything printed has in common: aligned tables, JSON, errors, exit codes. ``names``: topics, groups and partitions as
  they are typed, matched and completed. ``times``, ``record_lines``: times and records as text. ``connection``: reaching a cluster.
- ``up``, ``status``, ``serve``, ``demo``: installations and nodes.
- ``topics``, ``configs``, ``offsets``, ``records``, ``groups`` (with ``group_resets``), ``cluster``, ``produce``, ``consume``: a cluster,
  through the client.
- ``top`` (with ``top_metrics``, ``top_rates``, ``top_view``): a cluster in a terminal.
- ``log_dump``, ``log_verify``: a segment's files, read from disk.
- ``completion``: scripts for shells.

Exit codes: 0 done; 1 it could not be done, one sentence on standard error says why; 2 wrong usage; 130 interrupted (docs/command-line.md).
"""
