"""Columns found by name, in logs that are tables."""

from collections.abc import Iterator, Mapping, Sequence

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.events import Reading
from checkpoint_tax.failures.lines import BROKEN, DROPPED, Row, Source, plain_name, rows, split_row

#: Lines before the header that may be a prompt, a comment or a blank.
_LINES_BEFORE_HEADER = 30
_DELIMITERS = ("|", ",", "\t", ";")


def find_roles(
    columns: Sequence[str], names: Mapping[str, Sequence[str]], mapping: Mapping[str, str]
) -> dict[str, int]:
    """Find which column plays which role.

    Parameters
    ----------
    columns : sequence of str
        Header of the file.
    names : mapping of str to sequence of str
        Names that each role is known by, the likeliest first.
    mapping : mapping of str to str
        The user's own choice, column to role; it wins.

    Returns
    -------
    dict of str to int
        Role to the column's place.

    Raises
    ------
    InputError
        If the user names a column or a role that does not exist, or a role twice.
    """
    plain = [plain_name(column) for column in columns]
    found: dict[str, int] = {}
    _check_roles(mapping, names)
    for column, role in mapping.items():
        if plain_name(column) not in plain:
            raise InputError(
                f"map {column}={role}: the log has no column {column!r}; it has"
                f" {', '.join(name.strip() for name in columns)}."
            )
        if role in found:
            raise InputError(f"map {column}={role}: two columns are mapped to {role}.")
        found[role] = plain.index(plain_name(column))
    taken = set(found.values())
    for role, candidates in names.items():
        if role in found:
            continue
        for candidate in candidates:
            if candidate in plain and plain.index(candidate) not in taken:
                found[role] = plain.index(candidate)
                taken.add(found[role])
                break
    return found


def _check_roles(mapping: Mapping[str, str], names: Mapping[str, Sequence[str]]) -> None:
    for column, role in mapping.items():
        if role not in names:
            raise InputError(
                f"map {column}={role}: {role!r} is not a name here; allowed: {', '.join(names)}."
            )


def header_of(
    source: Source, names: Mapping[str, Sequence[str]], needed: Sequence[Sequence[str]],
    mapping: Mapping[str, str], delimiters: Sequence[str] = _DELIMITERS,
) -> tuple[int, str, list[str]] | None:  # fmt: skip
    """Find the header.

    Parameters
    ----------
    source : Source
        The log.
    names : mapping of str to sequence of str
        Names of each role.
    needed : sequence of sequence of str
        Each entry lists roles of which one must be there.
    mapping : mapping of str to str
        The user's column to role.
    delimiters : sequence of str
        That may part the columns.

    Returns
    -------
    tuple of int, str and list of str, or None
        Line number, delimiter and columns; None if no line is such a header.

    Raises
    ------
    InputError
        If the user names a role that does not exist.
    """
    _check_roles(mapping, names)
    mapped = {plain_name(column): role for column, role in mapping.items()}
    seen = 0
    for number, text in source.lines(silent=True):
        if not text.strip():
            continue
        seen += 1
        for delimiter in delimiters:
            columns = split_row(text, delimiter)
            if columns is None or len(columns) < 2:
                continue
            plain = {plain_name(column) for column in columns}
            roles = {role for role, known in names.items() if plain & set(known)}
            roles |= {mapped[column] for column in plain & set(mapped)}
            if all(roles & set(choice) for choice in needed):
                return number, delimiter, columns
        if seen >= _LINES_BEFORE_HEADER:
            break
    return None


class Table:
    """Rows of a log that is a table, repeated and broken ones noted and left out.

    Parameters
    ----------
    source : Source
        The log.
    reading : Reading
        Whose record book and warnings are filled.
    header : tuple
        What `header_of` gave.
    names : mapping
        Names of each role.
    mapping : mapping
        The user's column to role.
    quoted : bool
        Whether quotes protect delimiters.
    """

    def __init__(
        self,
        source: Source,
        reading: Reading,
        header: tuple[int, str, list[str]],
        names: Mapping[str, Sequence[str]],
        mapping: Mapping[str, str],
        *,
        quoted: bool = True,
    ) -> None:
        self.source, self.reading, self.quoted = source, reading, quoted
        self.header_line, self.delimiter, columns = header
        while len(columns) > 2 and not columns[-1].strip():
            columns = columns[:-1]  # sacct -p ends each line with its delimiter
        self.columns = columns
        self.roles = find_roles(columns, names, mapping)
        self.header_text = ""
        self._seen: dict[int, int] = {}
        reading.roles = {role: columns[place].strip() for role, place in self.roles.items()}

    def __iter__(self) -> Iterator[Row]:
        lines = iter(self.source.lines())
        for number, text in lines:
            if number == self.header_line:
                self.header_text = text.strip()
                break
            if text.strip():
                self.reading.book.add(number, DROPPED, "before the header")
        for row in rows(lines, self.delimiter, len(self.columns), quoted=self.quoted):
            if row.text.strip() == self.header_text:
                self.reading.book.add(row.line, DROPPED, "the header once more")
            elif row.problem:
                self.broken(row.line, row.problem)
            else:
                yield row

    def broken(self, line: int, problem: str) -> None:
        """Note a line that cannot be read.

        Parameters
        ----------
        line : int
            Its number.
        problem : str
            Why.
        """
        self.reading.book.add(line, BROKEN, problem)
        self.reading.warnings.at(line, f"broken, {problem}; the rest was read")

    def is_repeated(self, row: Row) -> bool:
        """Tell whether the same row came before, and note it if so.

        Parameters
        ----------
        row : Row
            The row.

        Returns
        -------
        bool
        """
        key = hash(tuple(part.strip() for part in row.fields))
        first = self._seen.setdefault(key, row.line)
        if first == row.line:
            return False
        self.reading.book.add(row.line, DROPPED, f"exact duplicate of line {first}")
        return True

    def get(self, row: Row, role: str) -> str:
        """Read a field.

        Parameters
        ----------
        row : Row
            The row.
        role : str
            Which.

        Returns
        -------
        str
            Without spaces around it; empty if the table has no such column.
        """
        place = self.roles.get(role)
        return "" if place is None else row.fields[place].strip()
