"""The first post's printed tables, for showing beside recomputed ones."""

import pandas as pd

from checkpoint_tax.errors import InputError
from checkpoint_tax.resources import data_path

#: Columns that are texts; all others are numbers.
_TEXTS = ("async_best_relation", "target")


def post_table(number: int) -> pd.DataFrame:
    """One printed table of the first post.

    Parameters
    ----------
    number : int
        1 (intervals and goodput by size), 2 (sweep of the interval), 3 (target versions) or 4
        (gradient spikes).

    Returns
    -------
    pandas.DataFrame
        One row a printed row; units stand in the column names, shares are in percent.

    Raises
    ------
    InputError
        If there is no such table.
    """
    if isinstance(number, bool) or number not in (1, 2, 3, 4):
        raise InputError(f"table number is {number!r}; allowed are 1, 2, 3, 4.")
    # Numbers are never "<10": the bound has a column of its own.
    return pd.read_csv(
        data_path(f"post-table-{number}.csv"), dtype=dict.fromkeys(_TEXTS, str), encoding="utf-8"
    )
