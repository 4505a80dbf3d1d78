"""Lines of a log with their numbers, and what became of each.

A log is read once, line by line; what is kept in memory grows with the events, and by some
twenty bytes with each other line.
"""

import csv
import gzip
import io
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from checkpoint_tax.errors import InputError

Progress = Callable[[int], None]
#: A line longer than this is cut: it is broken, and must not fill the memory.
LONGEST_LINE = 1 << 20
#: Lines that one quoted field may span before its opening quote counts as a slip.
LONGEST_FIELD_LINES = 60
_PROGRESS_EVERY = 2048


class Source:
    """A log file that can be read more than once.

    Parameters
    ----------
    path : pathlib.Path
        Text, or text packed by gzip.
    progress : callable, optional
        Called now and then with the number of bytes read since the last call.

    Raises
    ------
    InputError
        If there is no readable file.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self._progress = progress
        try:
            self.size_bytes = path.stat().st_size
            if path.is_dir():
                raise InputError(f"{path} is a folder; give one log file.")
            with path.open("rb") as raw:
                head = raw.read(4)
        except OSError as error:
            raise InputError(f"{path}: the log cannot be read ({error.strerror}).") from None
        self._is_packed = head[:2] == b"\x1f\x8b"
        if self.size_bytes == 0:
            raise InputError(f"{path}: the log is empty.")

    def _text(self, raw: BinaryIO) -> io.TextIOWrapper:
        content = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if self._is_packed else raw
        start = content.read(4)
        content.seek(0)
        wide = start[:2] in (b"\xff\xfe", b"\xfe\xff")
        encoding = "utf-16" if wide else "utf-8-sig"
        # newline="\n": a bare carriage return, as progress bars write it, ends no line here,
        # so that numbers agree with those of an editor.
        return io.TextIOWrapper(content, encoding=encoding, errors="replace", newline="\n")

    def lines(self, *, silent: bool = False) -> Iterator[tuple[int, str]]:
        """Read the lines from the first.

        Parameters
        ----------
        silent : bool
            Do not report progress.

        Yields
        ------
        number : int
            From 1.
        text : str
            Without its end; a line that is too long is cut to `LONGEST_LINE` characters.

        Raises
        ------
        InputError
            If a packed file is damaged.
        """
        progress = None if silent else self._progress
        with self.path.open("rb") as raw:
            told = 0
            number = 0
            text = self._text(raw)
            try:
                while line := text.readline(LONGEST_LINE):
                    number += 1
                    ended = line.endswith("\n")
                    yield number, line.rstrip("\r\n").replace("\0", "")
                    while not ended and len(line) == LONGEST_LINE:
                        line = text.readline(LONGEST_LINE)
                        ended = line.endswith("\n")
                    if progress is not None and number % _PROGRESS_EVERY == 0:
                        at = raw.tell()
                        progress(at - told)
                        told = at
            except (EOFError, gzip.BadGzipFile, OSError) as error:
                raise InputError(
                    f"{self.path}: the packed log is damaged after line {number} ({error})."
                ) from None
            if progress is not None:
                progress(self.size_bytes - told)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes
    ----------
    line : int
        Number of its first line.
    fields : list of str
        As many as the header has; empty if the row is broken.
    text : str
        The line itself.
    problem : str
        Why the row is broken; empty if it is not.
    """

    line: int
    fields: list[str]
    text: str
    problem: str = ""


def plain_name(name: str) -> str:
    """Reduce a column's name to what is compared.

    Parameters
    ----------
    name : str
        As the file writes it.

    Returns
    -------
    str
        Lower case letters and digits only, so that "Start Time", "start_time" and "StartTime"
        are one name.
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def split_row(text: str, delimiter: str) -> list[str] | None:
    """Split one row.

    Parameters
    ----------
    text : str
        The row; a quoted field may hold the delimiter and line ends.
    delimiter : str
        One character.

    Returns
    -------
    list of str or None
        Its fields; None if the quotes do not match.
    """
    if '"' not in text:
        return text.split(delimiter)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def rows(
    lines: Iterable[tuple[int, str]], delimiter: str, n_columns: int, *, quoted: bool = True
) -> Iterator[Row]:
    """Split lines into rows.

    Parameters
    ----------
    lines : iterable of (int, str)
        After the header.
    delimiter : str
        One character.
    n_columns : int
        Fields that the header has.
    quoted : bool
        Whether quotes protect delimiters; ``sacct -P`` knows none.

    Yields
    ------
    Row
        Blank lines are left out.
    """
    waiting = deque[tuple[int, str]]()
    source = iter(lines)

    def following() -> tuple[int, str] | None:
        return waiting.popleft() if waiting else next(source, None)

    while (item := following()) is not None:
        number, text = item
        if not text.strip():
            continue
        if len(text) >= LONGEST_LINE:
            yield Row(number, [], text[:80], "the line is longer than 1 MiB")
            continue
        if quoted and text.count('"') % 2:
            taken: list[tuple[int, str]] = []
            whole = text
            while whole.count('"') % 2 and len(taken) < LONGEST_FIELD_LINES:
                more = following()
                if more is None:
                    break
                taken.append(more)
                whole += "\n" + more[1]
            fields = None if whole.count('"') % 2 else split_row(whole, delimiter)
            _cut(fields, n_columns)
            if fields is not None and len(fields) == n_columns:
                yield Row(number, fields, whole)
                continue
            waiting.extendleft(reversed(taken))
            yield Row(number, [], text, "a quote is opened and not closed")
            continue
        fields = split_row(text, delimiter) if quoted else text.split(delimiter)
        if fields is None:
            yield Row(number, [], text, "its quotes do not match")
            continue
        _cut(fields, n_columns)
        if len(fields) != n_columns:
            problem = f"it has {len(fields)} fields, the header {n_columns}"
            yield Row(number, [], text, problem)
            continue
        yield Row(number, fields, text)


def _cut(fields: list[str] | None, n_columns: int) -> None:
    """Take off empty fields at the end: some exports write a delimiter after the last one."""
    while fields is not None and len(fields) > n_columns and not fields[-1].strip():
        fields.pop()


KEPT, MERGED, DROPPED, BROKEN = "kept", "merged", "dropped", "broken"
_STATES = (KEPT, MERGED, DROPPED, BROKEN)


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one line.

    Attributes
    ----------
    line : int
        Its number; the first of a stretch.
    last_line : int
        Equal to `line`, or the last of a stretch of lines with one fate.
    state : str
        ``"kept"``, ``"merged"``, ``"dropped"`` or ``"broken"``.
    why : str
        Reason.
    """

    line: int
    last_line: int
    state: str
    why: str


class RecordBook:
    """The fate of every line, kept small: reasons are stored once, a line takes 21 bytes."""

    def __init__(self) -> None:
        self._first = array("Q")
        self._last = array("Q")
        self._why = array("L")
        self._state = array("B")
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._first)

    def add(self, line: int, state: str, why: str) -> int:
        """Note a line.

        Parameters
        ----------
        line : int
            Its number.
        state : str
            Its fate.
        why : str
            Reason.

        Returns
        -------
        int
            Where the note stands, for `change`.
        """
        self._first.append(line)
        self._last.append(line)
        self._why.append(self._code(why))
        self._state.append(_STATES.index(state))
        return len(self._first) - 1

    def extend(self, line: int, state: str, why: str) -> None:
        """Note a line of a stretch.

        Parameters
        ----------
        line : int
            Its number; it joins the last note if that says the same of the line before it.
        state : str
            Its fate.
        why : str
            Reason.
        """
        if (
            self._last
            and self._last[-1] == line - 1
            and self._texts[self._why[-1]] == why
            and _STATES[self._state[-1]] == state
        ):
            self._last[-1] = line
        else:
            self.add(line, state, why)

    def change(self, position: int, state: str, why: str) -> None:
        """Note something else of a line.

        Parameters
        ----------
        position : int
            What `add` returned.
        state : str
            Its fate.
        why : str
            Reason.
        """
        self._state[position] = _STATES.index(state)
        self._why[position] = self._code(why)

    def why(self, position: int) -> str:
        """Look up a reason.

        Parameters
        ----------
        position : int
            What `add` returned.

        Returns
        -------
        str
        """
        return self._texts[self._why[position]]

    def count(self, state: str) -> int:
        """Count the notes of one fate.

        Parameters
        ----------
        state : str
            The fate.

        Returns
        -------
        int
        """
        return self._state.count(_STATES.index(state))

    def __iter__(self) -> Iterator[Record]:
        for first, last, why, state in zip(
            self._first, self._last, self._why, self._state, strict=True
        ):
            yield Record(first, last, _STATES[state], self._texts[why])

    def _code(self, why: str) -> int:
        code = self._codes.get(why)
        if code is None:
            code = self._codes[why] = len(self._texts)
            self._texts.append(why)
        return code
