"""The anatomy of a chapter: thin, with declared parameters and committed, repeatable outputs."""

import ast
import json
import re
from pathlib import Path

import pytest

from checkpoint_tax.publish.chapters import (
    PARAMETERS_TAG,
    declarations,
    find_project,
    read_chapters,
    read_notebook,
    source_of,
    table_of_contents,
    tags_of,
)
from checkpoint_tax.publish.picture import PICTURE, PICTURED_CHAPTER, chart_digest, first_chart

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = find_project(CHECKOUT)
NOTEBOOKS = sorted(
    path
    for path in PROJECT.book.rglob("*.ipynb")
    if "_build" not in path.parts and ".ipynb_checkpoints" not in path.parts
)
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

# name: type = value  # [unit] meaning -- what papermill reads; it drops any other line silently.
PARAMETER = re.compile(
    r"(?P<name>[a-z_][a-z0-9_]*): (?P<type>[A-Za-z\[\], ]+) = (?P<value>[^=#]+?)"
    r"  # \[(?P<unit>[^\]]+)\] (?P<meaning>\S.*)"
)


def code_cells(path):
    return [c for c in read_notebook(path)["cells"] if c["cell_type"] == "code"]


def statements(path):
    for cell in code_cells(path):
        yield from ast.walk(ast.parse(source_of(cell)))


def check_parameter_lines(source):
    """The lines of a parameters cell that papermill would not read as a person means them."""
    wrong = []
    for line in source.splitlines():
        match = PARAMETER.fullmatch(line)
        if not match or "=" in match["meaning"]:
            wrong.append(line)
            continue
        try:
            ast.literal_eval(match["value"])
        except (SyntaxError, ValueError):
            wrong.append(line)
    return wrong


@pytest.mark.parametrize(
    "line",
    [
        "n_gpus: int | None = 3  # [1] GPUs",
        "n_gpus: np.int64 = 3  # [1] GPUs",
        "n_gpus: int = 3  # [1] GPUs, N = 3",
        "n_gpus: int = 3  # GPUs",
        "n_gpus = 3  # [1] GPUs",
        "n_gpus: int = 2 * 8  # [1] GPUs",
        "# GPUs",
        "",
    ],
)
def test_lines_that_papermill_drops_or_misreads_are_refused(line):
    assert check_parameter_lines(
        f"step_s: float = 7.0  # [s] one step\n{line}\nk: int = 1  # [1] k"
    )


def test_every_notebook_is_a_chapter_and_every_entry_exists():
    chapters = {chapter.path for chapter in read_chapters(PROJECT)}
    assert chapters == set(NOTEBOOKS)
    pages = {
        path.relative_to(PROJECT.book).with_suffix("").as_posix()
        for path in PROJECT.book.rglob("*.md")
        if "_build" not in path.parts
    }
    named = [
        entry.removesuffix(".ipynb").removesuffix(".md") for entry in table_of_contents(PROJECT)
    ]
    assert len(named) == len(set(named)), "a page stands twice in the table of contents"
    assert pages <= set(named)


@EACH
def test_a_chapter_opens_with_its_question(path):
    first = read_notebook(path)["cells"][0]
    assert first["cell_type"] == "markdown"
    title = source_of(first).splitlines()[0]
    assert title.startswith("# "), "the first line is the chapter's title"


@EACH
def test_a_chapter_declares_its_parameters_and_opens_itself_next(path):
    cells = code_cells(path)
    assert [PARAMETERS_TAG in tags_of(cell) for cell in cells] == [True] + [False] * (
        len(cells) - 1
    )
    assert check_parameter_lines(source_of(cells[0])) == []
    opening = source_of(cells[1])
    assert "from checkpoint_tax.publish.notebook import open_chapter" in opening
    assert re.search(r"^job = open_chapter\(globals\(\)\)$", opening, re.MULTILINE)


@EACH
def test_a_chapter_computes_nothing_by_itself(path):
    thick = (
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.Lambda,
        ast.For,
        ast.While,
        ast.If,
        ast.Try,
        ast.With,
        ast.ListComp,
        ast.DictComp,
        ast.SetComp,
        ast.GeneratorExp,
    )
    found = [type(node).__name__ for node in statements(path) if isinstance(node, thick)]
    assert not found
    assert not [c for c in code_cells(path) if re.search(r"^\s*[%!]", source_of(c), re.MULTILINE)]


@EACH
def test_a_chapter_takes_everything_from_the_package(path):
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in statements(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported == {"checkpoint_tax"}


@EACH
def test_outputs_are_committed_and_the_same_on_every_run(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs, "make refresh writes them"
    kinds = {output["output_type"] for output in outputs}
    assert kinds <= {"display_data", "execute_result", "stream"}, "an error was committed"
    streams = [o for o in outputs if o["output_type"] == "stream" and o["name"] == "stderr"]
    assert not streams, "a warning was committed"
    text = json.dumps(outputs)
    assert not re.search(r" at 0x[0-9a-f]{6,}", text), "an address in memory"
    assert not re.search(r"altair-viz-[0-9a-f]{8}", text), "a random identifier"
    assert "application/vnd.jupyter.widget" not in text
    assert "/home/" not in text
    assert str(CHECKOUT) not in text


@EACH
def test_nothing_of_the_machine_is_committed(path):
    notebook = read_notebook(path)
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert set(notebook["metadata"].get("language_info", {})) <= {"name"}
    for cell in notebook["cells"]:
        assert set(cell["metadata"]) <= {"tags", "mystnb"}, "papermill's or a server's record"
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(identifiers) == len(set(identifiers))


@EACH
def test_every_chart_has_a_description_and_a_caption(path):
    for cell in code_cells(path):
        for output in cell["outputs"]:
            for mime, spec in output.get("data", {}).items():
                if "vegalite" in mime:
                    assert spec.get("description", "").strip()
                    assert spec.get("usermeta", {}).get("caption", "").strip()


def test_the_picture_of_the_readme_shows_the_committed_chart():
    chapter = read_notebook(PROJECT.book / f"{PICTURED_CHAPTER}.ipynb")
    drawn = (CHECKOUT / PICTURE).read_text("utf-8")
    assert chart_digest(first_chart(chapter)) in drawn
    assert PICTURE in (CHECKOUT / "README.md").read_text("utf-8")


@EACH
def test_a_chapter_takes_the_time_between_failures_of_a_gpu_and_of_the_job(path):
    # Else a file that gives one of them would leave the chapter at its default for the other.
    names = {name for name, _ in declarations(read_notebook(path))}
    assert ("gpu_mtbf_h" in names) == ("job_mtbf_h" in names)
