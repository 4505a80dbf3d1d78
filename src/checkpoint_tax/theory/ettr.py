"""Effective training time ratio, first-order estimate of Kokolis et al."""

from numpy.typing import ArrayLike

from checkpoint_tax.theory.validation import FloatArray, real


def kokolis(
    work_s: ArrayLike, blocking_s: ArrayLike, job_mtbf_s: ArrayLike, restart_s: ArrayLike
) -> FloatArray:
    """Productive share of a job's scheduled time, first order.

    Not to be confused with goodput: the authors count against the job what its own saves,
    restarts and lost work take while it is scheduled; stragglers are not seen, and time in the
    queue, which their general definition includes, is left out of this form.

    Parameters
    ----------
    work_s : array_like
        Time of training between two saves [s], above 0; the paper's checkpoint interval dt_cp.
    blocking_s : array_like
        Time one save stops training [s], at least 0; the paper's write overhead w_cp.
    job_mtbf_s : array_like
        Mean up-time between failures of the job [s], above 0: one over the product of the
        paper's number of nodes N and failure rate per node r_f.
    restart_s : array_like
        Failure to first recomputed step [s], at least 0; the paper's u_0.

    Returns
    -------
    ndarray
        ``(1 - N r_f (u_0 + dt_cp/2)) / (1 + w_cp/dt_cp)`` (pure number), broadcast shape.
        Negative where a failure costs more than the time between two: a sign that first order
        does not apply. Never clipped.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Against the exact goodput of `renewal.goodput` it leaves out failures that strike a save,
    a difference of about C/(2M), and everything of second order.

    References
    ----------
    A. Kokolis et al., "Revisiting reliability in large-scale machine learning research
    clusters", arXiv:2410.21680, the analytical estimate of expected ETTR.
    """
    work = real("work_s", work_s, above=0.0)
    stop = real("blocking_s", blocking_s, at_least=0.0)
    mtbf = real("job_mtbf_s", job_mtbf_s, above=0.0)
    restart = real("restart_s", restart_s, at_least=0.0)
    return (1.0 - (restart + work / 2.0) / mtbf) / (1.0 + stop / work)
