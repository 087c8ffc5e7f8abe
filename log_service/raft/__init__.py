"""Replicates the log of the cluster's metadata over a quorum, as in Apache Kafka (KRaft).

A quorum of one node runs the same code. The rules do no input or output:

- ``core``: takes one event and returns its effects. ``events``: the events and effects.
- ``roles``: the roles of a replica and the table of their changes. ``transitions``: changes roles.
- ``elections``, ``leadership``, ``following``: the rules of votes, of the leader's side and of the
  follower's side.
- ``leader``: the leader's knowledge of its replicas: the high watermark and check-quorum.
- ``voters``, ``voter_changes``: the voters, and changes of the voters.
- ``log_view``: the log as the rules read it. ``messages``: messages between replicas. ``wire``: the
  same messages in Kafka's format.
- ``replica``, ``connections``: the state that the rules share.

The shell runs the rules over the disk and the network:

- ``driver``: performs effects, appends and syncs in groups. ``metadata_listeners`` hands out
  committed records. ``peer_requests``: the requests that it sends.
- ``metadata_log``: the log's directory. ``response_bytes``: bytes of the log in responses.
- ``batches``: converts metadata records and control records to batches and back.
- ``snapshots``: ``<offset>-<epoch>.checkpoint`` files. ``quorum_store``: the file ``quorum-state``.
- ``transport``: the quorum's requests over ``rpc``. ``describe``: the quorum as its leader sees it.
  ``describe_response``: the same as a response.
- ``errors``: the error of a node that is not the leader. ``rivals`` and ``twins``: detect two
  processes with one node id.
- ``format``: a node's identity, and fresh directories as in ``kafka-storage format --standalone``.
"""
