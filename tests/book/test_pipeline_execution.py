"""Chapters executed by papermill in processes of their own: results, failures, interruptions."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkpoint_tax.publish import pipeline
from checkpoint_tax.publish.chapters import BuildFailed, read_notebook, source_of
from checkpoint_tax.publish.static_site import as_page

SIZE = "n_gpus: int = 16384  # [1] GPUs of the job"


def outputs(notebook):
    return [
        output.get("text") or output.get("data", {}).get("text/plain")
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
    ]


def test_chapters_are_executed_with_their_values_and_their_sources_stay_untouched(
    small_book, site_writer, capfd
):
    preset = small_book.root / "book" / "parameters" / "published.yaml"
    preset.write_text("n_gpus: 512\n")
    sources = [
        small_book.add(
            "size", SIZE, "print(n_gpus * 2)", "open('parameters/published.yaml').read()"
        ),
        small_book.add("pace", "step_s: float = 7.0  # [s] one step", "print(step_s)"),
    ]
    before = [path.read_bytes() for path in sources]
    pipeline.build(
        small_book.project, small_book.parameters("n_gpus: 1024\n"), site_builder=site_writer
    )
    built = small_book.root / "book" / "_build" / "cluster"
    size = read_notebook(built / "chapters" / "size.ipynb")
    pace = read_notebook(built / "chapters" / "pace.ipynb")
    assert outputs(size) == [["2048\n"], ["'n_gpus: 512\\n'"]]
    assert outputs(pace) == [["7.0\n"]]
    assert [path.read_bytes() for path in sources] == before
    assert list(size["metadata"][pipeline.RECORD_KEY]["reads"]) == [
        "book/parameters/published.yaml"
    ]
    assert pace["metadata"][pipeline.RECORD_KEY]["reads"] == {}
    assert "  size: cell 3 of 4" in capfd.readouterr().out.splitlines()
    assert not list((built / "state").glob("*unfinished*"))

    page = as_page(size)
    assert source_of(page["cells"][1]) == "n_gpus: int = 1024  # [1] GPUs of the job"
    assert all("papermill" not in cell["metadata"] for cell in page["cells"])
    assert len(page["cells"]) == len(json.loads(before[0])["cells"])


def test_a_chapter_that_raises_is_reported_in_five_lines(small_book, site_writer, capfd):
    small_book.add("size", SIZE, "total = 0", "share = n_gpus / total\nprint(share)")
    with pytest.raises(BuildFailed) as failed:
        pipeline.build(
            small_book.project, small_book.parameters("n_gpus: 7\n"), site_builder=site_writer
        )
    assert str(failed.value) == (
        "Chapter size failed in cell 4:\n"
        "    ZeroDivisionError: division by zero\n"
        "    while running: share = n_gpus / total"
    )
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in printed
    built = small_book.root / "book" / "_build" / "cluster"
    assert not list((built / "chapters").glob("*"))


def test_an_error_raised_in_the_package_names_its_line(small_book, site_writer):
    small_book.add(
        "size",
        SIZE,
        "from checkpoint_tax.scenario import scenario_from_mapping",
        "job = scenario_from_mapping({'n_gpus': -n_gpus})",
    )
    with pytest.raises(BuildFailed) as failed:
        pipeline.build(small_book.project, site_builder=site_writer)
    lines = str(failed.value).splitlines()
    assert lines[0] == "Chapter size failed in cell 4:"
    assert "InputError: n_gpus" in lines[1]
    assert "src/checkpoint_tax/scenario/" in lines[-1]


def test_a_kernel_that_dies_is_named(small_book, site_writer):
    small_book.add("size", SIZE, "import os\nos._exit(1)")
    with pytest.raises(BuildFailed, match="Chapter size failed:\n    the kernel died"):
        pipeline.build(small_book.project, site_builder=site_writer)
    assert not list(small_book.project.executed.glob("*"))


def _children(process_id: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == process_id:
            found += [int(entry.name), *_children(int(entry.name))]
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("number", "inherited"),
    [
        (signal.SIGINT, "default_int_handler"),
        (signal.SIGTERM, "default_int_handler"),
        (signal.SIGTERM, "SIG_IGN"),  # as a script's background job is started
        (signal.SIGKILL, "default_int_handler"),
    ],
)
def test_an_interrupted_build_leaves_nothing_that_counts_as_fresh(
    small_book, site_writer, number, inherited
):
    flag = small_book.root / "running"
    small_book.add(
        "size",
        SIZE,
        "print(n_gpus)",
        f"import pathlib, time\npathlib.Path({str(flag)!r}).touch()",
        "time.sleep(60 if n_gpus == 16384 else 0)",
    )
    started = (
        f"import runpy, signal; signal.signal(signal.SIGINT, signal.{inherited}); "
        "runpy.run_module('checkpoint_tax.publish', run_name='__main__')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", started, "build", "--root", str(small_book.root)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        give_up = time.monotonic() + 60
        while not flag.exists():
            assert process.poll() is None, "the build ended early"
            assert time.monotonic() < give_up, "the chapter never started"
            time.sleep(0.05)
        children = _children(process.pid)
        assert children
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if number == signal.SIGKILL:
        for child in children:  # nobody was left to end them
            os.kill(child, signal.SIGKILL)
    else:
        assert process.returncode == 130
        assert errors == "\nInterrupted; what was not finished counts as never done.\n"
        assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert not list(small_book.project.executed.glob("*"))
    assert not small_book.project.html.exists()

    file = small_book.parameters("n_gpus: 8\n")
    pipeline.build(small_book.project, file, site_builder=site_writer)
    built = small_book.root / "book" / "_build" / "cluster" / "chapters" / "size.ipynb"
    assert outputs(read_notebook(built)) == [["8\n"]]


def test_refresh_writes_outputs_and_nothing_else(small_book):
    path = small_book.add("size", SIZE, "n_gpus + 1")
    before = read_notebook(path)
    assert pipeline.refresh(small_book.project) == (path,)
    after = read_notebook(path)
    assert after["cells"][2]["outputs"] == [
        {
            "data": {"text/plain": ["16385"]},
            "execution_count": 2,
            "metadata": {},
            "output_type": "execute_result",
        }
    ]
    for cell in after["cells"][1:]:
        cell["outputs"], cell["execution_count"] = [], None
    assert after == before
    assert pipeline.refresh(small_book.project) == ()
