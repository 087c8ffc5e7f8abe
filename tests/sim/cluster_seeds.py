"""Which seeds the simulations run with."""

SEEDS = (1, 3, 5)
AIMED_SEEDS = {
    "copy loop": (2, 4),
    "ending coordinators": (1, 3),
    "zombies": (2, 17),
    "late transactions": (1,),
    "queues": (0, 1),
    "streams groups": (1, 5),
    "secure clusters": (0, 1),
    "task handovers": (0,),
    "moving coordinators": (0, 2),
    "refused controllers": (0,),
    "changing voters": (1,),
    "slow followers": (0, 1),
    "late changes": (2,),
    "several deaths": (13,),
    "short snapshots": (1,),
    "consumer groups": (0,),
    "changed protocols": (0,),
    "unclean elections": (0,),
    "joining brokers": (0,),
    "full disks": (0,),
    "compacted topics": (0,),
    "long lives": (1,),
}
"""Of each scenario. These and ``SEEDS`` show the planted bugs: without a bug they show nothing."""
