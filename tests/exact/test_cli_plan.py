"""The command ``plan``: what it prints, and one line with status 2 for everything refused."""

import json
from pathlib import Path

import pytest

from checkpoint_tax.cli import main
from checkpoint_tax.failures import read_failures
from checkpoint_tax.plan import plan
from checkpoint_tax.scenario import Scenario, load_scenario

LOGS = Path(__file__).resolve().parents[1] / "logs"
PACIFIC = "America/Los_Angeles"
Captured = pytest.CaptureFixture[str]


def out(capsys: Captured, *arguments: str) -> str:
    assert main(["plan", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_json_is_what_python_gives(capsys: Captured) -> None:
    found = json.loads(out(capsys, "post-16k", "--json"))
    assert found == json.loads(json.dumps(plan(load_scenario("post-16k")).as_dict()))
    with_log = out(capsys, "glm-130b", "--log", str(LOGS / "sacct.txt"), "--tz", PACIFIC, "--json")
    job = load_scenario("glm-130b")
    expected = plan(job, log=LOGS / "sacct.txt", tz=PACIFIC).as_dict()
    assert json.loads(with_log) == json.loads(json.dumps(expected))


def test_size_of_the_log_seed_and_threads_reach_the_plan(capsys: Captured) -> None:
    path = str(LOGS / "sacct.txt")
    options = ["--log", path, "--tz", PACIFIC, "--log-gpus", "384", "--seed", "5", "--threads", "1"]
    found = json.loads(out(capsys, "glm-130b", *options, "--json"))
    job = load_scenario("glm-130b")
    expected = plan(job, log=path, tz=PACIFIC, log_gpus=384, seed=5).as_dict()
    assert found == json.loads(json.dumps(expected))
    other = plan(job, log=path, tz=PACIFIC, log_gpus=384).as_dict()
    assert found["finish_h"]["median"] != other["finish_h"]["median"]


def test_a_log_is_read_as_the_command_failures_reads_it(capsys: Captured, tmp_path: Path) -> None:
    job, path = load_scenario("glm-130b"), LOGS / "workers_syslog.log"
    found = json.loads(out(capsys, "glm-130b", "--log", str(path), "--year", "2025", "--json"))
    expected = plan(job, log=read_failures(path, year=2025)).as_dict()
    assert found == json.loads(json.dumps(expected))
    mine = tmp_path / "mine.csv"
    mine.write_text("a,why\n2025-01-01T00:00:00Z,ECC\n2025-01-01T00:30:00Z,ECC\n")
    ends = ["--since", "2025-01-01T00:00:00Z", "--until", "2025-01-11T00:00:00Z"]
    reading = ["--kind", "incidents", "--map", "a=start", "--map", "why=cause", *ends]
    for window, n in (("10m", 2), ("1h", 1)):
        options = ["--log", str(mine), *reading, "--window", window, "--json"]
        assert json.loads(out(capsys, "glm-130b", *options))["mtbf_h"] == pytest.approx(240.0 / n)


def test_parameters_and_a_file_of_ones_own(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("n_gpus: 4096\ngpu_mtbf_h: 60000.0\n")
    found = json.loads(out(capsys, str(path), "-p", "drain_tax", "0.1", "--json"))
    expected = plan(Scenario(n_gpus=4096, gpu_mtbf_h=60_000.0, drain_tax=0.1)).as_dict()
    assert found == json.loads(json.dumps(expected))


def test_a_default_mtbf_is_not_called_yours(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("n_gpus: 4096\n")
    assert "is from the first post's default, not your job" in out(capsys, str(path))
    assert "is from the scenario" in out(capsys, str(path), "-p", "job_mtbf_h", "9")


def test_text_answers_every_question(capsys: Captured) -> None:
    text = out(capsys, "glm-130b", "--log", str(LOGS / "sacct.txt"), "--tz", PACIFIC)
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    found = plan(load_scenario("glm-130b"), log=LOGS / "sacct.txt", tz=PACIFIC)
    low, high = found.range_steps
    assert rows["save"].startswith(f"save every   {low} to {high} steps (")
    assert "54.23 h (95 %: 18.56 h to 10.96 d)" in rows["MTBF"]
    assert f"{100 * found.goodput.low:.2f} to {100 * found.goodput.high:.2f} %" in rows["goodput"]
    assert "over the MTBF's interval" in rows["goodput"]
    assert rows["regime"].split() == ["regime", found.regime]
    assert "(median)" in rows["finish"]
    assert "GPU-hours (median)" in rows["cost"]
    assert f"the best gains {100 * found.gain:.3g} points" in rows["now"]
    assert f"Young        {found.young_steps} steps" in rows["Young"]
    for lever in found.levers:
        assert lever in rows
    assert text.count("warning: ") == len(found.warnings)


def test_text_without_a_log_and_without_headway(capsys: Captured) -> None:
    assert "(MTBF taken as known)" in out(capsys, "post-16k")
    text = out(capsys, "post-16k", "-p", "n_gpus", "20000000")
    assert "finish" not in {line.split()[0] for line in text.splitlines() if line.strip()}
    assert "warning: the job makes too little headway" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "nowhere is neither a file nor a preset"),
        (["post-16k", "--log", "none.txt"], "none.txt: the log cannot be read"),
        (["post-16k", "--log", "sacct.txt", "--tz", "Nowhere"], "tz = 'Nowhere'"),
        (["post-16k", "--tz", "UTC"], "--tz is of use only with a log"),
        (["post-16k", "--year", "2025"], "--year is of use only with a log"),
        (["post-16k", "--map", "a=start"], "--map is of use only with a log"),
        (["post-16k", "--log", "sacct.txt", "--window", "soon"], "window = 'soon'"),
        (["post-16k", "--log-gpus", "8"], "log_gpus is of use only with a log"),
        (["post-16k", "--log", "sacct.txt", "--log-gpus", "0"], "log_gpus = 0"),
        (["post-16k", "-p", "step_s", "-7"], "step_s = -7 [s] is too small"),
        (["post-16k", "--seed", "-1"], "seed = -1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(LOGS)
    assert main(["plan", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("checkpoint-tax: ")
    assert captured.err.count("\n") == 1
    assert sentence in captured.err
