"""What a build executes again, and what it must never take for fresh."""

import json
import os
from pathlib import Path

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.publish import pipeline
from checkpoint_tax.publish.chapters import BuildFailed, Project, read_notebook
from checkpoint_tax.publish.execution import ChapterFailed, Failure


@pytest.fixture
def build(small_book, recorder, site_writer):
    """Builds the small book and returns the names of the chapters that were executed."""
    small_book.add("size", "n_gpus: int = 16384  # [1] GPUs of the job", "n_gpus")
    small_book.add("pace", "step_s: float = 7.0  # [s] one step", "step_s")

    def run(parameters=None, force=False):
        pipeline.build(
            small_book.project,
            parameters,
            force=force,
            executor=recorder,
            site_builder=site_writer,
        )
        return recorder.taken()

    return run


def test_a_second_build_executes_nothing(build, small_book, capsys):
    assert build() == ["pace", "size"]
    page = small_book.project.html / "index.html"
    before = page.stat().st_mtime_ns
    capsys.readouterr()
    assert build() == []
    assert page.stat().st_mtime_ns == before
    assert capsys.readouterr().out == "Nothing to do: the book is up to date.\n"


def test_one_parameter_reexecutes_the_chapters_that_declare_it(build, small_book, recorder):
    file = small_book.parameters("n_gpus: 1024\nstep_s: 5.0\n")
    assert build(file) == ["pace", "size"]
    assert recorder.injected == {"size": {"n_gpus": 1024}, "pace": {"step_s": 5.0}}
    small_book.parameters("n_gpus: 2048\nstep_s: 5.0\n")
    assert build(file) == ["size"]
    assert recorder.injected["size"] == {"n_gpus": 2048}


def test_a_parameter_that_no_chapter_declares_reexecutes_nothing(build, small_book):
    file = small_book.parameters("n_gpus: 1024\n")
    build(file)
    small_book.parameters("n_gpus: 1024\nrun_steps: 5000\n")
    assert build(file) == []


def test_a_parameter_taken_out_of_the_file_counts_as_changed(build, small_book):
    file = small_book.parameters("n_gpus: 1024\nstep_s: 5.0\n")
    build(file)
    small_book.parameters("n_gpus: 1024\n")
    assert build(file) == ["pace"]


def test_a_changed_parameters_cell_reexecutes_its_chapter(build, small_book):
    build()
    small_book.add("size", "n_gpus: int = 8192  # [1] GPUs of the job", "n_gpus")
    assert build() == ["size"]


@pytest.mark.parametrize(
    "place", ["src/checkpoint_tax/rooms.py", "data/numbers.csv", "requirements.lock"]
)
def test_a_changed_source_counts_even_with_its_old_time_stamp(build, small_book, place):
    build()
    path = small_book.root / place
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("1", "2"))  # the same length, too
    os.utime(path, ns=times)
    assert build() == ["pace", "size"]


@pytest.mark.parametrize("place", ["src/checkpoint_tax/rooms.py", "data/numbers.csv"])
def test_a_new_or_missing_source_counts(build, small_book, place):
    build()
    path = small_book.root / place
    path.rename(path.with_name("renamed" + path.suffix))
    assert build() == ["pace", "size"]
    path.write_text("one more\n")
    assert build() == ["pace", "size"]


def test_a_touched_file_does_not_count(build, small_book):
    build()
    for path in [*small_book.root.glob("src/**/*.py"), *small_book.root.glob("book/*")]:
        path.touch()
    assert build() == []


def test_outputs_saved_in_a_committed_notebook_do_not_count(build, small_book):
    build()
    path = small_book.root / "book" / "size.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][2]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": ["16384\n"]}
    ]
    notebook["cells"][2]["execution_count"] = 3
    path.write_text(json.dumps(notebook))
    assert build() == []


def test_a_preset_counts_for_the_chapters_that_read_it(build, small_book, recorder):
    preset = small_book.root / "book" / "parameters" / "published.yaml"
    preset.write_text("n_gpus: 512\n")
    recorder.reads["size"] = (str(preset), str(preset.parent))
    build()
    assert build() == []
    preset.write_text("n_gpus: 768\n")
    assert build() == ["size"]
    (preset.parent / "another.yaml").write_text("n_gpus: 3\n")  # the folder was listed
    assert build() == ["size"]


def test_a_chapter_that_could_not_be_observed_depends_on_every_preset(build, small_book, recorder):
    preset = small_book.root / "book" / "parameters" / "published.yaml"
    preset.write_text("n_gpus: 512\n")
    recorder.reads["pace"] = None
    build()
    preset.write_text("n_gpus: 768\n")
    assert build() == ["pace"]


@pytest.mark.parametrize("damage", ["cut", "deleted", "unmarked"])
def test_a_damaged_result_is_made_again(build, small_book, damage):
    build()
    result = small_book.project.executed / "size.ipynb"
    if damage == "cut":
        result.write_text(result.read_text()[:200])
    elif damage == "deleted":
        result.unlink()
    else:
        notebook = read_notebook(result)
        del notebook["metadata"][pipeline.RECORD_KEY]
        result.write_text(json.dumps(notebook))
    assert build() == ["size"]


def test_going_back_to_old_values_does_not_revive_the_other_values_result(build, small_book):
    file = small_book.parameters("n_gpus: 1024\n")
    build(file)
    small_book.parameters("n_gpus: 2048\n")
    build(file)
    small_book.parameters("n_gpus: 1024\n")
    assert build(file) == ["size"]


def test_a_file_edited_while_a_chapter_runs_leaves_nothing_fresh(small_book, recorder, site_writer):
    small_book.add("size", "n_gpus: int = 1  # [1] GPUs", "n_gpus")

    def edit_meanwhile(project, chapter, parameters, output, **options):
        (project.package / "rooms.py").write_text("SIZE = 3\n")
        return recorder(project, chapter, parameters, output, **options)

    with pytest.raises(BuildFailed, match=r"size.*\n.*package changed while it was executed"):
        pipeline.build(small_book.project, executor=edit_meanwhile, site_builder=site_writer)
    assert not list(small_book.project.executed.glob("*"))
    assert not small_book.project.html.exists()


def test_force_executes_everything(build):
    build()
    assert build(force=True) == ["pace", "size"]


def test_a_changed_page_builds_the_site_and_executes_nothing(build, small_book):
    build()
    page = small_book.project.html / "index.html"
    before = page.stat().st_ino
    (small_book.root / "book" / "index.md").write_text("# Other words\n")
    assert build() == []
    assert page.stat().st_ino != before


def test_a_failed_chapter_is_named_and_the_others_results_are_kept(
    build, small_book, recorder, site_writer
):
    build()
    small_book.add("pace", "step_s: float = 8.0  # [s] one step", "step_s")
    small_book.add("size", "n_gpus: int = 2  # [1] GPUs", "n_gpus")
    for name in ("drain", "restart", "idle"):  # more than are executed at a time
        small_book.add(name, f"{name}_s: float = 1.0  # [s] {name}", "1")
    sites = []

    def fail(project, chapter, parameters, output, **options):
        if chapter.name == "size":
            raise ChapterFailed(Failure("size", "ValueError: too few", 3, "study.table(job)"))
        return recorder(project, chapter, parameters, output, **options)

    with pytest.raises(BuildFailed) as failed:
        pipeline.build(
            small_book.project,
            executor=fail,
            site_builder=lambda project, *_: sites.append(project),
        )
    assert str(failed.value) == (
        "Chapter size failed in cell 3:\n"
        "    ValueError: too few\n"
        "    while running: study.table(job)"
    )
    assert recorder.taken() == ["drain", "idle", "pace", "restart"]
    assert not sites, "a site of some chapters is not the book"
    assert not small_book.project.html.exists(), "the old site must not look up to date"
    assert build() == ["size"]
    assert (small_book.project.html / "index.html").is_file()


def test_a_failed_site_leaves_no_site(build, small_book, recorder):
    build()
    (small_book.root / "book" / "index.md").write_text("# Other words\n")

    def refuse(*_):
        raise BuildFailed("The site was refused:\n    book/index.md:1: WARNING: no")

    with pytest.raises(BuildFailed, match=r"book/index\.md:1"):
        pipeline.build(small_book.project, executor=recorder, site_builder=refuse)
    assert not small_book.project.html.exists()


def test_an_unexpected_error_in_a_task_fails_the_build(build, small_book, recorder):
    def break_down(*_):
        raise RuntimeError("out of paper")

    with pytest.raises(BuildFailed, match="out of paper"):
        pipeline.build(small_book.project, executor=recorder, site_builder=break_down)


def test_other_parameters_leave_the_default_book_alone(build, small_book):
    build()
    default = small_book.project.html / "index.html"
    before = default.stat().st_ino, default.read_text()
    build(small_book.parameters("n_gpus: 1024\n"))
    assert (default.stat().st_ino, default.read_text()) == before
    assert build() == []
    other = small_book.root / "book" / "_build" / "cluster" / "html" / "index.html"
    assert other.read_text() == "cluster.yaml"


def test_a_refused_parameter_file_leaves_no_site_for_it(build, small_book, recorder):
    file = small_book.parameters("n_gpus: 1024\n")
    build(file)
    small_book.parameters("n_gpus: -1\n")
    with pytest.raises(InputError, match="n_gpus"):
        build(file)
    assert recorder.taken() == []
    assert not (small_book.root / "book" / "_build" / "cluster" / "html").exists()


@pytest.mark.parametrize("name", ["html", "Chapters", "default", "state", "my cluster", "-x"])
def test_a_file_name_that_would_overwrite_another_book_is_refused(build, small_book, name):
    with pytest.raises(InputError, match="rename the file"):
        build(small_book.parameters("n_gpus: 1024\n", name))


def test_provenance_reaches_a_chapter_for_its_own_parameters_only(build, small_book, recorder):
    build(
        small_book.parameters(
            "n_gpus: 1024\nstep_s: 5.0\nsources:\n  n_gpus: {kind: published, source: a report}\n"
        )
    )
    assert recorder.injected["size"] == {
        "n_gpus": 1024,
        "sources": {"n_gpus": {"kind": "published", "source": "a report"}},
    }
    assert recorder.injected["pace"] == {"step_s": 5.0}


def test_a_page_missing_from_the_folder_is_named(tmp_path: Path):
    book = tmp_path / "book"
    book.mkdir()
    (book / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    with pytest.raises(InputError, match="names index, but there is no such page"):
        pipeline.build(Project(tmp_path))
