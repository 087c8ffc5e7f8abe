"""Listeners, connections and channels, in virtual time and over real sockets."""
