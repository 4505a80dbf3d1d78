"""Every chapter runs to its end for every job that ships with the book, and says nothing amiss."""

from pathlib import Path

import pytest

from checkpoint_tax.publish import execution, pipeline
from checkpoint_tax.publish.chapters import (
    INJECTED_TAG,
    find_project,
    read_chapters,
    read_notebook,
    source_of,
    tagged_cell,
)
from checkpoint_tax.resources import presets

PROJECT = find_project(Path(__file__).resolve().parents[2])


@pytest.mark.parametrize("chapter", read_chapters(PROJECT), ids=lambda chapter: chapter.name)
@pytest.mark.parametrize("preset", presets())
def test_a_chapter_runs_for_a_preset(chapter, preset, tmp_path):
    values = pipeline.read_request(PROJECT, preset).injected(chapter)
    output = tmp_path / "out" / chapter.path.name
    execution.execute(PROJECT, chapter, values, output)
    executed = read_notebook(output)
    if values:
        injected = source_of(tagged_cell(executed, INJECTED_TAG))
        assert all(f"{name} = " in injected for name in values)
    for cell in executed["cells"]:
        for result in cell.get("outputs", ()):
            assert result.get("name") != "stderr", result["text"]
            assert "nan" not in str(result.get("data", {}).get("text/plain", "")).lower().split()
