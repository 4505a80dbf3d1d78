"""The chapter on torn checkpoints: its claims, and what each target costs in bytes and goodput."""

import math

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import ledger_frame, load_claims
from checkpoint_tax.plan import best_interval, best_window_plan, window_plan
from checkpoint_tax.plan.window import REPAIRS
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.studies import torn_checkpoints as study
from checkpoint_tax.studies.post_runs import post_scenario
from checkpoint_tax.studies.torn_claims import post_window_plan
from checkpoint_tax.theory import nonblocking

POST = post_scenario(drain_mode="wait")
VERDICTS = {
    "tax.concl.torn_is_corruption": "true only when",
    "tax.concl.replay_no_divergence": "reproduced",
    "tax.concl.skew_fully_repairable": "true only when",
    "tax.concl.median_minimises": "reproduced",
    "tax.concl.newest_expensive": "reproduced",
    "tax.concl.rollback_below_noise": "true only when",
    "tax.concl.median_free": "differs",
    "tax.concl.traffic_quadratic": "differs",
    "tax.concl.median_halves": "differs",
    "tax.concl.traffic_wall": "true only when",
}


@pytest.fixture(scope="module")
def judged():
    frame = ledger_frame(study.claims())
    return frame[frame["chapter"] == study.CHAPTER].set_index("claim_id")


def test_every_claim_of_the_chapter_is_computed_and_no_other():
    own = {claim.claim_id for claim in load_claims() if claim.chapter == study.CHAPTER}
    assert len(own) == 40
    assert study.claims().keys() == own


def test_conclusions_have_the_verdicts_that_their_numbers_give(judged):
    conclusions = judged[judged["kind"] == "conclusion"]
    assert conclusions["verdict"].to_dict() == VERDICTS


def test_exact_figures_are_reproduced(judged):
    exact = judged[judged["kind"].isin(["exact", "input"])]
    assert set(exact["verdict"]) == {"reproduced"}
    assert judged.loc["tax.text.wall_s64", "computed"] == 31.5
    assert judged.loc["tax.t3.median.traffic", "computed"] == 4.0


def test_figures_of_an_unstated_stream_lie_within_the_range_over_streams(judged):
    unstated = judged[judged["kind"] == "unstated-stream"]
    assert len(unstated) == 8
    for row in unstated.to_dict("records"):
        assert row["low"] - row["rounding"] <= row["value"] <= row["high"] + row["rounding"]
        assert row["low"] < 0.8 * row["high"]


def test_freshness_of_each_target_on_the_row_of_16384_gpus():
    """Half a point at 16 steps and 0.9 at 30; 91.57, 92.45 and 93.34 % at 30."""
    free = {r: 100 * window_plan(POST, r, charged=False).goodput for r in REPAIRS}
    assert free["staged"] == free["oldest"] == pytest.approx(91.57, abs=0.005)
    assert free["median"] == pytest.approx(92.45, abs=0.005)
    assert free["newest"] == pytest.approx(93.34, abs=0.005)
    for steps, points in ((16, 0.47), (30, 0.885)):
        newest, median = (
            post_window_plan(r, steps, charged=False).goodput for r in ("newest", "median")
        )
        assert 100 * (newest - median) == pytest.approx(points, abs=0.01)


def test_without_gradients_a_plan_is_the_best_interval_of_its_target():
    for repair, target in (("staged", "oldest"), ("median", "median"), ("newest", "newest")):
        plan = window_plan(POST, repair, charged=False)
        best = best_interval(POST.replace(target=target))
        assert plan.interval_steps == best.steps
        assert plan.goodput == pytest.approx(best.goodput.value, rel=1e-12)
        assert (plan.drain_steps, plan.bytes_per_parameter) == (30.0, 12)


@pytest.mark.parametrize(
    ("repair", "gradient", "state", "moved"),
    [
        ("newest", 2, 12, 12 + 29),
        ("median", 2, 12, 12 + 15),
        ("newest", 4, 14, 14 + 58),
        ("staged", 4, 14, 14),
    ],
)
def test_charged_bytes_lengthen_the_drain_and_cost_as_much_as_those_of_the_state(
    repair, gradient, state, moved
):
    plan = window_plan(POST, repair, gradient_bytes=gradient, state_bytes=state)
    assert plan.bytes_per_parameter == moved
    assert plan.drain_steps == pytest.approx(30 * moved / state)
    drain_s = plan.drain_steps * POST.step_s
    advance_s = {"staged": 0.0, "median": 15.0, "newest": 30.0}[repair] * POST.step_s
    exact = nonblocking.cycle_goodput(
        plan.interval_steps * POST.step_s,
        0.0,
        drain_s,
        drain_s,
        # The cost of a save grows with its bytes: 6.3 s for the state alone.
        6.3 * moved / state / drain_s,
        advance_s,
        POST.job_mtbf_s,
        POST.restart_s,
    )
    assert plan.goodput == pytest.approx(float(exact), rel=1e-12)
    assert plan.age_steps == pytest.approx(plan.drain_steps - advance_s / POST.step_s)


def test_the_interval_of_a_plan_is_the_best_whole_one():
    for repair in REPAIRS:
        job = POST.replace(drain_s=56.0, drain_tax=0.1)
        plan = window_plan(job, repair)
        drain_s = plan.drain_steps * job.step_s
        tax = 0.1 * 56.0 * plan.bytes_per_parameter / 12 / drain_s
        advance_s = (plan.drain_steps - plan.age_steps) * job.step_s
        all_k = range(math.ceil(plan.drain_steps), 300)
        goodputs = [
            float(
                nonblocking.cycle_goodput(
                    k * job.step_s,
                    0.0,
                    drain_s,
                    drain_s,
                    tax,
                    advance_s,
                    job.job_mtbf_s,
                    job.restart_s,
                )
            )
            for k in all_k
        ]
        assert plan.interval_steps == all_k[goodputs.index(max(goodputs))]


def test_the_shortest_window_is_best_and_a_staged_copy_beats_every_charged_repair():
    for steps in (4, 16, 30):
        job = POST.replace(drain_s=steps * POST.step_s, drain_tax=0.9 / steps)
        plans = {repair: best_window_plan(job, repair) for repair in REPAIRS}
        assert {plan.window_steps for plan in plans.values()} == {steps}
        order = sorted(plans, key=lambda repair: -plans[repair].goodput)
        assert order == ["staged", "median", "newest", "oldest"]
    two = POST.replace(drain_s=2 * POST.step_s, drain_tax=0.45)
    assert best_window_plan(two, "newest").goodput > best_window_plan(two, "median").goodput


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: window_plan(POST, "fresh"), "repair = 'fresh' is not known"),
        (lambda: window_plan(POST, "newest", window_steps=29), "window_steps = 29 steps"),
        (lambda: window_plan(POST.replace(failure_shape=0.7), "newest"), "failure_shape = 0.7"),
        (lambda: study.torn_frame(-1), "seed = -1"),
        (lambda: study.plan_frame(POST, 0, 12), "gradient_bytes = 0 B"),
        (lambda: study.worth_frame(POST, 2, 100), "state_bytes = 100 B"),
    ],
)
def test_what_makes_no_plan_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_replay_passes_the_state_at_13_steps_in_bf16_and_7_in_fp32():
    frame = study.passing_frame().set_index(["target", "gradient_bytes", "state_bytes"])["steps"]
    assert frame["newest", 2, 12] == 13
    assert frame["newest", 4, 12] == 7
    assert (frame["newest", 2, 14], frame["newest", 4, 14]) == (15, 8)
    assert (frame["median", 2, 12], frame["median", 4, 12]) == (24, 12)


def test_table_3_shows_every_printed_cell():
    frame = study.target_frame()
    assert len(frame) == 12
    assert "differs" not in set(frame["verdict"])
    newest = frame[frame["target"] == "newest"].set_index("quantity")
    assert newest.loc["error of m", "high"] == 0.0
    assert newest.loc["gradient traffic", "nearest"] == 7.5


def test_torn_errors_rise_with_the_learning_rate_and_every_repair_is_exact():
    frame = study.torn_frame()
    assert len(frame) == 36
    assert frame["repaired"].all()
    for _, part in frame.groupby(["stream", "warmup_steps"]):
        assert part["lr"].is_monotonic_increasing
        assert part["error"].iloc[-1] > 20 * part["error"].iloc[0]


def test_optimizers_that_cannot_be_repaired_say_why():
    frame = study.optimizer_frame().set_index("optimizer")
    assert len(frame) == 12
    assert (frame["why_not"] != "").sum() == 5
    assert frame.loc["Muon", "forward"] == frame.loc["Muon", "inverse"] == "no"
    assert frame.loc["Lion", "p"] < 1e-6
    assert frame[["p", "m", "v"]].isna().all(axis=1).sum() == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"save_kind": "blocking", "drain_s": 0.0},
        {"failure_shape": 0.7, "drain_mode": "overlap", "target": "oldest"},
        {"drain_s": 3.0, "staging_s": 2.0},
        {"drain_tax": 0.0},
        {"drain_s": 900.0, "n_gpus": 131072},
    ],
)
def test_the_chapter_answers_for_other_jobs(changes):
    job = Scenario(**changes)
    text = str(study.answer(job, 4, 14))
    assert "is best, saved every" in text
    assert "nan" not in text
    assert "nan" not in study.plan_table(job, 4, 14).text
    assert study.worth_of_targets(job, 4, 14).to_dict()["usermeta"]["caption"]


def test_the_answer_names_the_cost_of_the_median():
    text = str(study.answer(POST))
    assert "0.47 points of goodput at 16 steps and 0.89 points at 30" in text
    assert "the staged copy is best, saved every 53 steps" in text
