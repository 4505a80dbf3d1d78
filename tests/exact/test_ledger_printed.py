"""Reading a printed number: value and rounding follow from the text alone."""

from decimal import Decimal

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import read_printed


@pytest.mark.parametrize(
    ("printed", "relation", "value", "rounding"),
    [
        ("97.66h", "=", "97.66", "0.005"),
        ("1736", "=", "1736", "0.5"),
        ("43,200 s", "=", "43200", "0.5"),
        ("2.80%", "=", "2.80", "0.005"),
        ("5.9e-2", "=", "0.059", "0.0005"),
        ("1.2e-07", "=", "1.2e-7", "5e-9"),
        ("1.0e+00", "=", "1", "0.05"),
        ("7.50x", "=", "7.5", "0.005"),
        ("x1000", "=", "1000", "0.5"),
        ("arXiv:2511.07035", "=", "2511.07035", "0.000005"),
        ("8\u00d7H100", "=", "8", "0.5"),
        ("half an interval", "=", "0.5", "0"),
        ("triple-replicated", "=", "3", "0.5"),
        ("16k GPUs", "~", "16000", "500"),
        ("16,000", "~", "16000", "500"),
        ("about 980 GB", "~", "980", "5"),
        ("about 12 bytes", "~", "12", "0.5"),
        ("roughly every three hours", "~", "3", "0.5"),
        ("<10", "<", "10", "0"),
        ("more than an order of magnitude", ">", "10", "0"),
        ("10-20 minutes", "range", "15", "5"),
        ("12-14 bytes per parameter", "range", "13", "1"),
        ("two or three", "range", "2.5", "0.5"),
        ("1970s", "range", "1975", "5"),
    ],
)
def test_value_and_rounding(printed: str, relation: str, value: str, rounding: str) -> None:
    read = read_printed(printed, relation)
    assert (read.value, read.rounding) == (Decimal(value), Decimal(rounding))


@pytest.mark.parametrize(
    ("printed", "relation", "message"),
    [
        ("no number here", "=", "exactly one number"),
        ("7 of 8", "=", "exactly one number"),
        ("about ten", "range", "the form '10-20'"),
        ("12", "≈", "allowed are"),
    ],
)
def test_other_texts_are_refused(printed: str, relation: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_printed(printed, relation)
