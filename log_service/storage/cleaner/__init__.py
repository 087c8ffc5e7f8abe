"""Compaction: of each key the latest record stays, in Kafka's own way and files.

Decisions without any file: ``selection`` (what of a log is dirty, which log is due), ``offset_map`` (which offset is a key's latest, in
bounded memory), ``filtering`` (what becomes of a batch), ``transactions`` (which batches were aborted, which markers are needless),
``grouping`` (which segments become one). With files: ``compaction`` is one pass over one log in bounded slices, ``swap`` puts its segments
in place of the old ones and finishes that after a crash, ``cleaner`` runs passes by its timer and on request, as fast as
``throttle`` lets it.
"""
