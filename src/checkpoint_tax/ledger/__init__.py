"""The ledger: every claim of both posts, and the verdict that fixed rules give it."""

from checkpoint_tax.ledger.claims import CHAPTERS, KINDS, POSTS, Claim, load_claims
from checkpoint_tax.ledger.facts import (
    TAGS,
    Fact,
    external_computed,
    load_facts,
    load_interruptions,
)
from checkpoint_tax.ledger.frame import (
    FRAME_COLUMNS,
    ChanceCount,
    chance_count,
    counts,
    ledger_frame,
    write_csv,
)
from checkpoint_tax.ledger.printed import RELATIONS, Printed, read_printed
from checkpoint_tax.ledger.tables import post_table
from checkpoint_tax.ledger.verdicts import VERDICTS, Computed, Verdict, quantity, verdict

__all__ = [
    "CHAPTERS",
    "FRAME_COLUMNS",
    "KINDS",
    "POSTS",
    "RELATIONS",
    "TAGS",
    "VERDICTS",
    "ChanceCount",
    "Claim",
    "Computed",
    "Fact",
    "Printed",
    "Verdict",
    "chance_count",
    "counts",
    "external_computed",
    "ledger_frame",
    "load_claims",
    "load_facts",
    "load_interruptions",
    "post_table",
    "quantity",
    "read_printed",
    "verdict",
    "write_csv",
]
