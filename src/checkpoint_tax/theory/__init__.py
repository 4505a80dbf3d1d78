"""Closed forms for the cost of saving and failing: one published method per module.

Everything is in seconds and broadcasts over NumPy arrays; where every input is a scalar the
result is a NumPy scalar. Failures are exponential with mean up-time ``job_mtbf_s``. Nothing
here samples: the simulator is checked against these functions, so neither may import the other.

Modules
-------
young, daly
    First-order and higher-order intervals for saves that block.
renewal
    Exact expected wall time, goodput and best interval for saves that block.
nonblocking
    Exact goodput, loss breakdown and best interval for saves that drain while training goes on.
boundary
    From which scale on the best interval is the drain itself.
waste
    The first-order waste sum, part by part.
ettr, availability
    Two other published figures of merit, with what separates them from goodput.
"""

from checkpoint_tax.theory import (
    availability,
    boundary,
    daly,
    ettr,
    nonblocking,
    renewal,
    waste,
    young,
)

__all__ = [
    "availability",
    "boundary",
    "daly",
    "ettr",
    "nonblocking",
    "renewal",
    "waste",
    "young",
]
