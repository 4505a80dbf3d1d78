"""A plan's numbers: against formulas worked out by hand and reports with known answers."""

import json
import math
import time
from pathlib import Path

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures import mtbf_interval, read_failures
from checkpoint_tax.plan import Plan, best_interval, exact_goodput, plan
from checkpoint_tax.scenario import Scenario, load_scenario, save_cycle
from checkpoint_tax.simulate import simulate_runs
from checkpoint_tax.theory import waste, young

LOGS = Path(__file__).resolve().parents[1] / "logs"
PACIFIC = "America/Los_Angeles"
KEYS = [
    "interval_steps", "interval_range_steps", "goodput", "goodput_interval", "losses", "regime",
    "mtbf_h", "mtbf_interval_h", "finish_h", "young_regret", "levers", "warnings",
]  # fmt: skip


def warned(found: Plan, *words: str) -> bool:
    return any(all(word in sentence for word in words) for sentence in found.warnings)


def blocking(cost_s: float, mtbf_h: float, restart_s: float, **others: object) -> Scenario:
    """A job of blocking saves with steps of 1 s, so that intervals in steps read as seconds."""
    values: dict[str, object] = {
        "n_gpus": 512, "step_s": 1.0, "save_kind": "blocking", "blocking_s": cost_s,
        "job_mtbf_h": mtbf_h, "detect_s": 0.0, "relaunch_s": 0.0, "restart_unsplit_s": restart_s,
    }  # fmt: skip
    return Scenario(**{**values, **others})


def incidents(tmp_path: Path, n_failures: int, n_planned: int, days: float) -> Path:
    """A list of incidents spread evenly over the days: failures, then planned work."""
    rows = ["start,cause"]
    n = n_failures + n_planned
    for i in range(n):
        minute = round(i * days * 1440 / (n - 1))
        stamp = f"2024-03-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00Z"
        is_planned = 0 < i <= n_planned
        rows.append(f"{stamp},{'planned maintenance' if is_planned else 'Xid 79'}")
    path = tmp_path / "incidents.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_the_keys_are_the_twelve_and_json_can_hold_them() -> None:
    content = plan(Scenario()).as_dict()
    assert list(content) == KEYS
    assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_shares_sum_to_one_and_are_those_of_the_best_interval() -> None:
    job = Scenario()
    found = plan(job)
    assert found.best.steps == best_interval(job).steps == 53
    assert found.range_steps == best_interval(job).practical_steps
    assert found.goodput.value == exact_goodput(job, 53)
    assert math.fsum([found.goodput.value, *found.losses.values()]) == pytest.approx(1, abs=1e-14)
    assert found.gain == exact_goodput(job, 53) - exact_goodput(job, 30)
    assert found.current_losses["goodput"] == exact_goodput(job, 30)


def test_without_a_log_the_mtbf_is_said_to_be_taken_as_known() -> None:
    found = plan(Scenario())
    assert found.mtbf_interval_s is None
    assert found.goodput.low == found.goodput.value == found.goodput.high
    assert warned(found, "is from the scenario and is taken as known")
    assert warned(plan(Scenario(), mtbf_is_given=False), "the first post's default, not your job")


@pytest.mark.parametrize(
    ("n_gpus", "regime"),
    [(16_384, "interior"), (65_536, "boundary"), (1_000_000, "save cannot keep up")],
)
def test_regimes_of_the_first_posts_job(n_gpus: int, regime: str) -> None:
    assert plan(Scenario(n_gpus=n_gpus)).regime == regime


def test_a_restart_that_loses_most_is_named() -> None:
    # Restart 390 s of 11,376 s is 3.4 points; saves of 0.5 s and their rework lose 1.
    quick = plan(Scenario(save_kind="blocking", blocking_s=0.5))
    assert quick.regime == "restart-dominated"
    assert warned(quick, "restart and waiting lose more")
    assert plan(Scenario(save_kind="blocking", blocking_s=0.5, relaunch_s=0.0)).regime == "interior"


def test_restart_dominates_where_it_loses_more_than_saves_and_rework() -> None:
    # Those two lose the share w of the up-time, a restart R of every M + R: alike at R = w M.
    equal_s = (1.0 - plan(blocking(60.0, 12.0, 0.0)).goodput.value) * 12.0 * 3600.0
    for factor, regime in ((1.01, "restart-dominated"), (0.99, "interior")):
        job = blocking(60.0, 12.0, 0.5 * factor * equal_s, idle_s=0.5 * factor * equal_s)
        found = plan(job)
        assert found.regime == regime
        assert warned(found, "restart and waiting lose more") is (factor > 1.0)


def test_save_cannot_keep_up_starts_where_the_first_save_takes_the_mtbf() -> None:
    job = Scenario()
    # At the boundary t1 = L + L (1 + a) = 426.3 s.
    for mtbf_s, keeps_up in ((426.4, True), (426.2, False)):
        found = plan(job.replace(job_mtbf_h=mtbf_s / 3600.0))
        assert (found.regime != "save cannot keep up") is keeps_up


def test_a_drain_within_one_step_or_compressed_is_no_boundary() -> None:
    # Three drain modes of one job: only where bandwidth sets the interval is it the boundary.
    assert plan(Scenario(n_gpus=65_536, drain_mode="overlap")).regime == "boundary"
    found = plan(Scenario(drain_mode="compressed"))
    assert found.best.steps < 30
    assert found.regime != "boundary"
    within = plan(Scenario(drain_s=0.7, drain_tax=0.0))
    assert within.best.steps == 1
    assert within.regime != "boundary"


def test_no_interval_below_the_drain_is_recommended_where_saves_would_wait() -> None:
    job = Scenario(n_gpus=65_536)
    assert best_interval(job).practical_steps[0] == 1
    assert plan(job).range_steps[0] == 30


def test_goodput_spans_the_mtbf_of_the_log_with_the_interval_held() -> None:
    job = load_scenario("glm-130b")
    found = plan(job, log=LOGS / "sacct.txt", tz=PACIFIC)
    # 3 infrastructure failures in 162.703 h.
    exposure_h = 162.0 + 42.0 / 60.0 + 10.0 / 3600.0
    assert found.mtbf_s / 3600.0 == pytest.approx(exposure_h / 3.0, rel=1e-12)
    ends_h = mtbf_interval(3, exposure_h)
    assert found.mtbf_interval_s is not None
    assert [e / 3600.0 for e in found.mtbf_interval_s] == pytest.approx(ends_h, rel=1e-12)
    low, high = (exact_goodput(job.replace(job_mtbf_h=h), found.best.steps) for h in ends_h)
    assert (found.goodput.low, found.goodput.high) == pytest.approx((low, high), rel=1e-12)
    assert found.goodput.low < found.goodput.value < found.goodput.high
    ends = tuple(best_interval(job.replace(job_mtbf_h=h)).steps for h in ends_h)
    assert found.best_at_mtbf_ends == ends
    assert warned(found, "too few failures to settle the interval", f"{ends[0]} steps")
    assert found.as_dict()["mtbf_interval_h"] == pytest.approx(list(ends_h))


def test_a_log_already_read_gives_the_same_plan() -> None:
    job = load_scenario("glm-130b")
    log = read_failures(LOGS / "sacct.txt", tz=PACIFIC)
    assert plan(job, log=log).as_dict() == plan(job, log=LOGS / "sacct.txt", tz=PACIFIC).as_dict()


def test_the_log_of_another_size_is_carried_by_parts_and_names_its_anchor() -> None:
    job = load_scenario("glm-130b")
    same = plan(job, log=LOGS / "sacct.txt", tz=PACIFIC)
    half = plan(job, log=LOGS / "sacct.txt", tz=PACIFIC, log_gpus=job.n_gpus // 2)
    assert half.mtbf_s == pytest.approx(same.mtbf_s / 2.0, rel=1e-12)
    assert half.mtbf_interval_s is not None
    assert same.mtbf_interval_s is not None
    assert half.mtbf_interval_s[0] == pytest.approx(same.mtbf_interval_s[0] / 2.0, rel=1e-12)
    assert f"at {job.n_gpus // 2:,} GPUs" in half.mtbf_from
    assert "rule of parts" in half.mtbf_from
    assert warned(same, "--log-gpus")
    assert not warned(half, "--log-gpus")


def test_anchors_that_disagree_are_shown_and_not_averaged() -> None:
    job = load_scenario("glm-130b")
    # 29.07 h by the log, 95 % 14.2 to 89.5 h; the preset says 117.5 h.
    far = plan(job, log=LOGS / "incidents.csv", tz=PACIFIC)
    assert warned(far, "anchors disagree by a factor of", "The plan uses the log")
    # 54.23 h by the log, 95 % 18.6 to 263 h, holds the preset's value.
    near = plan(job, log=LOGS / "sacct.txt", tz=PACIFIC)
    assert not warned(near, "disagree")
    assert warned(far, "exposure is wall time", "the mean up-time is shorter")
    assert not warned(near, "exposure is")
    default = plan(job, log=LOGS / "incidents.csv", tz=PACIFIC, mtbf_is_given=False)
    assert not warned(default, "disagree")


def test_planned_interruptions_stay_out_and_are_told(tmp_path: Path) -> None:
    path = incidents(tmp_path, n_failures=41, n_planned=9, days=20.0)
    job = Scenario(job_mtbf_h=20.0 * 24.0 / 49.0, n_gpus=1024)
    found = plan(job, log=path)
    # From the first to the last of 41 failures: 40 gaps in 20 days.
    assert found.mtbf_s == pytest.approx(12.0 * 3600.0, rel=1e-12)
    assert warned(found, "planned interruptions are left out of the MTBF (9 in the log)", "9.796 h")
    assert warned(found, "what comes out if all planned interruptions are counted")
    right = plan(job.replace(job_mtbf_h=12.0), log=path)
    assert not warned(right, "what comes out if")
    assert not warned(plan(job.replace(job_mtbf_h=30.0), log=path), "what comes out if")
    # One planned interruption among 41 failures moves the MTBF too little to tell.
    few = incidents(tmp_path, n_failures=41, n_planned=1, days=20.0)
    assert warned(plan(job.replace(job_mtbf_h=12.0), log=few), "(1 in the log)")
    assert not warned(plan(job.replace(job_mtbf_h=11.9), log=few), "what comes out if")
    assert not warned(plan(load_scenario("glm-130b"), log=LOGS / "sacct.txt", tz=PACIFIC), "plan")


def test_a_log_without_failures_bounds_the_mtbf_from_below(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(
        "JobID|State|Start|End|Elapsed\n"
        "1|COMPLETED|2025-01-01T00:00:00|2025-01-11T00:00:00|10-00:00:00\n"
    )
    job = Scenario(job_mtbf_h=200.0, n_gpus=1024)
    found = plan(job, log=path, tz="UTC")
    # 0 failures in 240 h: above 240 / -ln(0.025) = 65.06 h.
    assert found.mtbf_s == 200.0 * 3600.0
    assert found.as_dict()["mtbf_interval_h"] == [pytest.approx(240.0 / -math.log(0.025)), None]
    cycle = save_cycle(job, found.best.steps)
    assert found.goodput.high == cycle.work_s / cycle.period_s
    assert warned(found, "the log has no failure in 10 d", "from the scenario")
    short = plan(job.replace(job_mtbf_h=20.0), log=path, tz="UTC")
    assert warned(short, "lies below all that the log allows")


def test_finish_time_is_that_of_played_runs_and_costs_gpu_hours() -> None:
    job = Scenario(n_gpus=1024, run_steps=300_000)
    found = plan(job)
    assert found.finish is not None
    runs = simulate_runs(job.replace(checkpoint_interval_steps=found.best.steps), n_runs=1024)
    assert found.finish.median_s == runs.quantile(0.5)
    assert found.finish.p90_s == runs.quantile(0.9)
    content = found.as_dict()["finish_h"]
    assert content["median"] < content["p90"]
    assert content["undisturbed"] == pytest.approx(300_000 * 7.0 / 3600.0)
    assert content["gpu_h"]["median"] == pytest.approx(1024 * content["median"])
    lost = 1024 * (content["median"] - content["undisturbed"])
    assert content["gpu_h"]["lost_at_median"] == pytest.approx(lost)


def test_a_long_run_is_carried_on_from_a_part_of_it() -> None:
    # 2e7 steps meet 12,800 failures, above the 10,000 that are played. One false alarm in about
    # 1e5: both medians are within 4.5 standard errors, sqrt(pi/2) sd / sqrt(1024) each.
    job = Scenario(run_steps=20_000_000, checkpoint_interval_steps=53)
    found = plan(job)
    assert found.finish is not None
    whole = simulate_runs(job, n_runs=1024, seed=1)
    error_s = math.sqrt(math.pi / 2.0) * float(whole.finish_s.std()) / 32.0
    assert abs(found.finish.median_s.value - whole.quantile(0.5).value) < 4.5 * 1.42 * error_s
    spread = found.finish.p90_s.value - found.finish.median_s.value
    # The 90 % quantile is 1.2816 deviations above the median; its error is 0.07 of one at most.
    assert spread / float(whole.finish_s.std()) == pytest.approx(1.2816, abs=0.28)


def test_a_job_without_headway_has_no_finish_time() -> None:
    found = plan(Scenario(n_gpus=20_000_000))
    assert found.finish is None
    assert found.as_dict()["finish_h"] is None
    assert warned(found, "too little headway")
    hopeless = plan(Scenario(failure_clock="wall", n_gpus=1_000_000, relaunch_s=1e6))
    assert hopeless.goodput.value == 0.0
    assert hopeless.finish is None


@pytest.mark.parametrize("clock", ["uptime", "wall"])
def test_levers_of_restart_and_wait_are_the_derivatives(clock: str) -> None:
    job = Scenario(failure_clock=clock, idle_s=120.0, reload_s=60.0)
    found = plan(job)
    m, r, d = job.job_mtbf_s, job.restart_s, job.idle_s
    by_restart, by_idle = (-1 / m, -1 / (m + d)) if clock == "wall" else (-1 / (m + r + d),) * 2
    levers = found.levers
    assert levers["relaunch_s"].elasticity == pytest.approx(300.0 * by_restart, rel=1e-12)
    assert levers["reload_s"].elasticity == pytest.approx(60.0 * by_restart, rel=1e-12)
    assert levers["warmup_s"].elasticity == 0.0
    points = 100.0 * found.goodput.value * by_restart
    assert levers["warmup_s"].points == pytest.approx(points, rel=1e-12)
    assert levers["idle_s"].elasticity == pytest.approx(120.0 * by_idle, rel=1e-12)
    for name in ("relaunch_s", "idle_s"):
        value = getattr(job, name)
        ends = [exact_goodput(job.replace(**{name: value + e}), found.best.steps) for e in (-1, 1)]
        assert levers[name].points == pytest.approx(50.0 * (ends[1] - ends[0]), rel=1e-4)


def blocking_derivatives(k: float, c: float, m: float, r: float) -> tuple[float, float]:
    """d ln(goodput) by d ln M and by d ln C for goodput = k / ((M + R) (exp((k + C)/M) - 1))."""
    x = (k + c) / m
    factor = math.exp(x) / math.expm1(x)
    return -m / (m + r) + x * factor, -c / m * factor


def test_levers_of_mtbf_and_save_are_the_derivatives() -> None:
    found = plan(blocking(60.0, 12.0, 900.0))
    by_mtbf, by_cost = blocking_derivatives(found.best.steps, 60.0, 43_200.0, 900.0)
    assert found.levers["job_mtbf_h"].elasticity == pytest.approx(by_mtbf, rel=1e-8)
    assert found.levers["blocking_s"].elasticity == pytest.approx(by_cost, rel=1e-8)
    points = 100.0 * found.goodput.value * by_cost / 60.0
    assert found.levers["blocking_s"].points == pytest.approx(points, rel=1e-8)
    per_hour = 100.0 * found.goodput.value * by_mtbf / 12.0
    assert found.levers["job_mtbf_h"].points == pytest.approx(per_hour, rel=1e-8)
    assert {"drain_s", "drain_tax", "staging_s"}.isdisjoint(found.levers)


def asynchronous_slopes(k: float, drain: float, a: float, m: float) -> tuple[float, float]:
    """d ln(goodput) by d ln L, the interval held, and by d ln a, for the oldest version."""
    period = k + a * drain
    factor = math.exp(-period / m) / -math.expm1(-period / m)
    by_drain = -drain * (1.0 + a) / m - a * drain / m * factor
    return by_drain, -a * drain / m - a * drain / m * factor


def test_levers_of_drain_and_tax_are_the_derivatives_inside() -> None:
    job = Scenario()
    found = plan(job)
    by_drain, by_tax = asynchronous_slopes(53 * 7.0, 210.0, 0.03, job.job_mtbf_s)
    assert found.levers["drain_s"].elasticity == pytest.approx(by_drain, rel=1e-8)
    assert found.levers["drain_tax"].elasticity == pytest.approx(by_tax, rel=1e-8)
    points = 100.0 * found.goodput.value * by_tax / 3.0
    assert found.levers["drain_tax"].points == pytest.approx(points, rel=1e-8)
    # A stop of 1 s acts as 1 s more of blocking and of latency; from 0 it has no elasticity.
    period = 53 * 7.0 + 6.3
    slope = -(1.0 + 1.0 / math.expm1(period / job.job_mtbf_s)) / job.job_mtbf_s
    assert found.levers["staging_s"].elasticity == 0.0
    points = 100.0 * found.goodput.value * slope
    assert found.levers["staging_s"].points == pytest.approx(points, rel=1e-6)


def test_a_parameter_at_its_largest_value_has_a_lever() -> None:
    job = Scenario(drain_tax=1e6, drain_s=0.01, job_mtbf_h=24.0)
    found = plan(job)
    by_drain, by_tax = asynchronous_slopes(found.best.steps * 7.0, 0.01, 1e6, 86_400.0)
    assert found.levers["drain_tax"].elasticity == pytest.approx(by_tax, rel=1e-8)
    assert found.levers["drain_s"].elasticity == pytest.approx(by_drain, rel=1e-8)


def test_at_the_boundary_the_interval_follows_the_drain() -> None:
    job = Scenario(n_gpus=65_536)
    found = plan(job)
    # With k t = L: ln(goodput) = ln L - L (2 + a)/M - ln(1 - exp(-L (1 + a)/M)) + const.
    x = 210.0 / job.job_mtbf_s
    expected = 1.0 - 2.03 * x - 1.03 * x / math.expm1(1.03 * x)
    assert found.levers["drain_s"].elasticity == pytest.approx(expected, rel=1e-8)


def test_young_and_its_regret() -> None:
    for cost_s, mtbf_h in ((60.0, 12.0), (20_000.0, 12.0)):
        job = blocking(cost_s, mtbf_h, 900.0)
        found = plan(job)
        assert found.young_steps == round(math.sqrt(2.0 * cost_s * mtbf_h * 3600.0))
        regret = exact_goodput(job, found.best.steps) - exact_goodput(job, found.young_steps)
        assert found.young_regret == regret >= 0.0
        # C/M = 0.0014 and 0.46.
        assert warned(found, "first-order formulas are invalid") is (cost_s > 1000.0)
    # Asynchronous: the cost is stop and tax, 2 + 0.03 * 210 s.
    job = Scenario(staging_s=2.0)
    assert plan(job).young_steps == round(math.sqrt(2.0 * 8.3 * job.job_mtbf_s) / 7.0)


def test_first_order_is_called_invalid_from_ten_per_cent_on() -> None:
    # Young's interval is 4.885 % too long at C/M = 0.01 and 16.71 % at 0.1.
    assert not warned(plan(blocking(432.0, 12.0, 900.0)), "first-order")
    assert warned(plan(blocking(4320.0, 12.0, 900.0)), "first-order", "16.7 % too long")


def test_an_interval_below_the_drain_is_told_and_its_wait_charged() -> None:
    job = Scenario(checkpoint_interval_steps=10)
    found = plan(job)
    # A drain of 216.3 s a period of 10 steps; the first version is durable 70 s + 216.3 s on.
    m = job.job_mtbf_s
    stopped = 70.0 * math.exp(-286.3 / m) / (-math.expm1(-216.3 / m) * (m + 390.0))
    assert warned(found, "10 steps (70 s), is below the drain, 30 steps", "waits for the drain")
    assert warned(found, "the wait is charged", f"goodput {100 * stopped:.2f} % instead of 91.08 %")
    assert not warned(plan(Scenario(checkpoint_interval_steps=30)), "below the drain")
    assert warned(plan(job.replace(drain_mode="skip")), "below the drain", "dropped")
    assert not warned(plan(blocking(60.0, 12.0, 900.0)), "below the drain")


def test_other_shapes_are_simulated() -> None:
    found = plan(Scenario(failure_shape=2.0))
    assert found.best.method == "simulation"
    assert found.goodput.low < found.goodput.value < found.goodput.high
    assert math.fsum([found.goodput.value, *found.losses.values()]) == pytest.approx(1, abs=1e-12)
    assert warned(found, "failure_shape = 2", "levers are those of exponential")
    # The levers' goodput is that of exponential failures with the same means.
    restarts_s = [400.0, 1200.0]
    scatter = Scenario(
        world={"failures": {"gaps": [2.0, 4.0]}, "restart": {"relaunch": restarts_s}}
    )
    found = plan(scatter)
    assert warned(found, "world = {'failures':", "simulated")
    same_means = Scenario(job_mtbf_h=3.0, relaunch_s=800.0)
    slope = exact_goodput(same_means, found.best.steps) / (3.0 * 3600.0 + 890.0)
    assert found.levers["relaunch_s"].points == pytest.approx(-100.0 * slope, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tz": "UTC"}, "tz is of use only with a log"),
        ({"log_gpus": 8}, "log_gpus is of use only with a log"),
        ({"log": LOGS / "sacct.txt", "tz": PACIFIC, "log_gpus": 0}, "log_gpus = 0"),
        ({"log": LOGS / "none.txt"}, "none.txt: the log cannot be read"),
        ({"practical_points": -1.0}, "practical_points = -1"),
    ],
)
def test_bad_input_is_one_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        plan(Scenario(), **options)


def test_a_log_without_exposure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("start,cause\n2025-01-01T00:00:00Z,Xid 79\n")
    with pytest.raises(InputError, match="gives no time watched"):
        plan(Scenario(), log=path)


def test_a_plan_takes_less_than_two_seconds_of_the_processor() -> None:
    job = load_scenario("glm-130b")
    plan(job)
    before = time.process_time()
    plan(job, log=LOGS / "sacct.txt", tz=PACIFIC)
    assert time.process_time() - before < 2.0


# Reports from people who do this job. Each stands for a kind.


def test_saves_of_40_s_every_3_h_cost_8_h_in_90_days() -> None:
    # 720 saves: 0.370 % of the time; with storage five times slower 1.85 %.
    for cost_s, share in ((40.0, 0.00370), (200.0, 0.0185)):
        job = blocking(cost_s, 1e9, 0.0, checkpoint_interval_steps=round(10_800 - cost_s))
        lost = plan(job).current_losses["save"]
        assert lost == pytest.approx(share, rel=2e-3)
        assert 90.0 * 24.0 * lost == pytest.approx(720 * cost_s / 3600.0, rel=1e-6)


@pytest.mark.parametrize(
    ("cost_s", "restart_s", "best_pc", "young_steps", "first_order_pc"),
    [
        (60.0, 900.0, 92.89, 2277, 7.35),
        (5.0, 900.0, 96.48, 657, 3.60),
        (5.0, 300.0, 97.81, 657, 2.22),
    ],
)
def test_rows_of_the_second_post(
    cost_s: float, restart_s: float, best_pc: float, young_steps: int, first_order_pc: float
) -> None:
    found = plan(blocking(cost_s, 12.0, restart_s))
    assert round(100.0 * found.goodput.value, 2) == best_pc
    assert found.young_steps == young_steps
    wasted = 100.0 * float(waste.best_first_order(cost_s, 43_200.0, restart_s))
    assert round(wasted, 2) == first_order_pc


def test_restarts_by_hand_cost_a_fifth_of_the_progress() -> None:
    # 98.81 % up with automatic, 77.83 % with manual restarts, one and the same job.
    mtbf_s = 12.0 * 3600.0
    plans = {}
    for up in (0.9881, 0.7783):
        job = blocking(5.0, 12.0, mtbf_s * (1.0 / up - 1.0), n_gpus=4096)
        plans[up] = plan(job)
    by_hand, automatic = plans[0.7783], plans[0.9881]
    assert by_hand.best.steps == automatic.best.steps
    lost = 1.0 - by_hand.goodput.value / automatic.goodput.value
    assert round(100.0 * lost, 1) == 21.2
    assert by_hand.regime == "restart-dominated"
    restart = by_hand.levers["restart_unsplit_s"].elasticity
    assert restart == pytest.approx(-0.2217, abs=1e-12)
    others = [v.elasticity for n, v in by_hand.levers.items() if n in ("blocking_s", "idle_s")]
    assert abs(restart) > 10.0 * max(map(abs, others))


def test_saves_that_do_not_block_with_their_tax_left_out() -> None:
    # 27.34 s against 0.54 s at a failure a day: 2,174 s and 2.5 %, 305 s and 0.35 %.
    stops = plan(blocking(27.34, 24.0, 0.0))
    assert stops.young_steps == 2174
    assert 100.0 * (1.0 - stops.goodput.value) == pytest.approx(2.5, abs=0.05)
    free = blocking(27.34, 24.0, 0.0, save_kind="asynchronous", staging_s=0.54, drain_s=0.0)
    drains = plan(free)
    assert drains.young_steps == 305
    assert 100.0 * (1.0 - drains.goodput.value) == pytest.approx(0.35, abs=0.005)
    assert warned(drains, "tax of asynchronous saves is left out")
    assert warned(plan(free.replace(drain_s=60.0, drain_tax=0.0)), "is left out")
    assert not warned(plan(free.replace(drain_s=60.0)), "is left out")


def test_a_cadence_in_use_tells_the_mtbf_that_it_is_right_for() -> None:
    # 250 steps of 21.6 s with saves of 2 min: 33.8 h; 10 steps with 0.2 s: 32.4 h.
    for steps, cost_s, implied_h in ((250, 120.0, 33.75), (10, 0.2, 32.4)):
        job = blocking(cost_s, 33.0, 600.0, step_s=21.6, checkpoint_interval_steps=steps)
        found = plan(job)
        assert found.implied_mtbf_s is not None
        assert found.implied_mtbf_s / 3600.0 == pytest.approx(implied_h, rel=1e-12)
        assert found.range_steps[0] <= steps <= found.range_steps[1]
        assert 100.0 * found.gain < 0.05
        back_s = float(young.interval_s(cost_s, found.implied_mtbf_s))
        assert back_s == pytest.approx(steps * 21.6, rel=1e-12)


@pytest.mark.parametrize("cost_s", [0.5, 300.0, 360.0, 900.0, 1000.0, 1500.0, 10_800.0])
def test_saves_from_half_a_second_to_three_hours_are_planned(cost_s: float) -> None:
    found = plan(blocking(cost_s, 48.0, 600.0))
    assert 0.0 < found.goodput.value < 1.0
    assert found.finish is not None
