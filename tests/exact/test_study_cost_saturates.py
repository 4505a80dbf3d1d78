"""The chapter on the saturating cost: table 2, every mode, the boundary, and other jobs."""

import math

import pytest

from checkpoint_tax.ledger import ledger_frame, load_claims
from checkpoint_tax.plan import best_interval, exact_goodput
from checkpoint_tax.scenario import Scenario, load_scenario
from checkpoint_tax.studies import cost_saturates as study
from checkpoint_tax.studies.post_runs import post_scenario
from checkpoint_tax.studies.regimes import (
    DRAIN,
    INTERIOR,
    THIS_JOB,
    boundary_frame,
    published_jobs,
    regime,
    regime_frame,
)
from checkpoint_tax.studies.saturation_claims import largest_mtbf_s, restart_outgrows_n
from checkpoint_tax.studies.shares import exact_shares
from checkpoint_tax.theory import boundary, nonblocking

POST = load_scenario("post-16k")
COMPRESSED = {3: 93.49, 5: 93.31, 10: 92.86, 20: 91.97, 30: 91.08, 40: 91.46, 60: 91.54}
VERDICTS = {
    "tax.concl.daly_inapplicable": "true only when",
    "tax.concl.async_breaks_per_save_cost": "true only when",
    "tax.concl.restart_breaks_rework_only": "reproduced",
    "tax.concl.tax_pins": "reproduced",
    "tax.concl.no_added_traffic": "differs",
    "tax.concl.rework_linear": "true only when",
    "tax.concl.boundary_optimum": "true only when",
    "tax.concl.no_c_recovers": "true only when",
    "tax.concl.frequency_not_dominant": "true only when",
    "tax.concl.save_as_fast_as_drain": "true only when",
    "tax.concl.restart_past_8k": "differs",
    "guide.concl.overlap_means_too_short": "reproduced",
}


@pytest.fixture(scope="module")
def judged():
    frame = ledger_frame(study.claims())
    return frame[frame["chapter"] == study.CHAPTER].set_index("claim_id")


def test_every_claim_of_the_chapter_is_computed_and_no_other():
    own = {claim.claim_id for claim in load_claims() if claim.chapter == study.CHAPTER}
    assert len(own) == 43
    assert study.claims().keys() == own


def test_conclusions_have_the_verdicts_that_their_numbers_give(judged):
    conclusions = judged[judged["kind"] == "conclusion"]
    assert conclusions["verdict"].to_dict() == VERDICTS
    for claim_id in ("tax.concl.boundary_optimum", "tax.concl.save_as_fast_as_drain"):
        reason = judged.loc[claim_id, "reason"]
        assert "3,641 s" in reason
        assert "49,442 GPUs" in reason
        assert "0.49 points" in reason


def test_inputs_follow_from_other_figures(judged):
    rows = judged[judged["kind"] == "input"]
    assert len(rows) == 7
    assert set(rows["verdict"]) == {"reproduced"}
    assert (rows["computed"] / rows["value"]).between(0.95, 1.05).all()


def test_table_2_has_the_values_of_the_closed_form(judged):
    frame = study.table_2_frame()
    goodput = frame[frame["share"] == "goodput"].set_index("interval_steps")["exact"]
    assert goodput.round(2).to_dict() == COMPRESSED
    # One run drew too many failures: every row misses to the same side.
    printed = frame[frame["share"] == "goodput"].set_index("interval_steps")["printed"]
    assert (printed < goodput).all()
    # The tax column scatters least and differs from the first interval's charge alone.
    tax = frame[frame["share"] == "tax"].set_index("interval_steps")["verdict"]
    assert tax[[20, 30, 40, 60]].tolist() == ["differs"] * 4
    half = (frame["simulated_high"] - frame["simulated_low"]) / 2.0
    # 21 intervals of 95 % are widened to four deviations: false alarm 1e-3.
    assert ((frame["exact"] - frame["simulated"]).abs() <= 2.05 * half + 1e-9).all()


def test_modes_and_targets_have_the_numbers_of_the_model():
    frame = study.mode_frame(POST).set_index("interval")
    percent = (100.0 * frame[["wait", "compressed", "median version", "newest version"]]).round(2)
    assert percent.loc[["3", "5", "10", "20", "30"], "wait"].tolist() == [91.08] * 5
    assert percent.loc["best"].tolist() == [91.57, 93.67, 92.45, 93.34]
    assert frame.loc["best", "wait best_steps"] == 53
    assert frame.loc["best", "compressed best_steps"] == 1
    for steps, goodput in COMPRESSED.items():
        assert percent.loc[str(steps), "compressed"] == goodput
    # Saves due every 20 steps of a 30-step drain: every second one is made.
    assert frame.loc["20", "skip"] == exact_goodput(POST, 40)
    assert frame.loc["10", "overlap (2)"] < frame.loc["10", "wait"]


def test_a_compressed_drain_has_its_bandwidth_beside_it():
    frame = study.mode_frame(POST).set_index("interval")
    assert frame.loc["3", "speed"] == 10.0
    assert frame.loc["60", "speed"] == 1.0
    # 1.2 TB in 3 steps of 7 s.
    assert frame.loc["3", "rate"] == pytest.approx(1.2e12 / 21.0)
    assert frame.loc["60", "rate"] == pytest.approx(1.2e12 / 210.0)


def test_the_boundary_is_between_the_sizes_of_the_table():
    frame = study.boundary_rows_frame().set_index("n_gpus")
    assert frame["regime"].tolist() == [INTERIOR] * 4 + [DRAIN]
    assert frame["largest_s"].iloc[0] == pytest.approx(3640.7, abs=0.1)
    assert frame["first_order_s"].iloc[0] == pytest.approx(3500.0)
    assert frame.loc[16384, "best_steps"] == 53
    assert frame.loc[65536, "best_steps"] == 30
    assert round(100.0 * frame.loc[16384, "drain_loses"], 2) == 0.49
    assert regime(post_scenario(n_gpus=49442)) == DRAIN
    assert regime(post_scenario(n_gpus=49441)) == INTERIOR


def test_staging_moves_the_boundary_as_the_optimum_says():
    job = Scenario(staging_s=5.0)
    largest_s = largest_mtbf_s(job)
    # There the optimum for a cost of staging plus a L is just the drain.
    for factor, above in ((1.0001, True), (0.9999, False)):
        best_s = nonblocking.best_work_s(0.0, 0.0, factor * largest_s, stop_s=5.0 + 6.3)
        assert bool(best_s > 210.0) is above
    nearly = largest_mtbf_s(Scenario(staging_s=1e-9))
    assert nearly == pytest.approx(float(boundary.largest_mtbf_s(210.0, 0.03)), rel=1e-7)
    assert math.isinf(largest_mtbf_s(Scenario(drain_tax=0.0)))


def test_lines_of_the_maps_are_the_boundary_itself():
    for vertical, fixed in (("drain_s", 0.03), ("drain_tax", 210.0)):
        lines = boundary_frame(
            50_000.0, vertical=vertical, fixed=(fixed,), first_order=fixed, n_range=(1e3, 1e5)
        )
        for row in lines.to_dict("records")[::7]:
            mtbf_s = 50_000.0 * 3600.0 / row["n_gpus"]
            drain_s = row["drain_s"] if vertical == "drain_s" else fixed
            tax = fixed if vertical == "drain_s" else row["drain_tax"]
            if row["order"] == "exact":
                expected = float(boundary.largest_mtbf_s(drain_s, tax))
            else:
                expected = drain_s / (2.0 * tax)
            assert mtbf_s == pytest.approx(expected, rel=1e-9)


def test_published_jobs_stand_where_their_facts_put_them():
    jobs = published_jobs()
    llama, missing = jobs["Llama 3 405B"]
    assert missing == "tax"
    assert llama.job_mtbf_h is None
    assert llama.job_mtbf_s / 3600.0 == pytest.approx(3.093, abs=0.001)
    assert jobs["BLOOM 176B"][0].save_kind == "asynchronous"
    # 6.50 failures per 1,000 node-days of 8 GPUs.
    rsc, _ = jobs["RSC-1 rate, 131,072"]
    assert rsc.job_mtbf_s / 3600.0 == pytest.approx(0.2254, abs=1e-4)
    eight, _ = jobs["8B, a save every step"]
    assert eight.drain_tax == pytest.approx(5.005 / 0.485 - 1.0)
    frame = regime_frame(POST).set_index("job")
    assert set(frame.index[frame["regime"] == DRAIN]) == {"post, 65,536", "RSC-1 rate, 131,072"}
    assert frame.loc[THIS_JOB, "n_gpus"] == pytest.approx(16384)
    # Placed by its time between failures: 16,384 GPUs at 50,677 h are 16,165 at 50,000 h.
    assert frame.loc["Llama 3 405B", "n_gpus"] == pytest.approx(16384 * 50_000 / 50_677, rel=1e-6)


def test_restarts_outgrow_the_rest_where_the_shares_cross():
    waiting = post_scenario(drain_mode="wait")
    takeover = study.takeover_frame(POST).set_index("panel")["n_gpus"].astype(int).to_dict()
    assert takeover == {
        "post's mode, 10 steps": 18232,
        "saves wait, oldest version": 55097,
        "saves wait, newest version": 14597,
    }
    for n_gpus, outgrown in ((55097, True), (55096, False)):
        job = waiting.replace(n_gpus=n_gpus)
        best_s = nonblocking.best_work_s(job.drain_s, job.drain_tax, job.job_mtbf_s)
        parts = exact_shares(job, float(best_s) / job.step_s)
        assert (parts["restart"] > parts["save"] + parts["rework"]) is outgrown
    assert restart_outgrows_n(waiting.replace(detect_s=0.0, relaunch_s=0.0)) is None


def test_levers_are_worth_what_the_closed_form_says():
    frame = study.lever_frame(POST).set_index("lever")
    base = best_interval(POST).goodput.value
    faster = best_interval(POST.replace(detect_s=45.0, relaunch_s=150.0)).goodput.value
    assert frame.loc["restart time, half", "gain"] == pytest.approx(faster - base, abs=1e-15)
    assert frame.loc["newest version restored", "goodput"] == pytest.approx(0.9334, abs=5e-5)
    assert frame["gain"].iloc[0] == pytest.approx(base - exact_goodput(POST), abs=1e-15)
    blocking = study.lever_frame(load_scenario("bloom-176b"))
    assert "saves in the background instead" in set(blocking["lever"])
    waits_for_spares = study.lever_frame(load_scenario("opt-175b"))
    assert "wait for spares, half" in set(waits_for_spares["lever"])


def test_the_answer_names_the_post_and_this_job():
    text = study.answer(POST).markdown
    assert "every interval up to 30 steps is the same 91.08 %" in text
    assert "53 steps are best with 91.57 %" in text
    assert "3,641 s" in text
    assert "49,442 GPUs: not at its 16,384, but at its 65,536" in text
    assert "from 55,097 GPUs on" in text
    assert "loses 0.49 points" in text


def third(job):
    return study.answer(job).markdown.split("For this job")[1]


def test_the_answer_turns_round_beyond_the_boundary():
    text = third(POST.replace(n_gpus=65536))
    assert "one drain after the other is best" in text
    assert "it fails more often" in text
    assert "the best interval is 30 steps (1 to 31 are as good) with a goodput of 75.70 %" in text


@pytest.mark.parametrize("preset", ["bloom-176b", "glm-130b", "opt-175b"])
def test_the_answer_takes_a_blocking_job_into_the_background(preset):
    job = load_scenario(preset)
    best = best_interval(job.replace(save_kind="asynchronous", drain_mode="wait"))
    text = third(job)
    assert "blocking saves taken into the background" in text
    assert f"the best interval is {best.steps:,} steps" in text
    assert f"goodput of {100.0 * best.goodput.value:.2f} %" in text
    assert "is not best but loses" in text


def test_the_answer_of_jobs_without_a_boundary():
    assert "a save has no drain and there is no boundary" in third(POST.replace(drain_s=0.0))
    assert "a drain costs nothing, so one after the other is best" in third(
        POST.replace(drain_tax=0.0)
    )
    assert "for exponential failures" in third(POST.replace(failure_shape=0.8))


@pytest.mark.parametrize(
    "job",
    [
        POST,
        POST.replace(n_gpus=65536),
        POST.replace(drain_s=0.0),
        POST.replace(drain_tax=0.0, target="newest"),
        load_scenario("bloom-176b"),
        POST.replace(drain_mode="overlap", overlap_drains=3),
    ],
    ids=["post", "65536", "no drain", "no tax", "bloom", "overlap"],
)
def test_every_table_and_chart_can_be_made(job):
    for draw in (
        study.mode_chart,
        study.target_chart,
        study.drain_map,
        study.tax_map,
        study.loss_chart,
    ):
        spec = draw(job).to_dict()
        assert spec["usermeta"]["caption"]
        assert spec["description"]
    for show in (study.mode_table, study.jobs_table, study.loss_table, study.lever_table):
        assert "nan" not in show(job).text.lower().split()
