"""Plans for a cluster. They decide where replicas should be, how moves are carried out in steps,
and what is wrong now. Values in, values out.

- ``layout``: brokers, log directories and partitions as they are.
- ``placement``: the balance of sets of hosts, exact: even counts first or few moves first, racks
  respected.
- ``byte_swaps``: bytes evened out at equal counts. ``rolling``: in which order nodes restart, and
  what stands in the way.
- ``plan``: moves with their bytes, and how long they take. ``plans``: those for rebalancing,
  adding, draining, and for topics.
- ``reassignment_file``: plans in the JSON of Kafka's own tool. Mistakes are reported by field.
- ``execution``: which moves start next, and the throttles that go with them.
- ``health``: what is wrong with a cluster, the worst first. ``leaving``: what it loses when it
  forgets a broker.
"""
