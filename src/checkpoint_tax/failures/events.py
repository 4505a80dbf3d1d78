"""What a reader takes from a log: runs that ended, or incidents that happened."""

import re
from array import array
from dataclasses import dataclass, field
from typing import Any

from checkpoint_tax.failures.causes import UNKNOWN
from checkpoint_tax.failures.lines import RecordBook
from checkpoint_tax.failures.stamps import Clock, YearlessClock

#: Nodes named "all" of a cluster.
WHOLE_CLUSTER = frozenset({"*all*"})
_ALL = {"all", "*", "any", "cluster", "entire cluster", "whole cluster", "all nodes"}
_LONGEST_RANGE = 100_000


@dataclass(slots=True)
class Run:
    """One allocation or run of a job: exposure, and how it ended.

    Attributes
    ----------
    line : int
        Where the log holds it.
    position : int
        Its note in the record book.
    run_id, name : str
        Of the job.
    up_s : float or None
        Time that it ran [s]; None if the log does not say.
    start_s, end_s : float or None
        Instants [s since 1970, UTC].
    failed : bool
        Whether a failure ended it.
    failure_class : str
        Class of that failure; what else ended it is not a failure.
    submit_s : float or None
        When it began to wait for its nodes.
    nodes : float or None
        How many it had.
    """

    line: int
    position: int
    run_id: str
    name: str
    up_s: float | None
    start_s: float | None
    end_s: float | None
    failed: bool
    failure_class: str = ""
    submit_s: float | None = None
    nodes: float | None = None


@dataclass(slots=True)
class Incident:
    """One record of something that went wrong.

    Attributes
    ----------
    line, position : int
        Where the log holds it, and its note in the record book.
    incident_id : str
        Empty if there is none.
    start_s, end_s : float or None
        Instants [s since 1970, UTC].
    is_open : bool
        The log says that it has not ended.
    nodes : frozenset of str
        Names of what it hit; empty if the log does not say.
    places : frozenset of str
        Where in the topology, each as "rack=7"; empty if the log does not say.
    failure_class : str
        Its class.
    resolution_s : float
        How finely its start is written [s].
    """

    line: int
    position: int
    incident_id: str
    start_s: float | None
    end_s: float | None = None
    is_open: bool = False
    nodes: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    failure_class: str = UNKNOWN
    resolution_s: float = 1.0


@dataclass
class Warnings:
    """Sentences for the user; those of one kind are told once, with their first lines.

    Attributes
    ----------
    sentences : list of str
        Told once each.
    """

    sentences: list[str] = field(default_factory=list)
    _lines: dict[str, list[int]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def say(self, sentence: str) -> None:
        """Add a sentence.

        Parameters
        ----------
        sentence : str
            Whole, with its full stop.
        """
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def at(self, line: int, what: str) -> None:
        """Add a line to those of which something is said.

        Parameters
        ----------
        line : int
            Its number.
        what : str
            Said of it.
        """
        self._counts[what] = self._counts.get(what, 0) + 1
        lines = self._lines.setdefault(what, [])
        if len(lines) < 10:
            lines.append(line)

    def all(self) -> list[str]:
        """List every sentence.

        Returns
        -------
        list of str
        """
        told = []
        for what, lines in self._lines.items():
            more = self._counts[what] - len(lines)
            word = "line" if self._counts[what] == 1 else "lines"
            tail = f" and {more} more" if more else ""
            told.append(f"{word} {', '.join(map(str, lines))}{tail}: {what}.")
        return [*told, *self.sentences]


@dataclass
class Reading:
    """Everything taken from one log.

    Attributes
    ----------
    kind : str
        Kind of log.
    basis : str
        ``"runs"`` or ``"incidents"``: what exposure is counted by.
    clock : Clock
        Reads its stamps.
    yearless : YearlessClock or None
        Reads its stamps without a year.
    book : RecordBook
        Fate of each line.
    warnings : Warnings
        What the user should know.
    runs : list of Run
        For ``"runs"``.
    incidents : list of Incident
        For ``"incidents"``: failures; what is planned is noted in `planned`.
    planned : list of Incident
        Planned work.
    set_aside : dict of str to int
        Failures by class that do not count for the MTBF.
    untimed : int
        Failures known only as a count.
    window_s : tuple of float or None
        First and last instant of what was observed, if the log shows it.
    restarts_s : list of tuple of float and bool
        Each restart [s], and whether it had ended.
    raw_starts_s : array of float
        Instants of the single records behind runs that a reader has merged itself.
    only_rate : bool
        The log has a count of failures, not their times.
    roles : dict of str to str
        Column by role.
    """

    kind: str
    basis: str
    clock: Clock
    yearless: YearlessClock | None = None
    book: RecordBook = field(default_factory=RecordBook)
    warnings: Warnings = field(default_factory=Warnings)
    runs: list[Run] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    planned: list[Incident] = field(default_factory=list)
    set_aside: dict[str, int] = field(default_factory=dict)
    untimed: int = 0
    window_s: tuple[float, float] | None = None
    restarts_s: list[tuple[float, bool]] = field(default_factory=list)
    raw_starts_s: "array[float]" = field(default_factory=lambda: array("d"))
    only_rate: bool = False
    roles: dict[str, str] = field(default_factory=dict)

    def put_aside(self, failure_class: str) -> None:
        """Count a failure that says nothing about the MTBF.

        Parameters
        ----------
        failure_class : str
            Its class.
        """
        self.set_aside[failure_class] = self.set_aside.get(failure_class, 0) + 1


def node_names(text: str) -> frozenset[str]:
    """Read a list of nodes.

    Parameters
    ----------
    text : str
        Such as ``"gpu[001-004,9], GPU050 "``; a domain or port after a name is cut off.

    Returns
    -------
    frozenset of str
        Lower-case names; `WHOLE_CLUSTER` for "ALL"; empty if nothing is named.
    """
    text = text.strip().strip("[]").strip() if text.strip().startswith("[") else text.strip()
    low = text.lower()
    if low in _ALL:
        return WHOLE_CLUSTER
    if low in ("", "none", "none assigned", "unknown", "n/a", "null", "-"):
        return frozenset()
    names: set[str] = set()
    for part in re.findall(r"[^\s,;\[\]]*(?:\[[^\]]*\][^\s,;\[\]]*)+|[^\s,;\[\]]+", low):
        names.update(_expanded(part.strip("'\"")))
    return frozenset(name for name in names if name)


def _expanded(part: str) -> list[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if match is None:
        name = re.sub(r":\d+$", "", part)
        is_address = re.fullmatch(r"[\d.]+", name)
        return [name if is_address else name.split(".")[0]]
    names: list[str] = []
    for piece in match[2].split(","):
        low, dash, high = piece.strip().partition("-")
        if dash and low.isdigit() and high.isdigit() and int(high) - int(low) < _LONGEST_RANGE:
            numbers = [f"{n:0{len(low)}d}" for n in range(int(low), int(high) + 1)]
        else:
            numbers = [piece.strip()]
        for number in numbers:
            names += _expanded(f"{match[1]}{number}{match[3]}")
    return names


def plain_text(value: Any) -> str:
    """Write a value of JSON or YAML as a field of a table.

    Parameters
    ----------
    value : object
        Any.

    Returns
    -------
    str
    """
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ",".join(plain_text(entry) for entry in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
