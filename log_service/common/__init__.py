"""Small parts that every package shares. Nothing here imports other packages of the service.

- ``types``: ids and epochs. ``errors``: Kafka's error codes, and the errors that carry them.
  ``features``, ``topic_names``: names that a cluster knows. ``access``: the client of a
  request, and the permissions that a request may need.
- ``env``: the interfaces to clock, random numbers, files and network; ``clock`` is the real clock.
  ``timers``: one heap of deadlines.
- ``sorted_map``: immutable maps that are changed by cheap copies. ``repeated``: items that
  occur more than once in a request.
- ``crc32c``: the checksum of batches. ``session_epochs``: the epochs of fetch and share
  sessions.
- ``addresses``: one spelling for each IP address.
- ``regexes``: regular expressions that come from outside.
- ``java_hashing``: Java's string hash, and the order of its hash maps.
- ``quiet_log``: limits how often a log line is repeated. ``log_lines``: escapes log lines.
  ``urls``: URLs as they are shown.
- ``secrets``, ``private_files``: values and files that only their owner may see. ``listeners``: the
  user whose program listens at an address.
- ``guesses``: slows down clients that guess passwords.
- ``counts``: counts with their nouns.
- ``steps``: work that others may interrupt.
- ``installation_names``: names that the command line and the platform share.
- ``stop_signals``: whether a signal to stop is a second request.
- ``registry_errors``: codes of a schema registry.
- ``disk_reserve``: the space that a broker keeps free on a disk.
"""
