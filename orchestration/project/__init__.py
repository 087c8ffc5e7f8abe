"""A project: its folder, its declarations and their mistakes.

- ``location``: the project's folder and its modules. ``workspace``: other code locations beside it.
- ``home``: the folder of Dagster's instance. ``new``: the command that begins a project.
- ``names``: names as declarations give them. ``mistakes``: declarations that cannot be used.
- ``importing``: quick imports of many modules.
"""
