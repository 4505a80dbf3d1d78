"""The command line: what it prints, and one line with status 2 for everything refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoint_tax import __version__
from checkpoint_tax.cli import main
from checkpoint_tax.resources import presets
from checkpoint_tax.scenario import PARAMETERS, load_scenario

Captured = pytest.CaptureFixture[str]


def out(capsys: Captured, *arguments: str) -> str:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: Captured, *arguments: str) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("checkpoint-tax: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("checkpoint-tax: ").strip()


def test_version(capsys: Captured) -> None:
    assert out(capsys, "--version") == f"checkpoint-tax {__version__}\n"


def test_presets_lists_every_preset(capsys: Captured) -> None:
    lines = out(capsys, "presets").splitlines()
    assert [line.split()[0] for line in lines] == list(presets())


def test_check_prints_every_parameter_with_its_unit(capsys: Captured) -> None:
    text = out(capsys, "check", "llama3-405b")
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert set(PARAMETERS) <= set(rows)
    assert rows["drain_s"][1:4] == ["2.835", "s", "derived"]
    assert "3.093 h" in text


def test_check_as_json_is_read_back_as_the_same_job(capsys: Captured) -> None:
    found = json.loads(out(capsys, "check", "opt-175b", "--json"))
    job = load_scenario("opt-175b")
    assert found["parameters"] == job.as_dict()
    assert found["derived"]["job_mtbf_s"] == job.job_mtbf_s
    assert found["sources"]["n_gpus"]["kind"] == "published"


def test_parameters_are_set_as_two_words_or_one(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("n_gpus: 8\ngpu_mtbf_h: 100.0\n")
    two = out(capsys, "check", str(path), "-p", "step_s", "2", "-p", "target", "newest", "--json")
    one = out(capsys, "check", str(path), "--json", "-p", "step_s=2", "--parameter=target=newest")
    assert two == one
    assert json.loads(two)["parameters"]["step_s"] == 2.0


def test_a_number_set_here_loses_the_files_source(capsys: Captured) -> None:
    found = json.loads(out(capsys, "check", "llama3-405b", "--json", "-p", "n_gpus", "32768"))
    assert "n_gpus" not in found["sources"]
    assert "gpu_mtbf_h" in found["sources"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["check", "post-16"], "post-16 is neither a file nor a preset (did you mean the preset"),
        (["check", "post-16k", "-p", "step_s", "-7"], "step_s = -7 [s] is too small;"),
        (["check", "post-16k", "-p", "step_s", "15:00"], "step_s = '15:00' [s] is a text, not a"),
        (["check", "post-16k", "-p", "n_gpus", "1_000"], "n_gpus = '1_000' [1] is a text, not a"),
        (["check", "post-16k", "-p", "step_s", "nan"], "step_s = nan [s] is not a finite number;"),
        (["check", "post-16k", "-p", "step_s", "True"], "step_s = 'True' [s] is a text, not a"),
        (["check", "post-16k", "-p", "target", "1"], "target = '1' [word] is not a known word;"),
        (["check", "post-16k", "-p", "n_gpu", "1"], "'n_gpu' is not a parameter: the nearest"),
        (["check", "post-16k", "-p", "step_s"], "-p step_s lacks its value: write -p NAME VALUE."),
        (["check", "post-16k", "-p", "step_s", "1", "-p", "step_s", "2"], "-p step_s is given tw"),
        (["simulate", "post-16k", "--half-width", "0"], "half_width = 0"),
        (["simulate", "post-16k", "--half-width", "nan"], "half_width = nan"),
        (["simulate", "post-16k", "--seed", "-1"], "seed = -1"),
        (["simulate", "post-16k", "--threads", "0"], "threads = 0"),
        (["interval", "post-16k", "-p", "drain_tax", "-1"], "drain_tax = -1 [1] is too small;"),
        (["check", "two\nlines"], "two lines is neither a file nor a preset"),
        (["run", "none.ipynb", "out.ipynb"], "none.ipynb: the notebook cannot be read"),
    ],
)
def test_refused_input_is_one_line_and_status_2(
    capsys: Captured, arguments: list[str], sentence: str
) -> None:
    assert refused(capsys, *arguments).startswith(sentence)


def test_a_bad_file_is_named(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("drain_s: 15:00\n")
    assert refused(capsys, "check", str(path)).startswith(f"{path}: line 1: YAML reads 15:00 as")


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["check"], ["simulate", "post-16k", "--seed", "x"]]
)
def test_wrong_usage_is_status_2_without_a_traceback(
    capsys: Captured, arguments: list[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert "Usage: checkpoint-tax" in captured.out + captured.err
    assert "Traceback" not in captured.err


def test_exponents_are_numbers_on_the_command_line(capsys: Captured) -> None:
    found = json.loads(out(capsys, "check", "post-16k", "--json", "-p", "gpu_mtbf_h", "1e5"))
    assert found["parameters"]["gpu_mtbf_h"] == 1e5


def test_simulate_prints_shares_with_intervals_that_sum_to_one(capsys: Captured) -> None:
    arguments = ("simulate", "post-16k", "--half-width", "1e-3", "--seed", "18446744073709551615")
    found = json.loads(out(capsys, *arguments, "--json"))
    shares = found["shares"]
    assert list(shares) == ["goodput", "save", "rework", "restart", "straggler", "idle"]
    # Six rounded shares: each is off by less than an ulp of 1.
    assert abs(sum(share["value"] for share in shares.values()) - 1) < 1e-14
    assert all(share["low"] <= share["value"] <= share["high"] for share in shares.values())
    assert found["met"] is True
    assert shares["goodput"]["high"] - shares["goodput"]["low"] <= 2e-3
    table = out(capsys, *arguments)
    assert f"goodput             {100 * shares['goodput']['value']:.3f}" in table


def test_interval_gives_the_exact_optimum_beside_the_formulas(capsys: Captured) -> None:
    found = json.loads(out(capsys, "interval", "post-16k", "--json"))
    assert found["best"]["steps"] == 53
    assert round(100 * found["best"]["goodput"]["value"], 2) == 91.57
    low, high = found["best"]["practical_steps"]
    assert low < 53 < high
    assert found["best"]["method"] == "closed form"
    assert round(found["formulas_s"]["Young 1974"] / 7) == 53
    table = out(capsys, "interval", "post-64-nodes")
    assert "Young 1974               2276.8  " in table
    assert "goodput there: 92.89 %" in table


def test_interval_says_when_the_drain_itself_is_best(capsys: Captured) -> None:
    assert "is the drain itself" in out(capsys, "interval", "post-16k", "-p", "n_gpus", "65536")
    assert "is the drain itself" not in out(capsys, "interval", "post-16k")
    # A save that costs nothing has no optimum for the formulas to name.
    assert "Young" not in out(capsys, "interval", "post-16k", "-p", "drain_tax", "0")


def test_a_chapter_runs_and_a_failing_one_is_named(capsys: Captured, tmp_path: Path) -> None:
    cell = {"cell_type": "code", "execution_count": None, "outputs": []}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "x", "language": "python"}},
        "cells": [
            {
                **cell,
                "id": "a",
                "metadata": {"tags": ["parameters"]},
                "source": "n_gpus: int = 4\nseed: int = 1\nlog: str = ''\nsources: dict = {}",
            },
            {**cell, "id": "b", "metadata": {}, "source": "print(n_gpus, log, sources)"},
            {**cell, "id": "c", "metadata": {}, "source": "assert seed == 3, 'wrong\\nseed'"},
        ],
    }
    path = tmp_path / "small.ipynb"
    path.write_text(json.dumps(notebook))
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "n_gpus: 8\nseed: 3\nsources:\n  n_gpus: {kind: assumed, source: a guess}\n"
        "  step_s: {kind: assumed, source: a guess}\n"
    )
    result = tmp_path / "out.ipynb"
    arguments = ("run", str(path), str(result), "-f", str(mine), "-p", "log", "123_4")
    assert main([*arguments, "-p", "n_gpus", "16"]) == 0
    assert capsys.readouterr().out == f"{result}\n"
    outputs = json.loads(result.read_text())["cells"][2]["outputs"]
    kept = "{'step_s': {'kind': 'assumed', 'source': 'a guess'}}"
    assert "".join(outputs[0]["text"]) == f"16 123_4 {kept}\n"

    assert main([*arguments, "-p", "seed", "4"]) == 1
    assert capsys.readouterr().err == (
        "checkpoint-tax: chapter small failed with AssertionError: wrong seed\n"
    )
    assert main([*arguments, "-p", "sed", "4"]) == 2
    assert "the nearest known one is seed" in capsys.readouterr().err


def test_the_module_runs_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "checkpoint_tax", "check", "post-16k", "-p", "n_gpus", "0"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("checkpoint-tax: n_gpus = 0 [1] is too small")


def test_looking_at_a_job_does_not_wait_for_compilers() -> None:
    slow = "numba", "altair", "papermill", "scipy", "pandas"
    code = (
        "import sys; from checkpoint_tax.cli import main; main(['check', 'post-16k', '--json']);"
        f"sys.exit(sorted(set({slow!r}) & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
