"""One partition's log on disk in Kafka's own files, and the directories that hold them.

Knows record batches as bytes with a header; knows neither topics' metadata nor replication. ``files`` is the real disk; ``log.Log``
appends, cuts and syncs, over ``readable_log`` and ``log_reader``; ``recovery.open_log`` opens; ``segment``, ``indexes``, ``leader_epochs``,
``producer_state`` and ``producer_snapshots`` are what a log consists of; ``retention`` decides what goes, and ``cleaner`` keeps of each key
the latest record; ``log_manager.LogManager`` owns all logs of a node, with ``directory_loader``, ``upkeep``, ``vanished``,
``checkpoints``, ``meta_properties`` and ``clean_shutdown`` around it.
"""
