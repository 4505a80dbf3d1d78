"""Turns pages and executed chapters into a static site that needs no network.

The sources are copied to a folder of the build's own, so that jupyter-book never writes beside
the committed files, and a failed build leaves no half site where the finished one belongs.
"""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from checkpoint_tax.publish.chapters import (
    INJECTED_TAG,
    PARAMETERS_TAG,
    SOURCES,
    BuildFailed,
    Chapter,
    Project,
    declarations,
    read_notebook,
    source_of,
    tagged_cell,
    tags_of,
    write_notebook,
)

VENDOR = "_vendor"
VEGALITE_VERSION = "6.4"
DOWNLOAD_MIME = "text/csv"

_MATHJAX_PACKAGE = "sphinx-mathjax-offline"
_MATHJAX_FILE = "tex-svg-full.js"
_ASSETS = Path(__file__).parent / "assets"
_SHOWN_WARNINGS = 30
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_PROBLEM = re.compile(r"WARNING|ERROR|CRITICAL|Exception|error:", re.I)


def build_site(project: Project, chapters: tuple[Chapter, ...], label: str) -> None:
    """Build the static site with jupyter-book, warnings being errors.

    Parameters
    ----------
    project : Project
    chapters : tuple of Chapter
        Executed already.
    label : str
        What the book is for; pages show it as ``{{ book_is_for }}``.

    Raises
    ------
    BuildFailed
        With jupyter-book's complaints, in terms of the committed files.
    """
    stage_sources(project, chapters, label)
    write_vendor_files(project.staging / VENDOR / "vendor", charts=bool(chapters))
    output = project.state / "site-output"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build"]
    options = ["--path-output", str(output), "-W", "-n", "--keep-going", "-q"]
    done = subprocess.run(
        [*command, str(project.staging), *options],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "JUPYTER_PLATFORM_DIRS": "1"},
        check=False,
    )
    built = output / "_build" / "html"
    if done.returncode or not (built / "index.html").is_file():
        raise BuildFailed(_complaints(project, done.stdout + done.stderr))
    for chapter in chapters:
        for name, text in downloads(_executed(project, chapter)).items():
            (built / name).write_text(text, encoding="utf-8")
    built.rename(project.html)
    shutil.rmtree(output, ignore_errors=True)


def _complaints(project: Project, text: str) -> str:
    text = _ESCAPES.sub("", text).replace(str(project.staging) + os.sep, "book/")
    lines = [line for line in text.splitlines() if _PROBLEM.search(line)]
    shown = (lines or text.splitlines())[:_SHOWN_WARNINGS]
    return "\n".join(["The site was refused:", *("    " + line for line in shown)])


def _executed(project: Project, chapter: Chapter) -> dict[str, Any]:
    return read_notebook(project.executed / f"{chapter.name}.ipynb")


def stage_sources(project: Project, chapters: tuple[Chapter, ...], label: str) -> None:
    """Copy everything that the site is made of into the staging folder.

    Parameters
    ----------
    project : Project
    chapters : tuple of Chapter
    label : str
        See :func:`build_site`.
    """
    shutil.rmtree(project.staging, ignore_errors=True)
    shutil.copytree(
        project.book,
        project.staging,
        ignore=shutil.ignore_patterns("_build", ".*", "*.ipynb", "__pycache__"),
    )
    for chapter in chapters:
        target = project.staging / f"{chapter.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_notebook(as_page(_executed(project, chapter)), target)
    settings = project.staging / "_config.yml"
    content = yaml.safe_load(settings.read_text(encoding="utf-8"))
    content.setdefault("parse", {}).setdefault("myst_substitutions", {})["book_is_for"] = label
    settings.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def as_page(executed: Mapping[str, Any]) -> dict[str, Any]:
    """An executed chapter as its reader should see it.

    Parameters
    ----------
    executed : mapping

    Returns
    -------
    dict
        One parameters cell that shows the values really used, instead of the default ones
        followed by papermill's; no times of execution.
    """
    cells = [
        {**cell, "metadata": {k: v for k, v in cell["metadata"].items() if k != "papermill"}}
        for cell in executed["cells"]
        if INJECTED_TAG not in tags_of(cell)
    ]
    injected = tagged_cell(executed, INJECTED_TAG)
    if injected:
        values = dict(declarations({"cells": [{**injected, "metadata": _PARAMETERS_METADATA}]}))
        for cell in cells:
            if PARAMETERS_TAG in tags_of(cell):
                cell["source"] = with_values(source_of(cell), values)
    kept = {k: v for k, v in executed["metadata"].items() if k in {"kernelspec", "language_info"}}
    return {**executed, "cells": cells, "metadata": kept}


_PARAMETERS_METADATA = {"tags": [PARAMETERS_TAG]}


def with_values(source: str, values: Mapping[str, Any]) -> str:
    """A parameters cell with other values and the same units and meanings.

    Parameters
    ----------
    source : str
        Lines of the form ``name: type = value  # [unit] meaning``.
    values : mapping
        Name to the assignment (an ``ast`` statement) whose value replaces the one shown.

    Returns
    -------
    str
    """
    lines = []
    for line in source.splitlines():
        name = line.partition(":")[0].strip()
        if name in values and name != SOURCES and "=" in line:
            head, _, rest = line.partition("=")
            comment = rest[rest.index("#") :] if "#" in rest else ""
            line = f"{head.rstrip()} = {ast.unparse(values[name].value)}  {comment}".rstrip()
        lines.append(line)
    return "\n".join(lines)


def downloads(executed: Mapping[str, Any]) -> dict[str, str]:
    """Files that a chapter offers beside its page.

    Parameters
    ----------
    executed : mapping

    Returns
    -------
    dict
        File name to text, for each output that carries CSV and names its file.
    """
    files = {}
    for cell in executed["cells"]:
        for output in cell.get("outputs", ()):
            name = output.get("metadata", {}).get(DOWNLOAD_MIME, {}).get("filename")
            if name and DOWNLOAD_MIME in output.get("data", {}):
                text = output["data"][DOWNLOAD_MIME]
                files[Path(name).name] = text if isinstance(text, str) else "".join(text)
    return files


def write_vendor_files(folder: Path, *, charts: bool) -> None:
    """Put the scripts that pages need beside them: MathJax, and Vega with its loader.

    They lie outside ``_static``, because jupyter-book adds every script it finds there to every
    page.

    Parameters
    ----------
    folder : pathlib.Path
    charts : bool
        Whether Vega (0.9 MB) is needed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_mathjax(), folder / _MATHJAX_FILE)
    if charts:
        import vl_convert

        loader = (_ASSETS / "chart_loader.js").read_text(encoding="utf-8")
        bundle = vl_convert.javascript_bundle(loader, vl_version=VEGALITE_VERSION)
        # The bundle's top-level names clash with Sphinx's scripts, and a module script does not
        # load from file://: hence one classic script with a scope of its own.
        (folder / "charts.js").write_text(f"(() => {{\n{bundle}\n}})();\n", "utf-8")


def _mathjax() -> Path:
    files = importlib.metadata.files(_MATHJAX_PACKAGE) or []
    for file in files:
        if file.name == _MATHJAX_FILE:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{_MATHJAX_PACKAGE} carries no {_MATHJAX_FILE}")
