"""What the book consists of: its folders, its chapters and the parameters each declares.

Read with ``json`` and ``ast`` alone: a build with nothing to do must not pay for importing
notebook libraries.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from checkpoint_tax.errors import InputError

SOURCES = "sources"
PARAMETERS_TAG = "parameters"
INJECTED_TAG = "injected-parameters"

_DEFAULT_BOOK = "default"
_OWN_FOLDERS = frozenset({"html", "chapters", "site", "outdated", "state", "_sources"})
_SAFE_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RESERVED = f"{', '.join(sorted(_OWN_FOLDERS))} are folders of the default book"


class BuildFailed(Exception):
    """The book could not be built; the message says which chapter or page, and why."""


@dataclass(frozen=True)
class Project:
    """A checkout and the book being built in it.

    Attributes
    ----------
    root : pathlib.Path
        The folder that holds ``book``, ``src``, ``data`` and ``requirements.lock``.
    name : str
        ``"default"``, or the stem of the parameter file.
    """

    root: Path
    name: str = _DEFAULT_BOOK

    @property
    def book(self) -> Path:
        """Folder of the chapters' sources; nothing in it but ``_build`` is ever written."""
        return self.root / "book"

    @property
    def package(self) -> Path:
        """Folder of the package's sources."""
        return self.root / "src" / "checkpoint_tax"

    @property
    def data(self) -> Path:
        """Folder of the data files."""
        return self.root / "data"

    @property
    def presets(self) -> Path:
        """Folder of the parameter files that ship with the book."""
        return self.book / "parameters"

    @property
    def lock(self) -> Path:
        """The pinned environment."""
        return self.root / "requirements.lock"

    @property
    def build(self) -> Path:
        """Where everything built for this book goes."""
        top = self.book / "_build"
        return top if self.name == _DEFAULT_BOOK else top / self.name

    @property
    def html(self) -> Path:
        """The static site."""
        return self.build / "html"

    @property
    def executed(self) -> Path:
        """Executed chapters; a file here was executed to its last cell."""
        return self.build / "chapters"

    @property
    def state(self) -> Path:
        """The build's own records, and what failed executions left behind."""
        return self.build / "state"

    @property
    def staging(self) -> Path:
        """Copy of the sources that jupyter-book reads and writes into."""
        return self.build / "site"

    @property
    def outdated(self) -> Path:
        """Where the last site waits while a newer one is not finished."""
        return self.build / "outdated"

    def shown(self, path: Path) -> str:
        """A path as a person in the checkout would type it.

        Parameters
        ----------
        path : pathlib.Path

        Returns
        -------
        str
        """
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def find_project(root: Path | None = None) -> Project:
    """The checkout that holds the book.

    Parameters
    ----------
    root : pathlib.Path, optional
        A folder to take instead of searching: the one this package lies in, then the current
        folder.

    Returns
    -------
    Project

    Raises
    ------
    InputError
        If no folder with a table of contents is found (a wheel carries no chapters).
    """
    candidates = [root] if root else [Path(__file__).resolve().parents[3], Path.cwd()]
    for candidate in candidates:
        if (candidate / "book" / "_toc.yml").is_file():
            return Project(candidate.resolve())
    places = " or ".join(str(candidate) for candidate in candidates)
    raise InputError(f"no book in {places}: run this in a checkout, where book/_toc.yml lies.")


def book_name(parameter_file: str) -> str:
    """Name of the folder in which the book for a parameter file is built.

    Parameters
    ----------
    parameter_file : str
        Path, or a preset's name.

    Returns
    -------
    str
        The file's stem.

    Raises
    ------
    InputError
        If the stem cannot be a folder of its own.
    """
    stem = Path(parameter_file).name.removesuffix(".yaml").removesuffix(".yml")
    if stem.lower() in _OWN_FOLDERS | {_DEFAULT_BOOK}:
        raise InputError(
            f"{parameter_file}: a book cannot be named {stem!r} ({_RESERVED}); rename the file."
        )
    if not _SAFE_STEM.fullmatch(stem):
        raise InputError(
            f"{parameter_file}: the file's name names the book's folder and may hold only"
            " letters, digits, '.', '_' and '-'; rename the file."
        )
    return stem


@dataclass(frozen=True)
class Chapter:
    """One notebook of the book.

    Attributes
    ----------
    name : str
        Path below ``book`` without its ending.
    path : pathlib.Path
        The committed notebook.
    notebook : mapping
        Its content.
    """

    name: str
    path: Path
    notebook: Mapping[str, Any]

    @property
    def declared(self) -> tuple[str, ...]:
        """Names that the parameters cell assigns, in order."""
        return tuple(name for name, _ in declarations(self.notebook))


def read_notebook(path: Path) -> dict[str, Any]:
    """Content of a notebook file.

    Parameters
    ----------
    path : pathlib.Path

    Returns
    -------
    dict

    Raises
    ------
    InputError
        If the file is no notebook of format 4.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: the notebook cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise InputError(f"{path}: this is not a notebook ({error}).") from None
    if not isinstance(content, dict) or content.get("nbformat") != 4 or "cells" not in content:
        raise InputError(f"{path}: this is not a notebook of format 4.")
    return content


def write_notebook(notebook: Mapping[str, Any], path: Path) -> None:
    """Write a notebook the way the committed ones are written: one-space indent, one newline.

    Parameters
    ----------
    notebook : mapping
    path : pathlib.Path
        Replaced in one step, so that no half-written file is ever seen.
    """
    text = json.dumps(notebook, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def source_of(cell: Mapping[str, Any]) -> str:
    """Source of a cell as one text.

    Parameters
    ----------
    cell : mapping

    Returns
    -------
    str
    """
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def tags_of(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """Tags of a cell.

    Parameters
    ----------
    cell : mapping

    Returns
    -------
    tuple of str
    """
    return tuple(cell.get("metadata", {}).get("tags", ()))


def tagged_cell(notebook: Mapping[str, Any], tag: str) -> dict[str, Any] | None:
    """The first cell with a tag.

    Parameters
    ----------
    notebook : mapping
    tag : str

    Returns
    -------
    dict or None
    """
    cells: list[dict[str, Any]] = notebook["cells"]
    return next((cell for cell in cells if tag in tags_of(cell)), None)


def declarations(notebook: Mapping[str, Any]) -> Iterator[tuple[str, ast.stmt]]:
    """Assignments of a notebook's parameters cell.

    Parameters
    ----------
    notebook : mapping

    Yields
    ------
    (str, ast.stmt)
        Name and statement, in order. Nothing for a notebook without such a cell, or with one
        that is not Python.
    """
    cell = tagged_cell(notebook, PARAMETERS_TAG)
    try:
        tree = ast.parse(source_of(cell)) if cell else ast.Module([], [])
    except SyntaxError:
        return  # the kernel reports it, with the chapter's name
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement


def table_of_contents(project: Project) -> tuple[str, ...]:
    """Files named by the table of contents, in the order a reader meets them.

    Parameters
    ----------
    project : Project

    Returns
    -------
    tuple of str
        Paths below ``book`` as written there, mostly without an ending.
    """
    content = yaml.safe_load((project.book / "_toc.yml").read_text(encoding="utf-8"))

    def walk(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            for key in ("root", "file"):
                if key in node:
                    yield str(node[key])
            for value in node.values():
                if isinstance(value, list):
                    yield from walk(value)
        elif isinstance(node, list):
            for item in node:
                yield from walk(item)

    return tuple(walk(content))


def read_chapters(project: Project) -> tuple[Chapter, ...]:
    """The book's notebooks, in reading order.

    Parameters
    ----------
    project : Project

    Returns
    -------
    tuple of Chapter

    Raises
    ------
    InputError
        If the table of contents names a file that does not exist.
    """
    chapters = []
    for entry in table_of_contents(project):
        name = entry.removesuffix(".ipynb").removesuffix(".md")
        notebook = project.book / f"{name}.ipynb"
        if notebook.is_file():
            chapters.append(Chapter(name, notebook, read_notebook(notebook)))
        elif not (project.book / f"{name}.md").is_file():
            raise InputError(f"book/_toc.yml names {entry}, but there is no such page in book.")
    return tuple(chapters)
