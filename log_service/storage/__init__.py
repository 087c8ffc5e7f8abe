"""One partition's log on disk in Kafka's own files, and the directories that hold them.

Knows record batches as bytes with a header; knows neither topics' metadata nor replication.

One log:

- ``log``: appends, reads, cuts and closes it; ``append_result`` is what an append returns. ``recovery`` opens its directory.
- ``segments``: its segments, and how they come and go. ``segment``: one of them; ``indexes``, ``segment_indexes``: its two indexes.
- ``log_reader`` finds what is read, ``scanning`` walks the batches of a file.
- ``log_syncs`` makes it durable; ``sync_failures`` is the marker of a sync that failed.
- ``leader_epochs``: which epoch began where. ``replicated_batches``: what a follower takes of a leader's response.
- ``producer_state``: the idempotent producers; ``producer_snapshots`` has them on the disk.
- ``transaction_checks``, ``verifications``: what a transactional batch has to show. ``unstable_transactions``: those that readers of
  committed records wait for; ``aborted_transactions``: those that they must not see.
- ``retention`` chooses the segments to delete; ``cleaner`` keeps of each key the latest record.
- ``file_names``, ``partition_metadata``: what its files are called, and whose they are.

All logs of a node:

- ``log_manager`` creates, deletes, opens and closes them. ``held_logs`` owns those that are open.
- ``directory_loader`` opens them at a start, ``closing`` closes them at the end; ``rivals`` tells several of one partition apart.
- ``future_logs`` copies them to other log directories.
- ``upkeep`` does the background work: ``checkpoint_writer`` and ``removals`` are parts of it, and ``vanished`` writes files again that were
  removed while open.

One log directory:

- ``log_directory``: whether it may be written, whether it failed.
- ``checkpoints``, ``meta_properties``, ``clean_shutdown``, ``running_files``, ``running_logs``: its files; ``last_run`` says
  whether all that they name is there.

The disk:

- ``files``: the real one; ``descriptors`` has what is done with one open file.
- ``refused_access``: whose a file is that this user may not open.
- ``durable_directory``, ``file_system_sync``: directories that outlive a crash; one sync for many files.
- ``page_cache``: in which memory lies what was not synced.
"""
