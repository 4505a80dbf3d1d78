"""Sentences whose numbers come from code, shown as text rather than as a quoted string."""

from dataclasses import dataclass

LEAST_POINTS = 0.005
"""Smaller differences of goodput [percentage points] are not told apart in prose."""


@dataclass(frozen=True)
class Prose:
    """A text that displays itself in a notebook.

    Attributes
    ----------
    markdown : str
        CommonMark, without formulas.
    """

    markdown: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/markdown": self.markdown, "text/plain": self.markdown}

    def __str__(self) -> str:
        return self.markdown


def percent(share: float, digits: int = 2) -> str:
    """A share in percent.

    Parameters
    ----------
    share : float
        Pure number.
    digits : int
        Decimals.

    Returns
    -------
    str
        Such as ``"91.57 %"``.
    """
    return f"{100.0 * share:.{digits}f} %"


def points(difference: float) -> str:
    """A difference of two shares in percentage points.

    Parameters
    ----------
    difference : float
        Pure number.

    Returns
    -------
    str
        Such as ``"0.49 points"``; differences too small to matter are named as such.
    """
    shown = 100.0 * difference
    if abs(shown) < LEAST_POINTS:
        return "less than 0.01 points"
    return f"{shown:.2f} points"


def listed(parts: list[str]) -> str:
    """Several things in one clause.

    Parameters
    ----------
    parts : list of str
        At least one.

    Returns
    -------
    str
        Such as ``"saves, rework and restarts"``.
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
