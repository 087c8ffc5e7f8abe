"""Listeners with limits and outbound connections, over the network of an injected ``Env``.

Knows frames, back pressure and deadlines; knows neither APIs nor authentication.
"""
