"""Availability and the period that maximises it, after Saxena et al."""

import numpy as np
from numpy.typing import ArrayLike

from checkpoint_tax.theory.validation import FloatArray, real


def saxena_interval_s(
    blocking_s: ArrayLike, job_mtbf_s: ArrayLike, restart_s: ArrayLike
) -> FloatArray:
    """Period, save included, that maximises availability.

    Not to be confused with the work between two saves: subtract ``blocking_s`` for that.

    Parameters
    ----------
    blocking_s : array_like
        T_s, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        T_f, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        T_r, time to recover [s], at least 0.

    Returns
    -------
    ndarray
        ``T_s + sqrt(2 (T_f + T_r) T_s + T_s^2)`` [s], broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Stationary point of `saxena`: ``T_c^2 - 2 T_s T_c - 2 (T_f + T_r) T_s = 0``. The exact optimum
    (`renewal.best_work_s` plus the save) does not depend on the restart; here it does, because
    availability charges failures to up-time only, not to the time spent recomputing.

    References
    ----------
    N. R. Saxena, S. Hukerikar, M. Blaz, S. Raj, "Optimal checkpoint interval with availability
    as an objective function", arXiv:2410.18124, abstract.
    """
    save = real("blocking_s", blocking_s, at_least=0.0)
    mtbf = real("job_mtbf_s", job_mtbf_s, above=0.0)
    restart = real("restart_s", restart_s, at_least=0.0)
    root: FloatArray = np.sqrt(save) * np.sqrt(2.0 * (mtbf + restart) + save)
    return save + root


def saxena(
    period_s: ArrayLike, blocking_s: ArrayLike, job_mtbf_s: ArrayLike, restart_s: ArrayLike
) -> FloatArray:
    """Availability whose maximum is at `saxena_interval_s`.

    Parameters
    ----------
    period_s : array_like
        T_c, time between the starts of two saves, the save included [s], at least ``blocking_s``.
    blocking_s : array_like
        T_s, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        T_f, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        T_r, time to recover [s], at least 0.

    Returns
    -------
    ndarray
        ``(1 - T_s/T_c) T_f / (T_f + T_r + T_c/2)`` (pure number), broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range or a period is shorter than its save.

    Notes
    -----
    Half a period is recomputed after each failure on top of the up-time, without failing again.

    References
    ----------
    N. R. Saxena et al., arXiv:2410.18124. The paper's abstract prints the optimum; this objective
    was reconstructed here as the one of that form whose stationary point it is.
    """
    period = real("period_s", period_s, above=0.0)
    save = real("blocking_s", blocking_s, at_least=0.0)
    mtbf = real("job_mtbf_s", job_mtbf_s, above=0.0)
    restart = real("restart_s", restart_s, at_least=0.0)
    real("period_s - blocking_s", period - save, at_least=0.0)
    return (1.0 - save / period) * mtbf / (mtbf + restart + period / 2.0)
