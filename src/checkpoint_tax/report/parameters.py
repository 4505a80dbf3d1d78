"""The parameters of a job as a table: value, unit, meaning, and where each comes from."""

import pandas as pd

from checkpoint_tax.report.tables import Column, Table, table


def parameters_table(parameters: pd.DataFrame) -> Table:
    """Every parameter of a job.

    Parameters
    ----------
    parameters : pandas.DataFrame
        Columns ``name``, ``value``, ``unit``, ``meaning``, ``kind`` and ``source``; one row a
        parameter.

    Returns
    -------
    Table
    """
    shown = parameters.assign(
        value=[_text(value) for value in parameters["value"]],
        origin=parameters["kind"] + ": " + parameters["source"],
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
