"""The ``tidelog`` command, one module per noun.

- ``main``: the group of all commands; each command's module is imported only when it is called.
- ``output``: what everything printed has in common: aligned tables, JSON, errors, exit codes.
- ``up``, ``status``, ``serve``, ``demo``: installations and nodes.
- ``topics``, ``groups``, ``produce``, ``consume``: the log, through the client.
- ``log_dump``: a segment's files, read from disk.

Exit codes: 0 done; 1 it could not be done, one sentence on standard error says why; 2 wrong usage; 130 interrupted.
"""
