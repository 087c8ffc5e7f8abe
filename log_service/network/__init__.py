"""Listeners with limits, over the network of an injected ``Env``; outbound connections are in ``rpc``.

Knows frames, back pressure and deadlines; knows neither APIs nor authentication.

- ``sockets``: the real network, TCP under trio.
- ``server``: a listener: who may connect, the sweep of deadlines, the drain. ``connection``: one accepted connection, the path of every
  frame. ``answers``: what a handler gives back, and the queue that keeps answers in order. ``budget``: what all listeners of a node share.
  ``deadlines``: when a connection has taken too long. ``log_limiter``: a bound on the lines that peers can provoke.
"""
