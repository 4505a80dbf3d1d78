"""A small book in a temporary folder, for tests that must change, break or interrupt one."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from checkpoint_tax.publish.chapters import Chapter, Project

CHECKOUT = Path(__file__).resolve().parents[2]


class SmallBook:
    """A project of its own: chapters are written by the test, the settings are the real ones."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = Project(root)
        book = root / "book"
        (book / "parameters").mkdir(parents=True)
        shutil.copytree(CHECKOUT / "book" / "_static", book / "_static")
        shutil.copyfile(CHECKOUT / "book" / "_config.yml", book / "_config.yml")
        (book / "references.bib").touch()
        (book / "index.md").write_text("# Small book\n\nMade for {{ book_is_for }}.\n")
        (root / "data").mkdir()
        (root / "data" / "numbers.csv").write_text("a\n1\n")
        package = root / "src" / "checkpoint_tax"
        package.mkdir(parents=True)
        (package / "rooms.py").write_text("SIZE = 1\n")
        (root / "requirements.lock").write_text("numpy==1\n")
        self._names: list[str] = []
        self._write_contents()

    def _write_contents(self) -> None:
        files = "".join(f"  - file: {name}\n" for name in self._names)
        chapters = f"chapters:\n{files}" if files else ""
        (self.root / "book" / "_toc.yml").write_text(f"format: jb-book\nroot: index\n{chapters}")

    def add(self, name: str, parameters: str, *code: str) -> Path:
        """Add a chapter, or replace it."""
        cells: list[dict[str, Any]] = [
            {"cell_type": "markdown", "metadata": {}, "source": f"# Chapter {name}", "id": "head"},
            _code_cell(parameters, "parameters", ["parameters"]),
        ]
        cells += [_code_cell(source, f"cell-{place}", []) for place, source in enumerate(code)]
        path = self.root / "book" / f"{name}.ipynb"
        path.write_text(
            json.dumps(
                {
                    "cells": cells,
                    "metadata": {
                        "kernelspec": {
                            "display_name": "Python 3",
                            "language": "python",
                            "name": "python3",
                        },
                        "language_info": {"name": "python"},
                    },
                    "nbformat": 4,
                    "nbformat_minor": 5,
                },
                indent=1,
            )
            + "\n"
        )
        if name not in self._names:
            self._names.append(name)
            self._write_contents()
        return path

    def parameters(self, text: str, name: str = "cluster") -> str:
        """Write a parameter file outside the book; returns its path."""
        path = self.root / f"{name}.yaml"
        path.write_text(text)
        return str(path)


def _code_cell(source: str, identifier: str, tags: list[str]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": identifier,
        "metadata": {"tags": tags} if tags else {},
        "outputs": [],
        "source": source,
    }


class Recorder:
    """Stands in for papermill: copies the chapter and keeps account of what was executed."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.injected: dict[str, dict[str, object]] = {}
        self.reads: dict[str, tuple[str, ...] | None] = {}

    def __call__(
        self,
        project: Project,
        chapter: Chapter,
        parameters: dict[str, object],
        output: Path,
        **_: object,
    ) -> tuple[str, ...] | None:
        self.executed.append(chapter.name)
        self.injected[chapter.name] = dict(parameters)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(chapter.path, output)
        return self.reads.get(chapter.name, ())

    def taken(self) -> list[str]:
        """Names executed since the last call, sorted."""
        names, self.executed = sorted(self.executed), []
        return names


def write_site(project: Project, chapters: tuple[Chapter, ...], label: str) -> None:
    """Stand in for jupyter-book: a site of one page."""
    project.html.mkdir(parents=True)
    (project.html / "index.html").write_text(label)


@pytest.fixture
def small_book(tmp_path: Path) -> SmallBook:
    return SmallBook(tmp_path / "checkout")


@pytest.fixture(scope="module")
def small_book_factory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes small books that live as long as the module's tests."""
    return lambda: SmallBook(tmp_path_factory.mktemp("book") / "checkout")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def site_writer() -> Any:
    return write_site
