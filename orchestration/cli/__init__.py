"""Commands of ``tidelog`` that work on tables, one module per command, imported on its first call.

They run in the folder of a project and use its data directory, with or without a running ``tidelog
up``. Commands that need no platform are in ``log_service.cli``.

- ``sql``: ``tidelog sql``. ``replay``: ``tidelog replay``. ``take_over``: ``tidelog take-over``.
- ``dead_letters``: ``tidelog dead-letters``. ``lag``: ``tidelog lag``.
- ``table_names``: names of tables, bare or as the Dagster UI shows them.
- ``surroundings``: finds the project, its settings, its Dagster instance and running servers.
"""
