"""The log of metadata and its quorum, as in Apache Kafka (KRaft). A quorum of one node is the same code with one voter.

The rules, without input or output:

- ``core``: takes one event, returns what has to be done; ``events`` names both.
- ``roles``: the roles of a replica and the table of their changes; ``transitions`` performs them.
- ``elections``, ``leadership``, ``following``: the rules of votes, of the leader's side, of the follower's side.
- ``leader``: what a leader counts: the high watermark, check-quorum. ``voters``, ``voter_changes``: who may vote, and how that changes.
- ``log_view``: what the rules read of the log. ``messages``: what replicas say to each other; ``wire`` has it in Kafka's messages.
- ``replica``, ``connections``: the state that the rules share.

The shell:

- ``driver``: performs what the rules ask for, appends, syncs in groups, hands out what is committed; ``peer_requests``: what it sends.
- ``metadata_log``: the log's directory. ``response_bytes``: what other replicas get of it.
- ``batches``: metadata records and control records to batches and back.
- ``snapshots``: ``<offset>-<epoch>.checkpoint`` files. ``quorum_store``: the file ``quorum-state``.
- ``transport``: the quorum's requests over ``rpc``. ``describe``: the quorum as its leader sees it;
  ``describe_response``: the same as a response.
- ``errors``: the error of a node that is not the leader. ``rivals`` and ``twins``: two processes under one node id.
- ``format``: who a node is, and a fresh directory, as ``kafka-storage format --standalone`` leaves it.
"""
