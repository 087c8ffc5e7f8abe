"""The composition root of a node: the only package that knows every subsystem, and the handlers of the APIs.

- ``main``: ``serve``, one node in the foreground: files, signals, exit codes. ``env``: the real world that it runs on.
- ``broker``: ``Broker``, which starts the rooms in order and stops them in order. ``rooms`` makes them. Its steps are
  ``lifecycle``, ``warm_up`` and ``timer_task``; ``one_error`` says why a start failed.
- ``registry``: THE table of APIs, one row each. ``pipeline``: the path of a request: find its quota, decode, authorize, handle, respond.
  ``large_requests``: the same for requests of many elements, in the ``pieces`` that they are cut into.
  ``call``: one request, and the three things that a handler may give back for it: a response, a ``Deferred``, ``NOTHING``. ``echo``: how a
  request that failed as a whole is answered. ``node``: what handlers may use.
- ``metrics``: the metrics page: its families, and the endpoint that serves it.
- ``handlers``: one module per API, or per family of APIs.
- ``listeners``: the sockets of one side of the node. ``peers``: its connections to other nodes. ``protection``: how both are protected.
- ``leader_produce``: a batch of this node's own, on its way to the leader of a partition on another node.
  ``login``: the logins in front of the pipeline; ``logins``, ``oauth_logins``, ``token_logins``: what listeners offer.
  ``certificates``: those of TLS, which change while the node runs.
- ``directory_reports``, ``controller_registration``: what this node tells the active controller of itself, beside ``lifecycle``.
- ``live``, ``loggers``: what changes while the node runs. ``storage_format``: directories before the first start. ``first_logins``: who can
  log in to a cluster that begins.
- ``time_slice``: how soon the event loop's thread runs once bytes have woken it.
- ``fetch_session``, ``cluster_view``, ``producer_ids``, ``end_offsets``: what several handlers share. ``auto_creation``,
  ``declared_topics``: topics that are created because a client asks for them.
  ``streams_topics``: the topics that Kafka Streams applications miss. ``lost_brokers``: responses that wait for an election.
- ``produce_lines``: produce requests that take longer than a turn of the event loop.
- ``authorization``: what each request needs of ACLs, and what becomes of one that has not got it.
- ``quotas``: what each request is charged to. ``client_telemetry``: the metrics that clients push (KIP-714).
- ``coordinator_leadership``: which partitions of internal topics this node coordinates. ``partition_writer``: such a partition as its
  coordinator sees it.
- ``transaction_verifier``, ``transaction_verdicts``: asking whether a partition is in a transaction, and what the client hears of it.
  ``marker_sender``, ``marker_writer``: the markers of transactions that end, on their way and into the partitions of this node.
- ``share``: share groups on the leaders of partitions, and the way to share coordinators.
"""
