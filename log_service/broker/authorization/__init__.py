"""Authorization of a node's requests (KIP-11): required permissions, and partial refusals.

- ``node_authorizer``: the entry point of the pipeline. It follows the ACLs of the metadata.
- ``access``: tells handlers and gates what the client of one request may do.
- ``decision_log``: counts decisions, and decides which of them go into the audit log.
- ``audit_trail``: the audit log's file (``audit_file``) and topic (``audit_topic``). Decisions wait
  for both in an ``audit_queue``.
- ``gate_shapes``: the building blocks of gates. ``broker.registry`` names the gate of each API. A
  gate looks at a request before its handler does. It refuses the request, admits it, or admits a
  part of it and adds the refusals to the response.
- ``record_gates``, ``group_gates``, ``transaction_gates``, ``topic_gates``, ``config_gates``,
  ``token_gates``: the gates of the APIs that need more than one permission on the cluster.

Most handlers know nothing of authorization. Only those of fetch sessions, Metadata,
DescribeCluster, DescribeTopicPartitions, DescribeDelegationToken and share sessions do, because
only they know which resources a request is about. They use ``call.access``, which is None without
an authorizer.

A request that a broker forwards to the active controller is authorized there, for the client that
sent it. The controller's listener does so on another node, and ``NodeAuthorizer.admit`` in the same
process.
"""
