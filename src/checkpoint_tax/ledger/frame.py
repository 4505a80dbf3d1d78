"""The ledger as a table: every claim with its verdict, and the counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger.claims import Claim, load_claims
from checkpoint_tax.ledger.facts import external_computed, load_facts, load_interruptions
from checkpoint_tax.ledger.verdicts import (
    DIFFERS,
    NOT_COMPUTABLE,
    OPEN,
    VERDICTS,
    Computed,
    verdict,
)

FRAME_COLUMNS = (
    "claim_id",
    "post",
    "place",
    "statement",
    "printed",
    "relation",
    "value",
    "unit",
    "rounding",
    "kind",
    "chapter",
    "computed",
    "low",
    "high",
    "verdict",
    "reason",
)
#: Share of statistical claims that chance alone puts outside a 95 % range.
CHANCE_OUTSIDE = 0.05


def ledger_frame(
    computed: Mapping[str, Computed], *, claims: tuple[Claim, ...] | None = None
) -> pd.DataFrame:
    """Judge every claim.

    Parameters
    ----------
    computed : mapping of str to Computed
        What the chapters recomputed, by claim id. Claims that the sourced facts decide are
        added here.
    claims : tuple of Claim, optional
        Default: every claim of both posts.

    Returns
    -------
    pandas.DataFrame
        One row a claim in the order of the list, columns `FRAME_COLUMNS`; `computed`, `low`
        and `high` are in the claim's unit, NaN where there is none.

    Raises
    ------
    InputError
        If an id is unknown, or a chapter computes a claim that is not its to compute.
    """
    listed = load_claims() if claims is None else claims
    by_id = {claim.claim_id: claim for claim in listed}
    facts = external_computed(listed, load_facts(), load_interruptions())
    for claim_id in computed:
        if claim_id not in by_id:
            raise InputError(f"claim {claim_id!r} is computed but not in the list of claims.")
        if claim_id in facts:
            raise InputError(f"claim {claim_id!r} is decided by the sourced facts alone.")
        if by_id[claim_id].chapter == "later":
            raise InputError(
                f"claim {claim_id!r} is computed but listed as later: give it its chapter."
            )
    found = {**facts, **computed}
    rows = []
    for claim in listed:
        result = found.get(claim.claim_id)
        judged = verdict(claim, result)
        row = {name: getattr(claim, name) for name in FRAME_COLUMNS[:11]}
        row["computed"] = result.value if result else None
        row["low"] = result.low if result else None
        row["high"] = result.high if result else None
        row["verdict"], row["reason"] = judged.name, judged.reason
        rows.append(row)
    frame = pd.DataFrame(rows, columns=list(FRAME_COLUMNS))
    numeric = ["value", "rounding", "computed", "low", "high"]
    return frame.astype(dict.fromkeys(numeric, "float64"))


def counts(frame: pd.DataFrame, by: str = "chapter") -> pd.DataFrame:
    """How many claims have each verdict.

    Parameters
    ----------
    frame : pandas.DataFrame
        As `ledger_frame` returns it.
    by : str, optional
        Column whose values make the rows: "chapter", "post" or "kind".

    Returns
    -------
    pandas.DataFrame
        One row a value of `by` in order of appearance and a last row "all"; one column a
        verdict, also those with no claim, and a last column "claims".

    Raises
    ------
    InputError
        If `by` is none of the three columns.
    """
    if by not in ("chapter", "post", "kind"):
        raise InputError(f"by is {by!r}; allowed are chapter, post, kind.")
    groups = list(dict.fromkeys(frame[by]))
    table = pd.crosstab(frame[by], frame["verdict"]).reindex(
        index=groups, columns=list(VERDICTS), fill_value=0
    )
    table.loc["all"] = table.sum()
    table["claims"] = table.sum(axis=1)
    return table.rename_axis(index=by, columns=None)


@dataclass(frozen=True)
class ChanceCount:
    """Statistical claims outside their range, against what chance alone puts there.

    Attributes
    ----------
    judged : int
        Statistical claims with a verdict.
    outside : int
        Those that differ.
    expected : float
        Mean number outside if the post's model were exactly the one recomputed. Figures of
        one run share its failures, so the number scatters more than independent draws would.
    """

    judged: int
    outside: int
    expected: float


def chance_count(frame: pd.DataFrame) -> ChanceCount:
    """Count the statistical claims outside their range.

    Parameters
    ----------
    frame : pandas.DataFrame
        As `ledger_frame` returns it.

    Returns
    -------
    ChanceCount
    """
    statistical = frame[frame["kind"] == "statistical"]
    judged = statistical[~statistical["verdict"].isin([OPEN, NOT_COMPUTABLE])]
    outside = int((judged["verdict"] == DIFFERS).sum())
    return ChanceCount(len(judged), outside, CHANCE_OUTSIDE * len(judged))


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write the ledger to a file that reads back without loss.

    Parameters
    ----------
    frame : pandas.DataFrame
        As `ledger_frame` returns it.
    path : pathlib.Path
        File to write; its folder is made where it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False, encoding="utf-8", lineterminator="\n")
