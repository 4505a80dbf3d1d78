"""Sourced facts about real jobs, and the claims that they alone decide."""

import csv
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger.claims import VENDOR, Claim
from checkpoint_tax.ledger.verdicts import Computed
from checkpoint_tax.resources import data_path

TAGS: Mapping[str, str] = {
    "V": "read in the source's own text",
    "S": "quoted by someone else",
    "D": "derived here from the source's figures",
}
FACT_COLUMNS = ("key", "value", "low", "high", "unit", "tag", "source", "note")
_KEY = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True)
class Fact:
    """One number with its source.

    Attributes
    ----------
    key : str
        Name of the fact.
    value : float
        The number in `unit`.
    unit : str
        Its unit.
    tag : str
        Key of `TAGS`: how well the number is known.
    source : str
        Where it is published.
    low, high : float or None
        A 95 % interval, or the two ends of what is printed as a range.
    note : str
        What the number means or how it was derived.
    text : str
        The value as the file writes it, with the digits that are meant.
    """

    key: str
    value: float
    unit: str
    tag: str
    source: str
    low: float | None = None
    high: float | None = None
    note: str = ""
    text: str = ""


def load_facts(path: Path | None = None) -> dict[str, Fact]:
    """Read the table of sourced facts.

    Parameters
    ----------
    path : pathlib.Path, optional
        A file in the form of ``data/facts.csv``, which is the default.

    Returns
    -------
    dict of str to Fact

    Raises
    ------
    InputError
        If a column or field is missing, a key is used twice, a tag is unknown, a number is
        not finite or lies outside its own interval.
    """
    source = data_path("facts.csv") if path is None else path
    with source.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, restkey="surplus", strict=True)
        if tuple(reader.fieldnames or ()) != FACT_COLUMNS:
            raise InputError(f"{source.name} must have the columns {', '.join(FACT_COLUMNS)}.")
        rows = list(reader)
    facts: dict[str, Fact] = {}
    for number, row in enumerate(rows, start=2):
        where = f"{source.name}, row {number} ({row['key'] or 'no key'})"
        if "surplus" in row or None in row.values():
            raise InputError(f"{where}: the row must have {len(FACT_COLUMNS)} fields.")
        fact = _fact(row, where)
        if fact.key in facts:
            raise InputError(f"{where}: this key is used twice.")
        facts[fact.key] = fact
    return facts


def _fact(row: Mapping[str, str], where: str) -> Fact:
    for field in ("key", "value", "unit", "tag", "source"):
        if not row[field]:
            raise InputError(f"{where}: {field} is empty.")
    if not _KEY.fullmatch(row["key"]) or row["key"] == VENDOR:
        raise InputError(f"{where}: a key is made of a-z, 0-9 and _, and is not {VENDOR!r}.")
    if row["tag"] not in TAGS:
        raise InputError(f"{where}: tag is {row['tag']!r}; allowed are {', '.join(TAGS)}.")
    if bool(row["low"]) != bool(row["high"]):
        raise InputError(f"{where}: low and high are given together or not at all.")
    try:
        value = float(row["value"])
        low, high = (float(row[end]) if row[end] else None for end in ("low", "high"))
    except ValueError:
        raise InputError(f"{where}: value, low and high must be numbers.") from None
    if not all(math.isfinite(x) for x in (value, low, high) if x is not None):
        raise InputError(f"{where}: value, low and high must be finite.")
    if low is not None and high is not None and not low <= value <= high:
        raise InputError(f"{where}: value {value:g} lies outside {low:g} to {high:g}.")
    return Fact(
        key=row["key"],
        value=value,
        unit=row["unit"],
        tag=row["tag"],
        source=row["source"],
        low=low,
        high=high,
        note=row["note"],
        text=row["value"],
    )


def load_interruptions(path: Path | None = None) -> dict[str, int]:
    """Unexpected interruptions of the Llama 3 405B run, by cause.

    Parameters
    ----------
    path : pathlib.Path, optional
        A file in the form of ``data/llama3-interruptions.csv``, which is the default.

    Returns
    -------
    dict of str to int
        Count by cause, in the order of the report.

    Raises
    ------
    InputError
        If a column is missing, a cause is named twice or a count is no positive whole number.
    """
    source = data_path("llama3-interruptions.csv") if path is None else path
    with source.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, strict=True)
        if tuple(reader.fieldnames or ()) != ("cause", "interruptions"):
            raise InputError(f"{source.name} must have the columns cause, interruptions.")
        counts: dict[str, int] = {}
        for row in reader:
            cause, text = row["cause"], row["interruptions"] or ""
            if cause in counts:
                raise InputError(f"{source.name}: cause {cause!r} is named twice.")
            if not text.isascii() or not text.isdigit() or int(text) == 0:
                raise InputError(
                    f"{source.name}: interruptions of {cause!r} is {text!r}; "
                    "it must be a positive whole number."
                )
            counts[cause] = int(text)
    return counts


def external_computed(
    claims: Iterable[Claim], facts: Mapping[str, Fact], interruptions: Mapping[str, int]
) -> dict[str, Computed]:
    """What the sourced facts say about each claim of chapter "ledger".

    Parameters
    ----------
    claims : iterable of Claim
    facts : mapping of str to Fact
        As `load_facts` returns it.
    interruptions : mapping of str to int
        As `load_interruptions` returns it.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.

    Raises
    ------
    InputError
        If a claim names an unknown fact, or one in another unit.
    """
    found: dict[str, Computed] = {}
    for claim in claims:
        if claim.claim_id == "guide.concl.gpu_hbm_largest":
            found[claim.claim_id] = _largest_causes(interruptions)
        elif claim.fact == VENDOR:
            found[claim.claim_id] = Computed(note=claim.reason)
        elif claim.fact:
            fact = facts.get(claim.fact)
            if fact is None:
                raise InputError(f"claim {claim.claim_id}: fact {claim.fact!r} does not exist.")
            if fact.unit != claim.unit:
                raise InputError(
                    f"claim {claim.claim_id} is in {claim.unit!r}, "
                    f"but fact {claim.fact!r} in {fact.unit!r}."
                )
            found[claim.claim_id] = Computed(
                value=fact.value,
                low=fact.low,
                high=fact.high,
                note=f"{fact.source}, {TAGS[fact.tag]} (tag {fact.tag})",
            )
    return found


def _largest_causes(interruptions: Mapping[str, int]) -> Computed:
    ranked = sorted(interruptions, key=lambda cause: interruptions[cause], reverse=True)
    holds = set(ranked[:2]) == {"faulty GPU", "HBM3 memory"}
    share = 100 * sum(interruptions[cause] for cause in ranked[:2]) / sum(interruptions.values())
    return Computed(
        holds_under_post=holds,
        holds_in_general=holds,
        note=f"the two largest causes, {ranked[0]} and {ranked[1]}, make {share:.1f} % of the "
        f"{sum(interruptions.values())} unexpected interruptions",
    )
