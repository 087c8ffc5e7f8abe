"""The log of each partition on disk, in Kafka's own files, and the log directories that hold it.

The package knows record batches as bytes with a header. It knows neither topics' metadata nor
replication.

One log:

- ``readable_log``: reads it. ``log``: appends to it, truncates and closes it.
  ``append_result``: the result of an append.
- ``recovery``: opens its directory.
- ``segments``: its segments in order. ``segment``: one of them.
- ``indexes`` and ``segment_indexes``: the two indexes of a segment.
- ``log_reader``: finds batches and records. ``scanning``: walks the batches of a file.
- ``log_syncs``: makes it durable. ``sync_failures``: the marker of a failed sync.
- ``leader_epochs``: the start offset of each leader epoch.
- ``replicated_batches``: the batches that a follower takes from a leader's response.
- ``producer_state``: the idempotent producers. ``producer_snapshots``: their state on disk.
- ``transaction_checks`` and ``verifications``: checks of transactional batches.
- ``unstable_transactions``: transactions that hold the last stable offset back.
- ``aborted_transactions``: transactions that readers of committed records must not see.
- ``retention``: chooses the segments to delete.
- ``cleaner``: compacts the log to the latest record of each key.
- ``file_names``: names of its files. ``partition_metadata``: the topic id in its directory.

All logs of a node:

- ``log_manager``: creates, deletes, opens and closes logs. ``held_logs``: owns the open logs.
- ``directory_loader``: opens all logs at a start. ``closing``: closes them at a stop.
- ``log_placement``: chooses the directory of a new log.
- ``unserved_logs``: logs that are damaged, lost, or rivals of others. ``rivals``: chooses among
  several logs of one partition.
- ``future_logs``: copies logs to other log directories.
- ``upkeep``: the background work. ``checkpoint_writer`` and ``removals``: parts of it.
- ``vanished``: rewrites files that were removed while open.

One log directory:

- ``log_directory``: whether the directory may be written, and whether it failed.
- ``checkpoints``, ``meta_properties``, ``clean_shutdown``, ``running_files`` and ``running_logs``:
  its files.
- ``last_run``: checks whether all logs of the last run still exist.

The disk:

- ``files``: the real file system. ``descriptors``: operations on one open file.
- ``refused_access``: errors that name the owner of a file that this user may not open.
- ``durable_directory``: directories that survive a crash. ``file_system_sync``: one sync for many
  files.
- ``page_cache``: the identity of the page cache that holds unsynced writes.
"""
