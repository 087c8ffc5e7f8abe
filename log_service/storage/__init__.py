"""One partition's log on disk in Kafka's own files, and the directories that hold them.

Knows record batches as bytes with a header; knows neither topics' metadata nor replication. ``files`` is the real disk. ``log.Log``
appends, reads, cuts and closes one log, ``segments`` changes its files, ``log_syncs`` makes them durable, and ``log_reader`` finds what is
read; ``recovery.open_log`` opens it. ``segment``, ``indexes``, ``segment_indexes``, ``leader_epochs``, ``producer_state``,
``producer_snapshots`` and ``aborted_transactions`` are what a log consists of; ``retention`` chooses the segments to delete, and
``cleaner`` keeps of each key the latest record. ``log_manager.LogManager`` creates, deletes, opens and closes the logs of a node:
``held_logs`` owns those that are open, ``directory_loader`` opens them at a start, ``rivals`` tells several of one partition apart,
``future_logs`` copies them to other directories, ``upkeep`` does the background work, ``vanished`` writes files again that were removed
while open, and ``checkpoints``, ``meta_properties`` and ``clean_shutdown`` are the files of a log directory.
"""
