"""Listeners with limits, over the network of an injected ``Env``; outbound connections are in ``rpc``.

Knows frames, back pressure and deadlines; knows neither APIs nor authentication.

- ``sockets``: the real network, TCP under trio.
- ``server``: a listener: who may connect, the sweep of deadlines, the drain. ``connection``: one accepted connection, the path of every
  frame. ``responses``: what a handler gives back, and the queue that keeps responses in order. ``budget``: what all listeners of a node
  share. ``frame_memory``: memory for large frames. ``deadlines``: when a connection has taken too long.
"""
