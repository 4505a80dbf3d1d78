"""Units of the project.

Inside the package a time is a plain float in seconds and a size a plain number of bytes;
names carry the unit at each border (``drain_s``, ``gpu_mtbf_h``, ``state_bytes``). Other
units exist only where a person types or reads a number.
"""

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 86400.0

#: Shares are pure numbers inside; people print them in percent.
PER_CENT = 0.01

#: Decimal sizes, as vendors print them.
GB_BYTES = 1e9
TB_BYTES = 1e12
#: Binary sizes, as operating systems print them; 1 GiB is 7.4 % more than 1 GB.
GIB_BYTES = 2.0**30
TIB_BYTES = 2.0**40

#: How a person writes the unit of each kind of number; "1" marks a pure number.
DIMENSIONLESS = "1"


def duration_text(time_s: float) -> str:
    """Write a time span in the unit that reads best.

    Parameters
    ----------
    time_s : float
        Time span [s].

    Returns
    -------
    str
        For example ``"210 s"``, ``"37.95 min"``, ``"3.05 h"`` or ``"54 d"``.
    """
    size = abs(time_s)
    if size < 10 * MINUTE_S:
        return f"{time_s:.4g} s"
    if size < 2 * HOUR_S:
        return f"{time_s / MINUTE_S:.4g} min"
    if size < 4 * DAY_S:
        return f"{time_s / HOUR_S:.4g} h"
    return f"{time_s / DAY_S:.4g} d"
