"""Small parts that every room shares. Imports nothing of ours.

- ``types``: ids and epochs. ``errors``: Kafka's error codes, and the errors that carry them.
  ``features``, ``topic_names``: names that a cluster knows. ``access``: who asks, and what a
  request may need to be allowed.
- ``env``: the seams to the world, as protocols; ``clock`` is the real clock. ``timers``: one heap
  of deadlines.
- ``sorted_map``: immutable maps that are changed by cheap copies. ``repeated``: what stands more
  than once in a request.
- ``crc32c``: the checksum of batches. ``session_epochs``: those of fetch and share sessions.
- ``addresses``: one spelling for each IP address.
- ``regexes``: regular expressions that come from outside.
- ``java_hashing``: Java's string hash, and the order of its hash maps.
- ``quiet_log``, ``log_lines``: lines of a log that neither flood nor break. ``urls``: URLs as they
  are shown.
- ``secrets``, ``private_files``, ``listeners``: what is for its owner alone: values, files, and
  whose program listens at an address.
- ``guesses``: who guesses passwords is slowed down.
- ``counts``: counts with their nouns.
- ``steps``: work that others may interrupt.
- ``installation_names``: names that the command line and the platform share.
- ``stop_signals``: whether a signal to stop is a second request.
- ``registry_errors``: codes of a schema registry.
- ``disk_reserve``: the room that a broker keeps free on a disk.
"""
