"""The library that pipelines are written with: topics, transforms, tables, checks and marts as Dagster assets.

A project imports names from here and from no inner module: ``from orchestration import TopicSpec, topic_asset, spark_table``. The stub
beside this file lists them. They are loaded when they are first used.

What a project declares:

- ``topics``: a topic and its schema. ``values``, ``formats``: what its values may be, and their columns.
- ``transforms``: functions from DataFrame to DataFrame that become tables, topics or tables of a database. ``quality``: their checks.
- ``marts``, ``sql``: marts and reference tables made of tables. ``sources``: rows and files that become records.
- ``archive``: a topic's records as a table. ``mirrors``, ``queues``, ``cluster``: what the UI shows of a mirror, a queue, the cluster.
- ``sensing``, ``schedules``, ``maintenance``: what starts runs, what tells of trouble, what keeps an installation small.
- ``components``: the same declarations in YAML. ``inputs``, ``names``, ``table_address``: what declarations share.

How a run stays exact:

- ``offsets``, ``checkpoints``: ranges of offsets, and which of them a run reads. ``byte_limits``: how much of them it opens.
- ``tables``: the lake; rows and offsets are one commit. ``file_commits``, ``upserts``: commits that write files anew. ``marks``: what a
  table notes beside its checkpoints. ``schemas``: what fits a table. ``durable``, ``leftovers``: files that last, files of killed runs.
- ``dead_letters``: rejected records, and the way back. ``dead_letter_asset`` shows them; ``letter_places`` reads where one came from;
  ``fixes``: what one should have been, ``fix_trial``: whether that helps.
- ``aggregates``, ``latest``, ``uniqueness``, ``joins``, ``join_state``: what DuckDB decides over the rows of a batch.
- ``held_records``: what can still be read of a topic. ``replay``: records are read once more.
- ``lag``, ``keeping_up``: how far a table is behind, and whether that is too far.

What is asked:

- ``warehouse``: marts and questions over them. ``ask``, ``topic_relations``, ``topic_reads``: questions over topics, too.
  ``sql_quoting``: names and texts inside a statement.

How the world is reached:

- ``settings``: everything that can be set. ``resources``: what assets are handed.
- ``log_client``: what the platform needs of a log service; ``connection`` is that over our client.
- ``spark``: its Java, its sessions, its server.
- ``database_urls``, ``sql_types``, ``sql_deadlines``: SQL databases. ``table_owners``: who may write a
  table there. ``postgres_storage``, ``postgres_url``: Dagster's own in PostgreSQL.

An installation and its processes:

- ``services``: the processes that ``tidelog up`` starts. ``__main__`` starts one of them; ``importing``, ``preload`` make that quick.
- ``definitions``, ``assembly``: a project's Definitions. ``projects``, ``workspace``: which project that is. ``new_project`` begins one.
- ``code_server``, ``project_server``, ``code_socket``, ``code_watch``: the process that loads the project, and how others notice changes.
- ``webserver``, ``daemon``, ``daemon_pace``, ``daemon_heartbeat``: Dagster's other processes, and the daemon's sign of life.
- ``ui_guard``, ``ui_login``, ``ui_sessions``, ``ui_users``: which sites may ask the UI, and which users.
- ``instance``, ``event_storage``, ``compute_logs``, ``plain_log``: Dagster's instance, its storage, what runs print, what it logs.
- ``served_project``, ``troubles``: what is wrong with a project that is served all the same. ``declare``: its topics, for the brokers.
- ``cli``: commands of ``tidelog`` about tables. ``demo``: the whole path on real data.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
