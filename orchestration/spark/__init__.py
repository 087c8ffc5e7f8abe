"""Spark: the Java it runs on, the session, the warm server, and reading offset ranges of a topic as a DataFrame.

``java`` finds or builds a JAVA_HOME, ``session`` configures and opens a session, ``server`` describes the warm Spark Connect server as a
child process, ``token`` is what its clients show, ``source`` turns offset ranges into DataFrames, ``staging`` keeps results
that Spark writes itself.
"""
