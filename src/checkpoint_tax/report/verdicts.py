"""The ledger's rows as a table: printed, recomputed, verdict, and why."""

import math
from collections.abc import Mapping

import pandas as pd

from checkpoint_tax.ledger import VERDICTS, quantity
from checkpoint_tax.report.tables import MINUS, MISSING, Column, Table, table

#: Verdict to its class in the style sheet.
VERDICT_CLASSES: Mapping[object, str] = {
    "reproduced": "verdict-holds",
    "within its noise": "verdict-holds",
    "true only when": "verdict-partly",
    "differs": "verdict-differs",
    "not computable here": "verdict-open",
    "open": "verdict-open",
}

_QUOTED = {"true only when": "“true only when”"}
_RECOMPUTED = ("computed", "low", "high", "unit", "rounding")


def verdict_table(
    frame: pd.DataFrame, *, name: str, caption: str, pages: Mapping[str, str] | None = None
) -> Table:
    """Claims beside what was recomputed for them.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of `checkpoint_tax.ledger.ledger_frame`.
    name : str
        Identifier of the table, unique in its chapter.
    caption : str
        What the table says.
    pages : mapping of str to str, optional
        Chapter to the address of its page; adds a column that names each claim's chapter, with
        a link where there is a page.

    Returns
    -------
    Table
    """
    parts = zip(*(frame[column] for column in _RECOMPUTED), strict=True)
    shown = frame.assign(recomputed=[_recomputed(*part) for part in parts])
    columns = {
        "statement": Column("claim", below="place"),
        "printed": Column("printed"),
        "recomputed": Column("recomputed"),
        "verdict": Column("verdict"),
        "reason": Column("why"),
    }
    if pages is not None:
        shown["page"] = [pages.get(chapter, "") for chapter in frame["chapter"]]
        shown["chapter"] = [
            MISSING if chapter == "later" else chapter.replace("-", " ")
            for chapter in frame["chapter"]
        ]
        columns["chapter"] = Column("chapter", link="page")
    return table(shown, columns, name=name, caption=caption, classes={"verdict": VERDICT_CLASSES})


def verdict_counts(frame: pd.DataFrame) -> str:
    """How many claims have each verdict, in words.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of `checkpoint_tax.ledger.ledger_frame`.

    Returns
    -------
    str
        Such as ``"12 reproduced, 9 “true only when”, 1 differs"``, in the order of the verdicts.
    """
    counted = frame["verdict"].value_counts()
    return ", ".join(
        f"{counted[name]} {_QUOTED.get(name, name)}" for name in VERDICTS if name in counted
    )


def counts_table(counts: pd.DataFrame, *, heading: str, name: str, caption: str) -> Table:
    """How many claims have each verdict.

    Parameters
    ----------
    counts : pandas.DataFrame
        As `checkpoint_tax.ledger.counts` returns it.
    heading : str
        Head of the first column.
    name : str
        Identifier of the table, unique in its chapter.
    caption : str
        What the table says.

    Returns
    -------
    Table
    """
    shown = counts.reset_index(names="group")
    columns = {"group": Column(heading)}
    columns |= {verdict: Column(verdict, digits=0) for verdict in VERDICTS}
    columns["claims"] = Column("claims", digits=0)
    return table(shown, columns, name=name, caption=caption)


def _recomputed(value: float, low: float, high: float, unit: str, rounding: float) -> str:
    """A computed number with its unit, and its range where it has one."""
    if math.isnan(value):
        return MISSING
    digits = None if math.isnan(rounding) else rounding
    text = quantity(value, unit, digits)
    if not math.isnan(low):
        text += f" [{quantity(low, '1', digits)}, {quantity(high, '1', digits)}]"
    return text.replace("-", MINUS).replace(f" {unit}", f"\u00a0{unit}")
