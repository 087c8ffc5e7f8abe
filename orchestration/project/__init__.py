"""A project: where it is, what it declares, and what is wrong with it.

- ``location``: the project's folder and its modules. ``workspace``: other code locations beside it.
- ``home``: the folder of Dagster's instance. ``new``: the command that begins a project.
- ``names``: names as declarations give them. ``mistakes``: declarations that cannot be used.
- ``importing``: quick imports of many modules.
"""
