"""The composition root of a node, and the handlers of the APIs.

Only this package knows every subsystem.

- ``main``: ``serve``, which runs one node in the foreground with files, signals and exit codes.
  ``env``: the real world that it runs on.
- ``broker``: ``Broker``, which starts and stops the rooms in order. ``rooms`` makes them. Its steps
  are ``lifecycle``, ``warm_up`` and ``timer_task``. ``one_error`` reports why a start failed.
- ``registry``: THE table of APIs, one row each. ``api_rows``: the parts of a row.
- ``requests``: the path of a request: find its quota, decode, authorize, handle, respond. ``node``:
  the parts of a node that handlers may use.
- ``metrics``: the metrics page, its families and the endpoint that serves it.
- ``handlers``: one module per API, or per family of APIs.
- ``listeners``: the sockets of one side of the node. ``peers``: its connections to other nodes.
  ``protection``: how both are protected.
- ``leader_produce``: writes a batch of this node's own to the leader of a partition on another
  node.
- ``logins``: the logins of the listeners, which come before any request is handled.
  ``certificates``: the TLS certificates, which change while the node runs.
- ``directory_reports``, ``controller_registration``: further reports of this node to the active
  controller, besides those of ``lifecycle``.
- ``dynamic_settings``, ``loggers``: settings that change while the node runs. ``storage_format``:
  formats directories before the first start.
- ``time_slice``: how soon the event loop's thread runs once bytes have woken it.
  ``collector_pauses``: how long Python's garbage collector holds it up.
- ``fetch_session``, ``cluster_view``, ``producer_ids``, ``end_offsets``: shared by several
  handlers. ``topic_creation``: topics that are created because a client asks for them.
  ``lost_brokers``: responses that wait for an election. ``produced_counts``: records by client id.
- ``authorization``: the ACLs that each request needs, and the response to one without them.
- ``quotas``: the quotas that each request is charged to. ``client_telemetry``: metrics pushed by
  clients (KIP-714).
- ``coordinator_leadership``: the partitions of internal topics that this node coordinates.
  ``partition_writer``: such a partition as its coordinator sees it.
- ``transactions``: transactions on the leaders of partitions, and the markers that end them.
- ``share``: share groups on the leaders of partitions, and the requests to share coordinators.
- ``schema_validation``: refuses records whose schema is not registered for their topic.
"""
