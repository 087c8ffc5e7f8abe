"""Commands of ``tidelog`` about tables: a module per command, imported when it is called.

They work in the folder of a project, on its data directory, beside a running ``tidelog up`` and
without one. ``surroundings`` finds both. The other commands, which need no platform, are in
``log_service.cli``.
"""
