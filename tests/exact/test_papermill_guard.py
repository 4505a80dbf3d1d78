"""Papermill's traps, closed in a plain papermill call, in the kernel and before either."""

import datetime
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from papermill import iorw

from checkpoint_tax.errors import InputError
from checkpoint_tax.publish import parameters_guard
from checkpoint_tax.publish.notebook import (
    ChapterError,
    declared_parameters,
    open_chapter,
    parameter_table,
    plain_value,
    run_chapter,
)
from checkpoint_tax.resources import parameters_path
from checkpoint_tax.scenario import PARAMETERS, Scenario, read_parameters

PARAMETERS_CELL = """\
n_gpus: int = 16384  # [1] GPUs in the job
gpu_mtbf_h: float = 50000.0  # [h] per GPU
target: str = "oldest"  # [word] restored version
job: str = "none"  # [word] name of the job in the log
seed: int = 0  # [1] seed
share: float = 0.5  # [1] a share
sources: dict = {}  # provenance
"""
OPEN_CELL = """\
from checkpoint_tax.publish.notebook import open_chapter
scenario = open_chapter(globals())
"""
ANSWER_CELL = "print(scenario.n_gpus, scenario.job_mtbf_s, scenario.target, repr(job), sources)"


def write_chapter(folder: Path, *cells: str) -> Path:
    sources = cells or (PARAMETERS_CELL, OPEN_CELL, ANSWER_CELL)
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        },
        "cells": [
            {
                "id": f"cell-{i}",
                "cell_type": "code",
                "metadata": {"tags": ["parameters"] if i == 0 else []},
                "source": source,
                "execution_count": None,
                "outputs": [],
            }
            for i, source in enumerate(sources)
        ],
    }
    path = folder / "chapter.ipynb"
    path.write_text(json.dumps(notebook))
    return path


@pytest.fixture
def chapter(tmp_path: Path) -> Path:
    return write_chapter(tmp_path)


def papermill(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "papermill", "chapter.ipynb", "out.ipynb", "-k", "python3",
         "--no-progress-bar", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip


def printed(notebook: Mapping[str, Any]) -> str:
    outputs = notebook["cells"][-1]["outputs"]
    return "".join("".join(output.get("text", "")) for output in outputs).strip()


def opened(injected: str = "", parameters: str = PARAMETERS_CELL) -> Scenario:
    """Open a chapter as a kernel does, without the kernel."""
    namespace: dict[str, Any] = {"In": ["", parameters], "Out": {}, "_": "", "exit": None}
    exec(parameters, namespace)
    if injected:
        namespace["In"].append(f"# Parameters\n{injected}")
        exec(injected, namespace)
    namespace["In"].append(OPEN_CELL)
    return open_chapter(namespace)


def refused(injected: str, parameters: str = PARAMETERS_CELL) -> str:
    with pytest.raises(InputError) as error:
        opened(injected, parameters)
    return str(error.value)


# ---- plain papermill, with a kernel: a few seconds each, so one call proves several things


def test_plain_papermill_takes_numbers_presets_and_raw_texts(chapter: Path) -> None:
    done = papermill(
        chapter.parent, "-f", "preset://llama3-405b", "-p", "n_gpus", "32768", "-r", "job", "123_4"
    )
    assert done.returncode == 0, done.stderr
    text = printed(json.loads((chapter.parent / "out.ipynb").read_text()))
    assert text.startswith(f"32768 {50677.0 * 3600 / 32768} oldest '123_4' {{'n_gpus': {{'kind'")


def test_plain_papermill_fails_by_name_for_a_name_nobody_knows(chapter: Path) -> None:
    done = papermill(chapter.parent, "-p", "n_gpu", "32768")
    assert done.returncode == 1
    assert "'n_gpu' is not a parameter: the nearest known one is n_gpus." in done.stderr


def test_plain_papermill_fails_for_an_exponent_that_yaml_reads_as_text(chapter: Path) -> None:
    (chapter.parent / "mine.yaml").write_text("gpu_mtbf_h: 1e4\n")
    done = papermill(chapter.parent, "-f", "mine.yaml")
    assert done.returncode == 1
    assert "gpu_mtbf_h = '1e4' [h] is a text, not a number (YAML reads 1e4 as" in done.stderr


def test_plain_papermill_fails_for_a_clock_before_it_starts_a_kernel(chapter: Path) -> None:
    (chapter.parent / "mine.yaml").write_text("n_gpus: 8\ndrain_s: 15:00\n")
    done = papermill(chapter.parent, "-f", "mine.yaml")
    assert done.returncode == 1
    assert "line 2: YAML reads 15:00 as 900, a number in base 60; write seconds" in done.stderr
    assert not (chapter.parent / "out.ipynb").exists()


# ---- what papermill loads by itself


def test_papermill_loads_the_guard_when_it_is_imported() -> None:
    schemes = dict(iorw.papermill_io._handlers)
    assert schemes[parameters_guard.SCHEME] is parameters_guard.PresetHandler


@pytest.mark.parametrize("text", ["a: 15:00", "a: 1:30.5", "a: -1:00", "{a: 15:00}", "a: 010"])
def test_papermills_own_loader_refuses_numbers_in_other_bases(text: str) -> None:
    with pytest.raises(InputError, match=r"a number in base (60|8);"):
        yaml.load(text, Loader=iorw.NoDatesSafeLoader)


def test_papermills_loader_reads_everything_else_as_before() -> None:
    text = "{a: 900, b: 1.5, c: 0x10, d: .inf, e: '15:00', f: 2025-01-31, g: 1_000, h: 0, i: -0.5}"
    plain = type("Plain", (yaml.SafeLoader,), {})
    plain.yaml_implicit_resolvers = iorw.NoDatesSafeLoader.yaml_implicit_resolvers
    assert yaml.load(text, Loader=iorw.NoDatesSafeLoader) == yaml.load(text, Loader=plain)


def test_other_users_of_yaml_are_left_alone() -> None:
    assert yaml.safe_load("a: 15:00") == {"a": 900}


def test_the_preset_scheme_reads_and_only_reads() -> None:
    text = iorw.papermill_io.read("preset://post-16k.yaml", [".yaml"])
    assert text == parameters_path("post-16k").read_text()
    assert iorw.read_yaml_file("preset://post-16k.yaml")["n_gpus"] == 16384
    # Papermill warns of the missing ending and reads it all the same.
    with pytest.warns(UserWarning, match="with any extension"):
        assert iorw.read_yaml_file("preset://post-16k")["n_gpus"] == 16384
    assert "preset://post-16k" in iorw.papermill_io.listdir("preset://")
    assert iorw.papermill_io.pretty_path("preset://post-16k") == "preset://post-16k"
    with pytest.raises(InputError, match="can only be read"):
        iorw.papermill_io.write("", "preset://post-16k.yaml", [".yaml"])
    with pytest.raises(InputError, match=r"'post-17k\.yaml' does not exist"):
        iorw.papermill_io.read("preset://post-17k.yaml", [".yaml"])


# ---- opening a chapter


def test_opening_takes_the_cell_and_what_was_injected_after_it() -> None:
    assert opened() == Scenario()
    job = opened('n_gpus = 512\ntarget = "newest"\ndrain_s = 60')
    assert (job.n_gpus, job.target, job.drain_s) == (512, "newest", 60.0)


def test_a_scenario_parameter_the_chapter_does_not_use_is_no_error() -> None:
    assert opened("idle_s = 5").idle_s == 5.0


@pytest.mark.parametrize(
    ("injected", "sentence"),
    [
        ("n_gpu = 8", "'n_gpu' is not a parameter: the nearest known one is n_gpus."),
        ("sed = 8", "'sed' is not a parameter: the nearest known one is seed."),
        ("_n_gpus = 8", "'_n_gpus' is not a parameter: the nearest known one is n_gpus."),
        ("n_gpus = 0", "n_gpus = 0 [1] is too small; allowed is a whole number from 1 to 1e+09."),
        ("gpu_mtbf_h = float('nan')", "gpu_mtbf_h = nan [h] is not a finite number;"),
        ("gpu_mtbf_h = '15:00'", "gpu_mtbf_h = '15:00' [h] is a text, not a number (write 15:00"),
        ("target = 1", "target = 1 [word] is a number, not a text (papermill's -p reads"),
        ("job = 1234", "job = 1234 is a number, but must be of type str (papermill's -p reads"),
        ("job = None", "job = None is empty, but must be of type str (papermill's -p reads"),
        ("job = True", "job = True is a true/false value, but must be of type str (papermill's"),
        ("seed = 1.5", "seed = 1.5 is a number, but must be of type int."),
        ("seed = True", "seed = True is a true/false value, but must be of type int."),
        ("seed = '1e4'", "seed = '1e4' is a text, but must be of type int (YAML reads 1e4 as"),
        ("share = float('inf')", "share = inf is not a finite number, but must be one."),
        ("sources = {'n_gpu': {}}", "'n_gpu' is not a parameter: the nearest known one is n_gpus."),
        ("sources = 3", "sources is a number, but must be a mapping."),
    ],
)
def test_opening_refuses_in_one_sentence(injected: str, sentence: str) -> None:
    assert refused(injected).startswith(sentence)


def test_the_hint_for_texts_names_the_option_that_keeps_them() -> None:
    assert "give it with -r" in refused("job = 1234")


def test_what_is_no_parameter_is_left_alone() -> None:
    tools = "import math\nfrom pathlib import Path\n_private = 3\ndef f() -> int:\n    return 1\n"
    assert opened(parameters=PARAMETERS_CELL + tools) == Scenario()
    # papermill --inject-paths
    assert opened("PAPERMILL_INPUT_PATH = 'a'\nPAPERMILL_OUTPUT_PATH = 'b'") == Scenario()


@pytest.mark.parametrize(
    ("cell", "injected", "hours"),
    [
        ("gpu_mtbf_h: float = 6144.0\nn_gpus: int = 512", "job_mtbf_h = 3", 3.0),
        ("job_mtbf_h: float = 12.0\nn_gpus: int = 512", "gpu_mtbf_h = 512", 1.0),
        ("gpu_mtbf_h: float = 6144.0\nn_gpus: int = 512", "n_gpus = 1024", 6.0),
        ("gpu_mtbf_h: float = 50000.0\njob_mtbf_h: float = 2.0", "", 2.0),
        ("gpu_mtbf_h: float = 50000.0\njob_mtbf_h: float = None", "", 50000 / 16384),
    ],
)
def test_the_mtbf_a_person_set_wins_over_the_other_ones_default(
    cell: str, injected: str, hours: float
) -> None:
    assert opened(injected, cell).job_mtbf_s == hours * 3600


def test_two_mtbfs_set_together_must_agree() -> None:
    assert "contradicts gpu_mtbf_h" in refused("gpu_mtbf_h = 6144\njob_mtbf_h = 2")


# ---- running a chapter from Python


def test_a_chapter_runs_with_values_of_every_kind(chapter: Path) -> None:
    output = chapter.parent / "out.ipynb"
    parameters = {
        "n_gpus": np.int64(512),
        "gpu_mtbf_h": np.float32(6144),
        "target": "newest",
        "job": "123_4",
        "seed": np.uint64(7),
    }
    done = run_chapter(chapter, output, parameters)
    assert printed(done) == "512 43200.0 newest '123_4' {}"
    assert json.loads(output.read_text())["metadata"]["papermill"]["parameters"]["seed"] == 7


def test_a_chapter_that_raises_is_named_with_its_error(tmp_path: Path) -> None:
    path = write_chapter(tmp_path, PARAMETERS_CELL, "1 / 0")
    with pytest.raises(ChapterError) as failed:
        run_chapter(path, tmp_path / "out{x}.ipynb")
    assert str(failed.value) == "chapter chapter failed with ZeroDivisionError: division by zero"
    assert (tmp_path / "out{x}.ipynb").exists()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_gpu": 8}, "'n_gpu' is not a parameter: the nearest known one is n_gpus."),
        ({"drain_s": math.nan}, "drain_s = nan [s] is not a finite number; allowed is a number"),
        ({"share": -math.inf}, "share = -inf is not a finite number, but must be one."),
        ({"step_s": -1}, "step_s = -1 [s] is too small; allowed is a number from"),
        ({"step_s": np.array([1.0])}, "step_s is of type ndarray, which a chapter cannot take"),
        ({"job": 1234}, "job = 1234 is a number, but must be of type str"),
        ({"gpu_mtbf_h": "1e4"}, "gpu_mtbf_h = '1e4' [h] is a text, not a number"),
        ({"gpu_mtbf_h": 8e4, "job_mtbf_h": 9}, "job_mtbf_h = 9.0 [h] contradicts gpu_mtbf_h"),
    ],
)
def test_bad_values_are_refused_before_anything_runs(
    chapter: Path, parameters: dict[str, object], sentence: str
) -> None:
    output = chapter.parent / "out.ipynb"
    with pytest.raises(InputError) as error:
        run_chapter(chapter, output, parameters)
    assert str(error.value).startswith(sentence)
    assert not output.exists()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(0.5), 0.5),
        (np.int32(5), 5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (datetime.date(2025, 1, 31), "2025-01-31"),
        (datetime.datetime(2025, 1, 31, 15, 0), "2025-01-31T15:00:00"),
        (pd.Timestamp("2025-01-31 15:00"), "2025-01-31T15:00:00"),
        (np.datetime64("2025-01-31"), "2025-01-31"),
        ({"a": (np.int64(1), 2.0)}, {"a": [1, 2.0]}),
        ("123_4", "123_4"),
        (None, None),
    ],
)
def test_values_are_made_plain_on_their_way_to_a_chapter(value: object, plain: object) -> None:
    made = plain_value("x", value)
    assert made == plain
    assert type(made) is type(plain)
    json.dumps(made, allow_nan=False)


def test_a_chapters_cell_is_read_without_running_it(chapter: Path, tmp_path: Path) -> None:
    declared = declared_parameters(chapter)
    assert declared.own_types == {"job": "str", "seed": "int", "share": "float"}
    assert declared.defaults["n_gpus"] == 16384
    with pytest.raises(InputError, match="the default of n_gpus is not a plain value"):
        declared_parameters(write_chapter(tmp_path, "n_gpus: int = 2**14"))
    with pytest.raises(InputError, match="cannot be read"):
        declared_parameters(tmp_path / "none.ipynb")


# ---- showing parameters


def test_the_parameter_table_tells_where_each_value_comes_from() -> None:
    content = read_parameters("llama3-405b")
    table = parameter_table(content.scenario(), content.sources).set_index("name")
    assert list(table.index) == list(PARAMETERS)
    assert list(table.columns) == ["value", "unit", "meaning", "kind", "source"]
    assert table.loc["n_gpus", "kind"] == "published"
    assert table.loc["drain_s", "unit"] == "s"
    assert table.loc["job_mtbf_h", "value"] == "not set"

    mine = parameter_table(Scenario(n_gpus=512, job_mtbf_h=12)).set_index("name")
    assert mine.loc["n_gpus", "kind"] == "set here"
    assert mine.loc["gpu_mtbf_h", "source"] == "job_mtbf_h times n_gpus"
    assert mine.loc["step_s", "kind"] == "published"
