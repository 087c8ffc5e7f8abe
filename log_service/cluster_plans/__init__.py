"""Plans for a cluster: where replicas should be, the steps of moves, and the present problems.

All functions take values and return values. None of them sends a request.

- ``layout``: brokers, log directories and partitions as they are.
- ``placement``: chooses hosts for replicas, with the least cost. Either even counts or few moves
  come first. Racks are respected.
- ``byte_swaps``: evens out bytes without a change of counts. ``rolling``: the order in which nodes
  restart, and the reasons why they must not.
- ``plan``: moves with their bytes and their time. ``plans``: the plans for rebalancing, adding and
  draining brokers, and for topics.
- ``reassignment_file``: plans in the JSON of Kafka's own tool. Mistakes are reported by field.
- ``execution``: chooses the moves that start next, and their throttles.
- ``health``: finds a cluster's problems, the worst first. ``leaving``: decides what a cluster
  loses when it unregisters a broker or takes a voter out.
"""
