"""The simulated world: virtual time, a memory network and a memory disk, all drawn from one seed.

- ``world``: ``sim_run`` and ``World``, which hands out a node's ``NodeEnv``.
- ``clock``: ``VirtualClock``, and the world's own ``WorldClock``.
- ``draws``: a stream of random numbers for each purpose.
- ``network``: ``MemoryNetwork`` with latency, chunks, cuts and resets.
- ``disk`` and ``files``: ``MemoryFiles``, which loses what was not synced.

Whole nodes and their clients in that world, one run per seed (``make sim SEEDS=0-99``):

- ``node_plan``: what a seed plays; ``node_runs``: plays it, and is the command.
- ``node_host``: ``NodeHost`` starts, stops and kills a node, ``ClusterHost`` holds those of a
  cluster; ``node_faults``: what goes wrong, and who starts a node again.
- ``node_clients`` do their work and write a ``node_history``; ``node_checker`` and
  ``node_metadata_checker`` judge it from outside, ``node_audit`` looks at the disk,
  ``node_refusals`` at every refusal, ``node_waits`` at how long a response takes that could be
  made, ``node_responses`` at whether each one comes at all.
- ``cluster_plan``, ``cluster_runs``, ``cluster_faults``, ``cluster_clients``, ``cluster_audit`` and
  ``cluster_refusals`` do the same for clusters of several nodes (``make sim NODES=3``), which are
  judged as one; ``cluster_watch`` looks at all nodes after every event, with ``quorum_witness``,
  ``replica_witness`` and ``group_witness``; ``superseded`` notes coordinators that do not know of
  their successors. ``pauses`` stops a process as SIGSTOP does.
- ``cluster_aims`` holds scenarios: plans for clusters with chosen faults.
- ``copying`` adds transactional clients to a cluster: ``copy_clients`` do their work,
  ``copy_history`` is what they saw, ``copy_checker`` judges it. ``transaction_witness`` looks at
  rows, markers and the coordinators' log; ``transaction_stages`` are what faults are aimed at.
- ``queue_clients`` are members of a share group, judged by ``queue_checker``.
  ``streams_application`` is a Kafka Streams application: ``streams_clients`` cast its
  ``streams_instances``, ``streams_history`` is what these were told, ``streams_checker`` judges it,
  by what ``streams_terms`` knows of the group's coordinators; ``streams_stages`` are what faults
  are aimed at.
- ``accessing`` adds an administrator and users whose rights and passwords change:
  ``access_clients`` do their work with ``access_requests``, ``access_users`` are who there is,
  ``access_history`` is what they tried. ``access_witness`` knows what each node knows;
  ``access_checker`` judges by that and by ``access_model``.
- ``quota_clients`` want more than their quota; ``quota_checker`` judges what they get.
- ``registries`` plays several instances of the schema registry beside a broker;
  ``registry_checker`` judges them.
- ``node_bugs``, ``cluster_bugs``, ``judge_bugs``, ``copy_bugs``, ``queue_bugs``, ``quota_bugs``,
  ``streams_bugs``, ``access_bugs`` and ``registry_bugs`` are planted to prove that they are noticed, in the way of
  ``bug_hunts``; ``node_guard`` proves that nothing of the real world is touched.
"""

from tests.sim.clock import VirtualClock
from tests.sim.disk import Crashed
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork, Weather
from tests.sim.world import World, sim_run

__all__ = ["Crashed", "MemoryFiles", "MemoryNetwork", "VirtualClock", "Weather", "World", "sim_run"]
