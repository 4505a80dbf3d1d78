"""One module per chapter: what a notebook calls, and nothing that a notebook could not show.

Each study has ``CHAPTER`` (the chapter's name in the list of claims), ``answer(job)`` (its
answer in three sentences), tables and charts, and ``claims()``: what it recomputed for each of
the chapter's claims, always for the posts' own parameters, whatever job a reader asks about.
"""

from collections.abc import Mapping

#: Chapter to the module of this package that recomputes its claims, in reading order.
STUDIES: Mapping[str, str] = {
    "interval-mathematics": "interval_mathematics",
    "daly-against-simulation": "daly_against_simulation",
    "cost-saturates": "cost_saturates",
    "torn-checkpoints": "torn_checkpoints",
    "spike-gate": "spike_gate",
}
