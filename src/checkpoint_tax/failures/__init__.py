"""Logs of failures: reading them, merging their records, estimating, and scaling to other sizes."""

from checkpoint_tax.failures.detection import KINDS
from checkpoint_tax.failures.estimates import mtbf_interval, shape_power
from checkpoint_tax.failures.fits import Fit, fit_gaps
from checkpoint_tax.failures.log import FailureLog, as_json, read_failures
from checkpoint_tax.failures.scale import (
    Anchor,
    Topology,
    compare_anchors,
    published_anchors,
    scale_mtbf,
)

__all__ = [
    "KINDS",
    "Anchor",
    "FailureLog",
    "Fit",
    "Topology",
    "as_json",
    "compare_anchors",
    "fit_gaps",
    "mtbf_interval",
    "published_anchors",
    "read_failures",
    "scale_mtbf",
    "shape_power",
]
