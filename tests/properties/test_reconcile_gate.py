"""No accepted rollback is further off than promised: random windows of every awkward kind.

The forward steps are made in single precision from a known state, so the true earlier state is
known exactly and the comparison, in extended precision, is with the truth itself. The bounds are
worst-case, so no seed can raise a false alarm.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint_tax.reconcile import errors
from checkpoint_tax.reconcile.gate import (
    UNIT_FP32,
    compounded_share_error,
    relative_errors,
    rollbacks,
    share_of_tolerance,
    step_share,
    tolerance_of_share,
)
from checkpoint_tax.reconcile.optimizers import (
    SGD,
    Adam,
    AdamState,
    AdamWPost,
    AdamWTorch,
    Lion,
    MomentumState,
    state_arrays,
)
from checkpoint_tax.reconcile.updates import Update
from checkpoint_tax.reconcile.window import Capture, Window, best_target, reconcile

TINY = float(np.finfo(np.float32).smallest_subnormal)


def awkward(rng, n, low, high):
    """Signed numbers over many orders of magnitude, with zeros and denormals among them."""
    drawn = np.exp(rng.uniform(np.log(low), np.log(high), n)) * rng.choice([-1, 1], n)
    kind = rng.random(n)
    drawn = np.where(kind < 0.05, 0.0, drawn)
    drawn = np.where((kind > 0.05) & (kind < 0.1), rng.integers(1, 2000, n) * TINY, drawn)
    return drawn.astype(np.float32)


def drawn_state(rng, n, form, t):
    p = awkward(rng, n, 1e-6, 10)
    v = np.abs(awkward(rng, n, 1e-30, 1e4))
    usual = rng.random(n) < 0.7
    v = np.where(usual, np.exp(rng.normal(-4, 2, n)), v).astype(np.float32)
    m = (rng.standard_normal(n) * np.sqrt(v)).astype(np.float32)
    m = np.where(rng.random(n) < 0.1, awkward(rng, n, 1e-20, 1e2), m).astype(np.float32)
    return (AdamState(p, m, v, t) if form is AdamState else MomentumState(p, m, t)), np.sqrt(v)


def drawn_gradient(rng, n, usual, poisoned=0.002):
    """Around the usual size, enlarged by 10^0 to 10^6 in places; zero, denormal or poisoned."""
    spike = np.where(rng.random(n) < 0.4, 10 ** rng.uniform(0, 6, n), 1.0)
    gradient = rng.standard_normal(n) * usual * spike
    kind = rng.random(n)
    gradient = np.where(kind < 0.05, 0.0, gradient)
    gradient = np.where((kind > 0.05) & (kind < 0.08), TINY * rng.integers(1, 99, n), gradient)
    gradient = gradient.astype(np.float32)
    poison = rng.choice([np.nan, np.inf, -np.inf], n)
    return np.where(rng.random(n) < poisoned, poison, gradient).astype(np.float32)


def drawn_numbers(rng, n, optimizer):
    numbers = {
        "lr": float(10 ** rng.uniform(-5, -1)),
        "weight_decay": rng.choice([0.0, 0.1], n) if rng.random() < 0.5 else 0.01,
        "clip_coefficient": float(rng.choice([1.0, 0.3])),
        "maximize": bool(rng.random() < 0.3),
        "eps": float(rng.choice([0.0, 1e-8, 1e-6])),
        "betas": (float(rng.choice([0.3, 0.6, 0.9, 0.95])), float(rng.choice([0.9, 0.99, 0.999]))),
    }
    if isinstance(optimizer, SGD):
        numbers["momentum"] = float(rng.choice([0.0, 0.5, 0.9]))
        numbers["nesterov"] = bool(numbers["momentum"] and rng.random() < 0.5)
        numbers["dampening"] = 0.0 if numbers["nesterov"] else float(rng.choice([0.0, 0.3]))
    return numbers


CASES = [
    pytest.param(AdamWPost(), AdamState, id="adamw-post"),
    pytest.param(AdamWTorch(), AdamState, id="adamw-torch"),
    pytest.param(Adam(), AdamState, id="adam"),
    pytest.param(SGD(), MomentumState, id="sgd"),
    pytest.param(Lion(), MomentumState, id="lion"),
]
TOLERANCES = (6e-7, 1e-5, 1e-3, 1.0)


@pytest.mark.parametrize(("optimizer", "form"), CASES)
def test_no_accepted_element_exceeds_its_promise(optimizer, form):
    """Each element is a window of its own, one to five steps back: 60,000 per optimizer."""
    rng = np.random.default_rng(20)
    # The scales of SGD and Lion average the shard, so one poisoned element refuses all of it.
    poisoned = 0.002 if form is AdamState else 0.0
    n, accepted, refused = 2000, dict.fromkeys(TOLERANCES, 0), 0
    for _ in range(30):
        t = int(rng.choice([1, 2, 5, 100, 20_000]))
        state, usual = drawn_state(rng, n, form, t)
        truth, updates = [state], []
        with np.errstate(all="ignore"):
            for step in range(t + 1, t + 1 + int(rng.integers(1, 6))):
                gradient = drawn_gradient(rng, n, usual, poisoned)
                updates.append(Update(gradient, step, **drawn_numbers(rng, n, optimizer)))
                truth.append(optimizer.forward(truth[-1], updates[-1]))
        for rollback in rollbacks(truth[-1], updates[::-1], optimizer):
            at = len(updates) - rollback.updates_undone
            with np.errstate(all="ignore"):
                measured = relative_errors(rollback.state, truth[at], updates[at], optimizer)
            for name, promised in rollback.promised.items():
                value, true = state_arrays(rollback.state)[name], state_arrays(truth[at])[name]
                known = np.isfinite(promised)
                assert not np.isnan(promised).any()
                assert np.isfinite(value[known]).all()
                error = np.abs(value.astype(np.longdouble) - true)[known]
                assert (error <= rollback.allowed_error[name][known]).all()
                assert (measured[name][known] <= promised[known]).all()
            worst = np.maximum.reduce(list(rollback.promised.values()))
            for tolerance in TOLERANCES:
                accepted[tolerance] += int(np.sum(worst <= tolerance))
            refused += int(np.sum(~(worst <= 1)))
    # Neither side of the gate is empty, and a wider one lets more through.
    counts = [accepted[tolerance] for tolerance in TOLERANCES]
    assert counts == sorted(counts)
    assert counts[0] > 2000
    assert refused > (2000 if form is AdamState else 10)


@pytest.mark.parametrize(("optimizer", "form"), CASES)
def test_whole_windows_are_reconciled_as_promised_or_refused_by_name(optimizer, form):
    """Through the public call, with every refusal it can give; 500 small windows each."""
    rng = np.random.default_rng(21)
    outcomes: dict[str, int] = {}
    for _ in range(500):
        n, steps = int(rng.integers(1, 5)), int(rng.integers(2, 5))
        t0 = int(rng.choice([0, 1, 7, 3000]))
        quiet = rng.random() < 0.6
        shards, names = [], ("a", "b", "c")
        numbers = [drawn_numbers(rng, n, optimizer) for _ in range(steps)]
        for number in numbers:
            number["eps"] = 1e-8 if quiet else number["eps"]
        truth, shipped = {}, {}
        with np.errstate(all="ignore"):
            for name in names:
                state, usual = drawn_state(rng, n, form, t0)
                if quiet:
                    state = state._replace(p=rng.standard_normal(n).astype(np.float32))
                    usual = np.exp(rng.normal(-2, 1, n))
                    m = (usual * rng.standard_normal(n)).astype(np.float32)
                    state = state._replace(m=m)
                    if form is AdamState:
                        state = state._replace(v=np.square(usual).astype(np.float32))
                truth[name], shipped[name] = [state], {}
                for k, number in enumerate(numbers, start=1):
                    gradient = (
                        (usual * rng.standard_normal(n)).astype(np.float32)
                        if quiet
                        else drawn_gradient(rng, n, usual)
                    )
                    shipped[name][k] = Update(gradient, t0 + k, **number)
                    truth[name].append(optimizer.forward(truth[name][-1], shipped[name][k]))
                shards.append(int(rng.integers(0, steps + 1)))
        captures = [Capture(name, v, truth[name][v]) for name, v in zip(names, shards, strict=True)]
        window = Window(captures, shipped)
        tolerance = rng.choice([None, 3e-6, 1e-4])
        target = rng.choice(["newest", "median", "oldest"])
        try:
            found = reconcile(window, str(target), optimizer, tolerance)
        except errors.ReconcileError as refusal:
            reason = type(refusal).__name__
            outcomes[reason] = outcomes.get(reason, 0) + 1
            continue
        outcomes["accepted"] = outcomes.get("accepted", 0) + 1
        if target == "newest":
            assert found.target == max(shards)
        for name, version in zip(names, shards, strict=True):
            state, true = found.states[name], truth[name][found.target]
            assert state.t == true.t
            if version <= found.target:
                pairs = zip(state_arrays(state).values(), state_arrays(true).values(), strict=True)
                assert all(a.tobytes() == b.tobytes() for a, b in pairs)
                continue
            limit = 1.0 if tolerance is None else tolerance
            measured = relative_errors(state, true, shipped[name][found.target + 1], optimizer)
            for array, error in measured.items():
                assert np.isfinite(state_arrays(state)[array]).all()
                assert error.max() <= found.promised_by_shard[name][array] <= limit
    assert outcomes["accepted"] > 100
    assert "ReconcileError" not in outcomes
    assert {"NonFiniteState", "AcrossFirstStep", "RollbackRefused"} <= outcomes.keys()
    if form is AdamState:
        assert "SecondMomentLost" in outcomes


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=9),
    st.data(),
)
@settings(max_examples=300)
def test_the_target_is_the_cheapest_allowed_and_the_newest_of_those(versions, data):
    count = len(versions)
    sizes = data.draw(st.lists(st.integers(1, 20), min_size=count, max_size=count))
    depths = data.draw(st.lists(st.integers(0, 60), min_size=count, max_size=count))
    floors = [version - depth for version, depth in zip(versions, depths, strict=True)]

    def cost(target):
        return sum(s * abs(v - target) for v, s in zip(versions, sizes, strict=True))

    allowed = [t for t in range(61) if t >= max(floors)]
    best = min(cost(t) for t in allowed)
    found = best_target(versions, sizes, floors=floors)
    assert found == max(t for t in allowed if cost(t) == best)


@given(st.floats(1e-7, 0.5))
def test_a_threshold_on_the_share_is_a_tolerance(tolerance):
    share = share_of_tolerance(tolerance)
    assert tolerance_of_share(share) == pytest.approx(tolerance, rel=1e-6)


def test_the_posts_threshold_is_ten_units():
    assert float(tolerance_of_share(0.9)) == pytest.approx(10 * UNIT_FP32, rel=1e-12)
    assert float(tolerance_of_share(1.0)) == np.inf


@given(st.lists(st.floats(0, 0.9), min_size=1, max_size=12))
def test_errors_multiply_over_the_steps(shares):
    """The closed form of the recursion: each unit is divided by all shares met after it."""
    kept = [1 - share for share in shares]
    expected = sum(UNIT_FP32 / float(np.prod(kept[k:])) for k in range(len(kept)))
    assert float(compounded_share_error(shares)) == pytest.approx(expected, rel=1e-12)


def test_the_promise_for_v_is_the_plain_form_within_a_small_factor():
    """On steps where v is normal: never below the plain bound's order, never far above it."""
    rng = np.random.default_rng(22)
    optimizer = AdamWPost()
    n = 20_000
    v = np.exp(rng.normal(-4, 2, n)).astype(np.float32)
    state = AdamState(np.ones(n, np.float32), np.sqrt(v), v, 500)
    truth, updates = [state], []
    for step in range(501, 505):
        gradient = rng.standard_normal(n) * np.sqrt(v) * 10 ** rng.uniform(0, 2, n)
        updates.append(Update(gradient.astype(np.float32), step, 1e-3))
        truth.append(optimizer.forward(truth[-1], updates[-1]))
    shares = [
        step_share(u.gradient, later.v, 0.999) for u, later in zip(updates, truth[1:], strict=True)
    ][::-1]
    steps = rollbacks(truth[-1], updates[::-1], optimizer)
    for rollback, upto in zip(steps, itertools.count(1)):
        plain = compounded_share_error(shares[:upto])
        factor = rollback.promised["v"] / plain
        trusted = plain < 0.01
        assert np.mean(trusted) > 0.9
        assert factor[trusted].min() > 1
        assert np.median(factor) < 4.5
        assert factor[trusted].max() < 9


def test_the_first_moment_is_watched_too():
    """A spike that the post's test on v lets pass costs m more than the tolerance."""
    optimizer = AdamWPost()
    v = np.array([1e6], np.float32)
    state = AdamState(np.ones(1, np.float32), np.array([1.0], np.float32), v, 500)
    # beta2 near 1: the share of v stays small while m is swamped.
    update = Update(np.array([1e6], np.float32), 501, 1e-3, betas=(0.9, 0.9999999))
    after = optimizer.forward(state, update)
    assert step_share(update.gradient, after.v, 0.9999999)[0] < 0.1
    (rollback,) = rollbacks(after, [update], optimizer)
    assert rollback.promised["v"][0] < 6e-7
    assert rollback.promised["m"][0] > 6e-6
    with pytest.raises(errors.RollbackRefused, match=r"^shard 'a' at version 500: m can be off"):
        reconcile(Window([Capture("a", 501, after)], {"a": {501: update}}), 500, optimizer, 1e-6)


def test_weights_below_rounding_of_their_step_are_promised_by_the_step():
    """A weight of zero before a step of one learning rate has no relative accuracy of its own."""
    optimizer = AdamWPost()
    zero = np.zeros(1, np.float32)
    state = AdamState(zero, np.ones(1, np.float32), np.ones(1, np.float32), 500)
    update = Update(np.ones(1, np.float32), 501, 1e-3)
    (rollback,) = rollbacks(optimizer.forward(state, update), [update], optimizer)
    assert rollback.allowed_error["p"][0] < 2e-9
    assert rollback.promised["p"][0] == pytest.approx(
        rollback.allowed_error["p"][0] / 1e-3, rel=1e-6
    )
