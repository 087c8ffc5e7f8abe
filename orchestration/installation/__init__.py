"""The processes of an installation: Spark server, code server, webserver and daemon of Dagster.

- ``services``: the processes that ``tidelog up`` starts. ``instance``: Dagster's instance, before
  and after they run.
- ``code_server``, ``project_server``, ``served_project``: the process that loads the project.
- ``code_socket``, ``code_watch``: its socket, and the way in which others notice a new load of the
  project.
- ``preload``: imports of every run. ``declare``: the project's topics, written for the brokers.
- ``webserver``, ``ui``: Dagster's UI, and access to it. ``daemon``: Dagster's daemon.
- ``event_storage``, ``postgres_storage``, ``postgres_url``: Dagster's storage. ``compute_logs``,
  ``plain_log``: its logs.
"""
