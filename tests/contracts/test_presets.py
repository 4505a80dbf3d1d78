"""Presets: complete, every number tagged, and every derived number derived again here."""

import math

import pytest
import yaml

from checkpoint_tax.resources import parameters_path, presets
from checkpoint_tax.scenario import KINDS, PARAMETERS, Scenario, read_parameters

GB = 1e9
HOUR_S = 3600.0

LLAMA_DRAIN_S = 405e9 * 14 / 2e12
LLAMA_MTBF_S = 54 * 24 / 419 * HOUR_S
GLM_MTBF_S = 1292 / 11 * HOUR_S
OPT_MTBF_S = 33 * 24 / 90 * HOUR_S
BLOOM_RATE = 2.3e12 / 40


def young_steps(cost_s: float, mtbf_s: float, step_s: float) -> int:
    return round(math.sqrt(2 * cost_s * mtbf_s) / step_s)


# Worked out from published figures, not read from the files. Where a file rounds, so does this.
DERIVED: dict[str, dict[str, float]] = {
    "post-16k": {
        "gpu_mtbf_h": 50000,
        "blocking_s": 30 * 7,
        "drain_s": 30 * 7,
        "drain_tax": 0.03,
        "checkpoint_interval_steps": 210 / 7,
    },
    "post-64-nodes": {
        "n_gpus": 64 * 8,
        "gpu_mtbf_h": 12 * 64 * 8,
        "checkpoint_interval_steps": young_steps(60, 12 * HOUR_S, 1),
    },
    "llama3-405b": {
        "gpu_mtbf_h": round(54 * 24 * 16384 / 419, 2),
        "blocking_s": LLAMA_DRAIN_S,
        "drain_s": LLAMA_DRAIN_S,
        "checkpoint_interval_steps": young_steps(0.03 * LLAMA_DRAIN_S, LLAMA_MTBF_S, 6.2),
    },
    "bloom-176b": {
        "gpu_mtbf_h": 7 * 24 * 384,
        "checkpoint_interval_steps": young_steps(40, 7 * 24 * HOUR_S, 105),
    },
    "glm-130b": {
        "n_gpus": 96 * 8,
        "gpu_mtbf_h": round(1292 / 11 * 96 * 8, 2),
        "checkpoint_interval_steps": young_steps(130e9 * 14 / BLOOM_RATE, GLM_MTBF_S, 88.5),
    },
    "opt-175b": {
        "gpu_mtbf_h": round(33 * 24 / 90 * 992, 2),
        "checkpoint_interval_steps": young_steps(992 * 1.7 * GB / BLOOM_RATE, OPT_MTBF_S, 15),
        "idle_s": (56.5 - 33) * 86400 / 90 - 900,
    },
}


def test_the_presets_are_the_six_jobs_of_the_study() -> None:
    assert set(presets()) == set(DERIVED)


@pytest.mark.parametrize("name", presets())
def test_a_preset_sets_everything_and_tags_everything(name: str) -> None:
    content = read_parameters(name)
    # Complete, so that no chapter's own default is mixed into a published job; one MTBF only,
    # the one that scales with n_gpus.
    assert set(content.values) == set(PARAMETERS) - {"job_mtbf_h"}
    assert set(content.sources) == set(content.values)
    assert {entry["kind"] for entry in content.sources.values()} <= set(KINDS)
    assert isinstance(content.scenario(), Scenario)


@pytest.mark.parametrize("name", presets())
def test_every_derived_number_derives_again(name: str) -> None:
    content = read_parameters(name)
    tagged = {n for n, entry in content.sources.items() if entry["kind"] == "derived"}
    assert tagged == set(DERIVED[name])
    for parameter, value in DERIVED[name].items():
        assert content.values[parameter] == pytest.approx(value, rel=1e-12), parameter


@pytest.mark.parametrize("name", presets())
def test_every_unit_beside_a_number_is_the_parameters_unit(name: str) -> None:
    for line in parameters_path(name).read_text().split("# Where each value")[0].splitlines():
        if line.startswith("#") or ":" not in line:
            continue
        parameter = PARAMETERS[line.split(":")[0]]
        unit = line.partition("#")[2].strip()
        assert unit == ("" if parameter.unit in ("1", "word") else parameter.unit)


@pytest.mark.parametrize("name", presets())
def test_plain_yaml_readers_see_the_same_flat_file(name: str) -> None:
    plain = yaml.safe_load(parameters_path(name).read_text())
    content = read_parameters(name)
    assert plain.pop("sources") == content.sources
    assert plain == content.values


def test_published_rates_come_out_as_published() -> None:
    hours = {name: read_parameters(name).scenario().job_mtbf_s / HOUR_S for name in presets()}
    assert round(hours["post-16k"], 2) == 3.05
    assert hours["post-64-nodes"] == 12
    assert round(hours["llama3-405b"], 3) == 3.093
    assert hours["bloom-176b"] == 168
    assert round(hours["glm-130b"], 1) == 117.5
    # 33 of 56.5 days were needed: without rework, that is the goodput of this cycle.
    opt = read_parameters("opt-175b").scenario()
    up = opt.job_mtbf_s / (opt.job_mtbf_s + opt.restart_s + opt.idle_s)
    assert round(100 * up, 1) == 58.4


def test_the_first_post_is_the_default_job() -> None:
    job = read_parameters("post-16k").scenario()
    assert job == Scenario()


def test_rows_of_the_second_posts_example_follow_from_its_file() -> None:
    job = read_parameters("post-64-nodes").scenario()
    for blocking_s, restart_s, interval, waste in (
        (60, 900, 2277, 7.35),
        (5, 900, 657, 3.60),
        (5, 300, 657, 2.22),
    ):
        row = job.replace(blocking_s=blocking_s, restart_unsplit_s=restart_s)
        if waste == 7.35:  # the row that the file holds
            assert row == job
        mtbf_s = row.job_mtbf_s
        young_s = math.sqrt(2 * row.blocking_s * mtbf_s)
        assert round(young_s) == interval
        loss = row.blocking_s / young_s + young_s / (2 * mtbf_s) + row.restart_s / mtbf_s
        assert round(100 * loss, 2) == waste
    # The other rows' interval is named in the file for whoever edits it.
    assert "checkpoint_interval_steps: 657" in parameters_path("post-64-nodes").read_text()
