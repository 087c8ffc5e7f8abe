"""The composition root of a node, and the handlers of the APIs.

Only this package knows every subsystem.

- ``main``: ``serve``, which runs one node in the foreground with files, signals and exit codes.
  ``env``: the real world that it runs on.
- ``broker``: ``Broker``, which starts and stops the rooms in order. ``rooms`` makes them. Its steps
  are ``lifecycle``, ``warm_up`` and ``timer_task``. ``one_error`` reports why a start failed.
- ``registry``: THE table of APIs, one row each. ``pipeline``: the path of a request: find its
  quota, decode, authorize, handle, respond. ``large_requests``: the same for requests of many
  elements, cut into ``pieces``. ``call``: one request, and the three results of its handler: a
  response, a ``Deferred``, ``NOTHING``. ``echo``: the error response to a request that failed as a
  whole. ``node``: the parts of a node that handlers may use.
- ``metrics``: the metrics page, its families and the endpoint that serves it.
- ``handlers``: one module per API, or per family of APIs.
- ``listeners``: the sockets of one side of the node. ``peers``: its connections to other nodes.
  ``protection``: how both are protected.
- ``leader_produce``: writes a batch of this node's own to the leader of a partition on another
  node.
- ``login``: the logins in front of the pipeline. ``logins``, ``oauth_logins``, ``token_logins``:
  the logins that listeners offer. ``certificates``: the TLS certificates, which change while the
  node runs.
- ``directory_reports``, ``controller_registration``: reports of this node to the active controller,
  beside ``lifecycle``.
- ``live``, ``loggers``: settings that change while the node runs. ``storage_format``: formats
  directories before the first start. ``first_logins``: the users that can log in to a new cluster.
- ``time_slice``: how soon the event loop's thread runs once bytes have woken it.
- ``fetch_session``, ``cluster_view``, ``producer_ids``, ``end_offsets``: shared by several
  handlers. ``auto_creation``, ``declared_topics``: topics that are created because a client asks
  for them. ``streams_topics``: topics that Kafka Streams applications miss. ``lost_brokers``:
  responses that wait for an election.
- ``produce_lines``: produce requests that take longer than a turn of the event loop.
- ``authorization``: the ACLs that each request needs, and the response to one without them.
- ``quotas``: the quotas that each request is charged to. ``client_telemetry``: metrics pushed by
  clients (KIP-714).
- ``coordinator_leadership``: the partitions of internal topics that this node coordinates.
  ``partition_writer``: such a partition as its coordinator sees it.
- ``transaction_verifier``, ``transaction_verdicts``: ask whether a partition is in a transaction,
  and answer the client. ``marker_sender``, ``marker_writer``: send the markers of ending
  transactions, and write them to the partitions of this node.
- ``share``: share groups on the leaders of partitions, and the way to share coordinators.
"""
