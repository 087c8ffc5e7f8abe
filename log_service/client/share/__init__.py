"""Records out of a queue: a share group, whose members take records one by one instead of partitions (KIP-932).

- ``consumer``: the public class. ``records``: what it hands out, and what may be said of it. ``in_hand``: what the application holds;
  ``held_records``: what the blocking and asyncio consumers have not handed to it yet. ``metrics``: what is counted.
- ``fetcher``: when records are acquired, and what waits to be handed out; ``acquired``: a response's bytes to the records that are ours.
- ``lane``: the requests to one leader, over one ``session``; ``acknowledgements``: what is on its way to it.
- ``membership``: heartbeats, and what they bring.
"""
