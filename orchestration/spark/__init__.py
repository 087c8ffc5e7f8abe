"""Spark: its Java, the session, the warm server, and offset ranges of a topic as a DataFrame.

- ``java``: finds or builds a JAVA_HOME.
- ``session``: configures and opens a session.
- ``server``: describes the warm Spark Connect server as a child process.
- ``token``: the secret that its clients send.
- ``source``: turns offset ranges into DataFrames.
"""
