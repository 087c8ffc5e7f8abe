"""Hostile bytes: what nobody should send, at everything that reads bytes of others.

    make fuzz MINUTES=10                             every engine in turn, with figures (python -m tests.fuzz --minutes 10 --seed 1)
    python -m tests.fuzz --replay finding.json       one finding again

Engines, from fast to real: ``decoders`` calls what parses bytes, one input a call; ``virtual_node``
sends sessions of frames to a whole node in virtual time, where every run is repeatable and a bug of
ours is an exception that somebody logs; ``hostile_broker`` damages what our client is told;
``process_node`` sends to a broker process over sockets, and looks at its memory, its patience and
its log.

``shapes`` draws messages that are well formed and mean something, ``mutations`` damages bytes,
``payloads`` makes record batches and what hides in them. A ``Case`` is one input; a finding is a
case that broke a promise, made small by ``shrink`` and written out by ``cases``.
"""
