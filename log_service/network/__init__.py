"""Listeners with limits, over the network of an injected ``Env``.

The package knows frames, back pressure and deadlines. It knows neither APIs nor authentication.
Outbound connections are in ``rpc``.

- ``sockets``: the real network, TCP under trio.
- ``server``: a listener. It decides who may connect, sweeps deadlines and drains connections.
- ``connection``: one accepted connection, and the path of every frame.
- ``responses``: the responses of a handler, and the queue that keeps them in order.
- ``budget``: limits that all listeners of a node share.
- ``frame_memory``: memory for large frames.
- ``deadlines``: detection of connections that have taken too long.
"""
