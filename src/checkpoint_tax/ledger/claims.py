"""The claims of both posts: one row for every printed number and every conclusion."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger.printed import read_printed
from checkpoint_tax.resources import data_path

POSTS: Mapping[str, str] = {
    "tax": "The Checkpoint Tax at 16k GPUs: Daly's Formula Stopped Working",
    "guide": "Checkpointing at scale: stop losing hours to failed nodes",
}
KINDS: Mapping[str, str] = {
    "input": "assumed by the post; judged by what its other figures imply",
    "exact": "follows from the post's inputs without chance",
    "statistical": "read from one simulated run whose seed and length are not printed",
    "unstated-stream": "depends on a stream of gradients that the post does not print",
    "external-fact": "a fact about the world, compared with the table of sourced facts",
    "conclusion": "a statement drawn from numbers",
}
#: Chapter that recomputes a claim; "ledger" compares with sourced facts, "later" is open.
CHAPTERS = (
    "interval-mathematics",
    "daly-against-simulation",
    "cost-saturates",
    "torn-checkpoints",
    "spike-gate",
    "ledger",
    "later",
)
#: Key of a claim that only its vendor can vouch for.
VENDOR = "vendor"

COLUMNS = (
    "claim_id",
    "post",
    "place",
    "statement",
    "printed",
    "relation",
    "value",
    "unit",
    "rounding",
    "kind",
    "chapter",
    "fact",
    "reason",
)
_CLAIM_ID = re.compile(r"(tax|guide)\.(t\d+\.[a-z0-9]+|text|concl)\.[a-z0-9_]+")
_REQUIRED = ("claim_id", "post", "place", "statement", "printed", "kind", "chapter")
_NUMERIC = ("relation", "value", "unit", "rounding")


@dataclass(frozen=True)
class Claim:
    """One printed number or conclusion of a post.

    Attributes
    ----------
    claim_id : str
        Name used everywhere, such as ``"tax.t1.n16384.blk_gp"``.
    post : str
        Key of `POSTS`.
    place : str
        Where the post prints it.
    statement : str
        The claim in this study's words.
    printed : str
        As printed.
    kind : str
        Key of `KINDS`; decides the rule of the verdict.
    chapter : str
        One of `CHAPTERS`.
    relation : str
        How the printed text bounds the number; empty where nothing is counted.
    value : float or None
        The printed number in `unit`; the middle of a range, the bound of "<" and ">".
    unit : str
        Unit of `value` and of whatever is compared with it; "%" is percent, not a fraction.
    rounding : float or None
        Half a unit of the last printed digit, in `unit`; half the width of a range.
    fact : str
        Key into the sourced facts, or ``"vendor"``; empty unless the claim is an external fact.
    reason : str
        Why no chapter recomputes it yet, or why none can.
    """

    claim_id: str
    post: str
    place: str
    statement: str
    printed: str
    kind: str
    chapter: str
    relation: str = ""
    value: float | None = None
    unit: str = ""
    rounding: float | None = None
    fact: str = ""
    reason: str = ""


def load_claims(path: Path | None = None) -> tuple[Claim, ...]:
    """Read the list of claims and refuse a row that contradicts itself.

    Parameters
    ----------
    path : pathlib.Path, optional
        A file in the form of ``data/claims.csv``, which is the default.

    Returns
    -------
    tuple of Claim
        In the order of the file.

    Raises
    ------
    InputError
        If a column or field is missing, an id is used twice or does not follow the scheme, a
        kind, chapter or relation is unknown, or value and rounding are not those of the
        printed text.
    """
    source = data_path("claims.csv") if path is None else path
    with source.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, restkey="surplus", strict=True)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise InputError(f"{source.name} must have the columns {', '.join(COLUMNS)}.")
        rows = list(reader)
    claims: dict[str, Claim] = {}
    for number, row in enumerate(rows, start=2):
        where = f"{source.name}, row {number} ({row['claim_id'] or 'no claim_id'})"
        if "surplus" in row or None in row.values():
            raise InputError(f"{where}: the row must have {len(COLUMNS)} fields.")
        claim = _claim(row, where)
        if claim.claim_id in claims:
            raise InputError(f"{where}: this claim_id is used twice.")
        claims[claim.claim_id] = claim
    return tuple(claims.values())


def _claim(row: Mapping[str, str], where: str) -> Claim:
    for field, text in row.items():
        if text != text.strip():
            raise InputError(f"{where}: {field} {text!r} begins or ends with a blank.")
    for field in _REQUIRED:
        if not row[field]:
            raise InputError(f"{where}: {field} is empty.")
    if not _CLAIM_ID.fullmatch(row["claim_id"]):
        raise InputError(
            f"{where}: claim_id must read post.table.row.column, post.text.name or post.concl.name."
        )
    post, part = row["claim_id"].split(".")[:2]
    if row["post"] != post or post not in POSTS:
        raise InputError(f"{where}: post is {row['post']!r}, but the id begins with {post!r}.")
    for field, allowed in (("kind", tuple(KINDS)), ("chapter", CHAPTERS)):
        if row[field] not in allowed:
            raise InputError(
                f"{where}: {field} is {row[field]!r}; allowed are {', '.join(allowed)}."
            )
    if (row["kind"] == "conclusion") != (part == "concl"):
        raise InputError(f"{where}: kind is {row['kind']!r}, which does not fit the id.")
    if (row["kind"] == "external-fact") != bool(row["fact"]):
        raise InputError(f"{where}: an external fact, and nothing else, names its fact.")
    if row["kind"] == "external-fact" and row["chapter"] != "ledger":
        raise InputError(f"{where}: an external fact belongs to chapter 'ledger'.")
    if (row["chapter"] == "later" or row["fact"] == VENDOR) != bool(row["reason"]):
        raise InputError(
            f"{where}: a reason is needed for chapter 'later' and for a vendor's statement, "
            "and for nothing else."
        )
    value, rounding = _number(row, where)
    return Claim(
        claim_id=row["claim_id"],
        post=post,
        place=row["place"],
        statement=row["statement"],
        printed=row["printed"],
        kind=row["kind"],
        chapter=row["chapter"],
        relation=row["relation"],
        value=value,
        unit=row["unit"],
        rounding=rounding,
        fact=row["fact"],
        reason=row["reason"],
    )


def _number(row: Mapping[str, str], where: str) -> tuple[float | None, float | None]:
    given = [field for field in _NUMERIC if row[field]]
    if not given and row["kind"] == "conclusion":
        return None, None
    if len(given) != len(_NUMERIC):
        missing = ", ".join(field for field in _NUMERIC if not row[field])
        raise InputError(f"{where}: {missing} is empty.")
    try:
        value, rounding = Decimal(row["value"]), Decimal(row["rounding"])
    except InvalidOperation:
        raise InputError(
            f"{where}: value {row['value']!r} and rounding {row['rounding']!r} must be numbers."
        ) from None
    if not (value.is_finite() and rounding.is_finite()):
        raise InputError(f"{where}: value and rounding must be finite.")
    try:
        printed = read_printed(row["printed"], row["relation"])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if value != printed.value:
        raise InputError(f"{where}: value {value} is not the {printed.value} that is printed.")
    # A zero may be meant exactly: the posts print "0.0" for a difference that has no bits set.
    if rounding != printed.rounding and not (value == 0 and rounding == 0):
        raise InputError(
            f"{where}: rounding {rounding} is not the {printed.rounding} of the printed text."
        )
    return float(value), float(rounding)
