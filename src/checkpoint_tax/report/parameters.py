"""The parameters of a job as a table: value, unit, meaning, and where each comes from."""

from collections.abc import Container

import pandas as pd

from checkpoint_tax.report.tables import Column, Table, table


def parameters_table(parameters: pd.DataFrame, names: Container[str] | None = None) -> Table:
    """The parameters of a job.

    Parameters
    ----------
    parameters : pandas.DataFrame
        Columns ``name``, ``value``, ``unit``, ``meaning``, ``kind`` and ``source``; one row a
        parameter.
    names : container of str, optional
        Those to show, such as the ones that a chapter declares; all if left out.

    Returns
    -------
    Table
    """
    asked = [names is None or name in names for name in parameters["name"]]
    used = parameters[asked]
    shown = used.assign(
        value=[_text(value) for value in used["value"]],
        origin=used["kind"] + ": " + used["source"],
    )
    return table(
        shown,
        {
            "name": Column("parameter", below="meaning"),
            "value": Column("value"),
            "unit": Column("unit"),
            "origin": Column("from"),
        },
        name="parameters",
        caption="The job of this chapter.",
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.10g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
