"""Authorization of a node's requests (KIP-11): what each API needs, and what becomes of a request that has not got all of it.

- ``node_authorizer``: what the pipeline asks, and what follows the ACLs of the metadata.
- ``access``: what handlers and gates ask for one request: may its client do this?
- ``decision_log``: counts decisions, and says which of them are written into the audit log.
- ``audit_trail``: the audit log's file (``audit_file``) and topic (``audit_topic``); decisions wait for both in an ``audit_queue``.
- ``gates``: the table of gates, one for each API. A gate looks at a request before its handler does. It refuses the request, lets it
  through, or lets through a part of it and adds the refusals to the response.
- ``gate_shapes``: what gates are made of; ``record_gates``, ``group_gates``, ``transaction_gates``, ``topic_gates``, ``config_gates``,
  ``token_gates``: the gates of the APIs that need more than one permission on the cluster.

Handlers know nothing of authorization, but where only they know what a request is about: fetch sessions, Metadata, DescribeCluster,
DescribeTopicPartitions, DescribeDelegationToken, share sessions. Those ask ``call.access``, which is None where there is no authorizer.

A request that a broker passes on to the active controller is decided on there, for the client that sent it: by the controller's listener
where that is another node, by ``NodeAuthorizer.admit`` where it is in the same process.
"""
