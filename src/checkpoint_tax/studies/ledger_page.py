"""The ledger: every claim of both posts, what was recomputed for it, and the verdict."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping

import pandas as pd

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import (
    POSTS,
    Computed,
    chance_count,
    counts,
    ledger_frame,
    load_claims,
    load_facts,
)
from checkpoint_tax.report.prose import Prose, listed
from checkpoint_tax.report.tables import Column, Download, Table, table
from checkpoint_tax.report.verdicts import counts_table, verdict_counts, verdict_table
from checkpoint_tax.studies import STUDIES

__all__ = [
    "CHAPTER",
    "SECTIONS",
    "answer",
    "claims_file",
    "collect",
    "counts_by",
    "frame",
    "open_table",
    "section_frame",
    "section_table",
]

CHAPTER = "ledger"

SECTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tax-table-1": ("the first post's table 1", ("tax.t1.",)),
    "tax-table-2": ("the first post's table 2", ("tax.t2.",)),
    "tax-tables-3-4": ("the first post's tables 3 and 4", ("tax.t3.", "tax.t4.")),
    "tax-text": ("the figures in the first post's text", ("tax.text.",)),
    "tax-conclusions": ("the first post's conclusions", ("tax.concl.",)),
    "guide-text": ("the figures in the second post's text", ("guide.text.",)),
    "guide-conclusions": ("the second post's conclusions", ("guide.concl.",)),
}
"""Part of the page to what it holds and how the ids of its claims begin."""


_POST_WORDS = {"tax": "first post", "guide": "second post"}


def collect(studies: Mapping[str, str] = STUDIES) -> dict[str, Computed]:
    """Ask every study for what it recomputed.

    Parameters
    ----------
    studies : mapping of str to str, optional
        Chapter to the name of its module in `checkpoint_tax.studies`. A module that does not
        exist yet leaves its chapter's claims open.

    Returns
    -------
    dict of str to Computed
        By claim id.

    Raises
    ------
    InputError
        If a study computes a claim of another chapter, or leaves out one of its own.
    """
    found: dict[str, Computed] = {}
    for chapter, module in _present(studies).items():
        computed = importlib.import_module(f"checkpoint_tax.studies.{module}").claims()
        own = {claim.claim_id for claim in load_claims() if claim.chapter == chapter}
        for problem, ids in (
            ("leaves out", own - computed.keys()),
            ("computes, though it is another chapter's,", computed.keys() - own),
        ):
            if ids:
                raise InputError(f"study {module} {problem} claim {min(ids)!r}.")
        found |= computed
    return found


def _present(studies: Mapping[str, str]) -> dict[str, str]:
    package = "checkpoint_tax.studies"
    return {
        chapter: module
        for chapter, module in studies.items()
        if importlib.util.find_spec(f"{package}.{module}")
    }


@functools.cache
def _judged() -> pd.DataFrame:
    return ledger_frame(collect())


def frame() -> pd.DataFrame:
    """Every claim with its verdict.

    Returns
    -------
    pandas.DataFrame
        As `checkpoint_tax.ledger.ledger_frame` returns it; the caller's own copy.
    """
    return _judged().copy()


def section_frame(section: str) -> pd.DataFrame:
    """The claims of one part of the page.

    Parameters
    ----------
    section : str
        Key of `SECTIONS`.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    InputError
        If there is no such part.
    """
    if section not in SECTIONS:
        raise InputError(f"section is {section!r}; allowed are {', '.join(SECTIONS)}.")
    judged = frame()
    prefixes = SECTIONS[section][1]
    return judged[[str(claim_id).startswith(prefixes) for claim_id in judged["claim_id"]]]


def section_table(section: str) -> Table:
    """One part of the ledger as a table.

    Parameters
    ----------
    section : str
        Key of `SECTIONS`.

    Returns
    -------
    Table
    """
    part = section_frame(section)
    what = SECTIONS[section][0]
    return verdict_table(
        part,
        name=section,
        caption=f"Claims of {what}: {verdict_counts(part)}.",
        pages={chapter: f"{chapter}.html" for chapter in _present(STUDIES)},
    )


def counts_by(by: str) -> Table:
    """How many claims have each verdict.

    Parameters
    ----------
    by : str
        "post", "chapter" or "kind".

    Returns
    -------
    Table
    """
    counted = counts(frame(), by)
    caption = f"Claims by {by} and verdict."
    if by == "post":
        counted = counted.rename(index=_POST_WORDS)
        named = [f"{words} is “{POSTS[post]}”" for post, words in _POST_WORDS.items()]
        caption += f" The {listed(named)}."
    elif by == "chapter":
        order = [name for name in (*STUDIES, CHAPTER, "later", "all") if name in counted.index]
        counted = counted.loc[order].rename(index=_chapter_words)
    return counts_table(counted, heading=by, name=f"counts-{by}", caption=caption)


def open_table() -> Table:
    """What the open claims wait for.

    Returns
    -------
    Table
    """
    judged = frame()
    waiting = judged[judged["verdict"] == "open"]
    reasons = waiting["reason"].str.removeprefix("Open: ").str.removesuffix(".")
    grouped = (
        pd.DataFrame({"reason": reasons, "claims": 1})
        .groupby("reason", sort=False, as_index=False)
        .sum()
        .sort_values("claims", ascending=False, kind="stable")
    )
    return table(
        grouped,
        {"reason": Column("waits for"), "claims": Column("claims", digits=0)},
        name="open",
        caption=f"The {len(waiting)} open claims, by what they wait for.",
    )


def claims_file() -> Download:
    """The filled ledger as a file to keep.

    Returns
    -------
    Download
        ``claims.csv``; the build puts it beside the page.
    """
    return Download("claims.csv", frame().to_csv(index=False, lineterminator="\n"))


def answer() -> Prose:
    """The page's answer in three sentences.

    Returns
    -------
    Prose
    """
    judged = frame()
    by_verdict = judged["verdict"].value_counts()
    n_open = int(by_verdict.get("open", 0))
    decided = len(judged) - n_open
    counted = {
        name: int(by_verdict.get(name, 0))
        for name in ("reproduced", "within its noise", "true only when", "differs")
    }
    clauses = {
        "reproduced": "reproduced",
        "within its noise": "within what one run of the post's length scatters",
        "true only when": "true only under a condition that the post does not state",
        "differs": "different from what is printed",
    }
    parts = [f"{count} {clauses[name]}" for name, count in counted.items() if count]
    not_here = int(by_verdict.get("not computable here", 0))
    if not_here:
        parts.append(f"{not_here} that only the vendor who makes them can check")
    first = f"The two posts make {len(judged)} claims, counted one by one; {decided} are judged"
    first += f", and {n_open} wait for a later chapter." if n_open else "."
    second = f"Among the judged ones are {listed(parts)}."
    chance = chance_count(judged)
    third = (
        f"Of the {chance.judged} that were read off a simulated run, {chance.outside} lie outside "
        f"the range that 95 % of such runs print, where chance alone would put about "
        f"{chance.expected:.0f}."
        if chance.judged
        else f"The facts about real jobs among them are compared with {len(load_facts())} sourced "
        "ones."
    )
    return Prose(f"{first} {second} {third}")


def _chapter_words(chapter: object) -> str:
    return "a later chapter" if chapter == "later" else str(chapter).replace("-", " ")
