"""One suite that every optimizer passes: a step, its inverse, and all that is shipped with it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from checkpoint_tax.reconcile import errors
from checkpoint_tax.reconcile.gate import relative_errors, rollbacks
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

SIZE = 257
CASES = [
    pytest.param(AdamWPost(), {"weight_decay": 0.1}, id="adamw-post"),
    pytest.param(AdamWTorch(), {"weight_decay": 0.1}, id="adamw-torch"),
    pytest.param(AdamWTorch(), {"betas": (0.3, 0.9), "eps": 1e-6}, id="adamw-torch-low-beta1"),
    pytest.param(Adam(), {"weight_decay": 0.1}, id="adam"),
    pytest.param(SGD(), {"weight_decay": 0.1}, id="sgd"),
    pytest.param(SGD(), {"momentum": 0.9, "weight_decay": 0.1}, id="sgd-momentum"),
    pytest.param(SGD(), {"momentum": 0.8, "dampening": 0.3}, id="sgd-dampening"),
    pytest.param(
        SGD(), {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, id="sgd-nesterov"
    ),
    pytest.param(Lion(), {"betas": (0.9, 0.99), "weight_decay": 0.1}, id="lion"),
]
every = pytest.mark.parametrize(("optimizer", "settings"), CASES)
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def shipped(rng, dtype, settings, n_steps, **more):
    return [
        Update(rng.standard_normal(SIZE).astype(dtype), step, 1e-3, **(settings | more))
        for step in range(1, n_steps + 1)
    ]


def run(optimizer, rng, dtype, updates):
    state = optimizer.init((0.1 * rng.standard_normal(SIZE)).astype(dtype))
    states = [state]
    for update in updates:
        state = optimizer.forward(state, update)
        states.append(state)
    return states


def twin(optimizer, p, m, v, t, u, at):
    """The optimizer's published formula for one element, in Python floats."""
    if u.skipped:
        return p, m, v, t
    t += 1
    decay = u.weight_decay[at] if isinstance(u.weight_decay, np.ndarray) else u.weight_decay
    g = float(u.gradient[at]) * u.clip_coefficient * (-1 if u.maximize else 1)
    b1, b2 = u.betas
    if isinstance(optimizer, SGD):
        g += decay * p
        if u.momentum == 0:
            return p - u.lr * g, m, v, t
        m = g if t == 1 else u.momentum * m + (1 - u.dampening) * g
        return p - u.lr * (g + u.momentum * m if u.nesterov else m), m, v, t
    if isinstance(optimizer, Lion):
        mixed = b1 * m + (1 - b1) * g
        sign = (mixed > 0) - (mixed < 0)
        return p * (1 - u.lr * decay) - u.lr * sign, b2 * m + (1 - b2) * g, v, t
    if isinstance(optimizer, Adam):
        g += decay * p
        decay = 0
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    step = (m / (1 - b1**t)) / (math.sqrt(v / (1 - b2**t)) + u.eps)
    return p - u.lr * step - u.lr * decay * p, m, v, t


def varied(rng, dtype, settings):
    """Updates of which no two use the same numbers, two of them skipped."""
    base = Update(np.zeros(SIZE, dtype), 1, 1e-3, **settings)
    updates, step = [], 0
    for k in range(12):
        skipped = k in (4, 9)
        step += not skipped
        drawn = replace(
            base,
            gradient=None if skipped else rng.standard_normal(SIZE).astype(dtype),
            step=step,
            lr=1e-3 * (1 + k),
            clip_coefficient=float(rng.uniform(0.2, 1)),
            weight_decay=base.weight_decay * (rng.random(SIZE) < 0.5),
            maximize=bool(k % 2),
            skipped=skipped,
        )
        if isinstance(drawn.gradient, np.ndarray) and settings.get("momentum", 0) == 0:
            drawn = replace(drawn, betas=(base.betas[0] - 0.01 * k, base.betas[1] - 0.003 * k))
        updates.append(drawn)
    return updates


@every
def test_forward_is_the_published_formula_with_every_number_shipped(optimizer, settings):
    rng = np.random.default_rng(1)
    updates = varied(rng, np.float64, settings)
    states = run(optimizer, rng, np.float64, updates)
    for at in (0, 100, SIZE - 1):
        p, m, v, t = float(states[0].p[at]), 0.0, 0.0, 0
        for state, update in zip(states[1:], updates, strict=True):
            p, m, v, t = twin(optimizer, p, m, v, t, update, at)
            # A few roundings of double precision per step.
            assert state.p[at] == pytest.approx(p, rel=1e-13, abs=1e-15)
            assert state.m[at] == pytest.approx(m, rel=1e-12, abs=1e-15)
            if isinstance(state, AdamState):
                assert state.v[at] == pytest.approx(v, rel=1e-12)
            assert state.t == t


@every
@both_types
def test_forward_then_inverse_returns_within_the_bound(optimizer, settings, dtype):
    rng = np.random.default_rng(2)
    updates = varied(rng, dtype, settings)
    states = run(optimizer, rng, dtype, updates)
    found = list(rollbacks(states[-1], updates[:1:-1], optimizer))
    assert [rollback.updates_undone for rollback in found] == list(range(1, 11))
    state = states[-1]
    for rollback, update, truth in zip(found, updates[:1:-1], states[-2:1:-1], strict=True):
        assert rollback.reason is None
        state = optimizer.inverse(state, update)
        for name, value in state_arrays(state).items():
            assert value.tobytes() == state_arrays(rollback.state)[name].tobytes()
            error = np.abs(value.astype(np.longdouble) - state_arrays(truth)[name])
            assert (error <= rollback.allowed_error[name]).all()
        if update.skipped:
            continue
        for name, measured in relative_errors(state, truth, update, optimizer).items():
            assert (measured <= rollback.promised[name]).all()


@every
@both_types
def test_the_bound_is_of_the_size_of_rounding(optimizer, settings, dtype):
    """A bound of infinity would pass every other test."""
    rng = np.random.default_rng(3)
    updates = shipped(rng, dtype, settings, 40)
    states = run(optimizer, rng, dtype, updates)
    (rollback,) = rollbacks(states[-1], updates[:-2:-1], optimizer)
    unit = np.finfo(dtype).eps / 2
    # The decay rate of 0.3 divides by it; double precision pays for its own bookkeeping too.
    most = 40 if settings.get("betas", (1,))[0] < 0.5 else 4
    most *= 1 if dtype == np.float32 else 8
    for name, value in state_arrays(states[-2]).items():
        if name == "m" and not np.any(value):
            continue
        norm = np.linalg.norm(rollback.allowed_error[name]) / np.linalg.norm(value)
        assert 0.2 * unit < norm < most * unit, name


@every
@both_types
def test_inverse_then_forward_returns(optimizer, settings, dtype):
    rng = np.random.default_rng(4)
    updates = shipped(rng, dtype, settings, 30)
    states = run(optimizer, rng, dtype, updates)
    again = optimizer.forward(optimizer.inverse(states[-1], updates[-1]), updates[-1])
    unit = np.finfo(dtype).eps / 2
    assert again.t == states[-1].t
    for name, value in state_arrays(again).items():
        true = state_arrays(states[-1])[name]
        # Two roundings each way of numbers of the shard's usual size.
        usual = np.maximum(np.abs(true), np.sqrt(np.mean(np.square(true))))
        assert (np.abs(value - true) <= 8 * unit * usual).all(), name


@every
@both_types
def test_type_is_kept_and_t_is_an_integer(optimizer, settings, dtype):
    rng = np.random.default_rng(5)
    updates = varied(rng, dtype, settings)
    mixed = [
        u if u.skipped else replace(u, gradient=u.gradient.astype(np.float32)) for u in updates
    ]
    states = run(optimizer, rng, dtype, mixed)
    back = optimizer.inverse(states[-1], mixed[-1])
    for state in [*states, back]:
        assert type(state.t) is int
        assert all(value.dtype == dtype for value in state_arrays(state).values())
    assert back.t == states[-1].t - 1


@every
def test_states_are_never_written_to(optimizer, settings):
    rng = np.random.default_rng(6)
    updates = shipped(rng, np.float32, settings, 4)
    for update in updates:
        update.gradient.flags.writeable = False
    states = run(optimizer, rng, np.float32, updates)
    for state in states:
        for value in state_arrays(state).values():
            value.flags.writeable = False
    optimizer.forward(states[2], updates[2])
    optimizer.inverse(states[4], updates[3])


@every
def test_a_skipped_step_changes_nothing_both_ways(optimizer, settings):
    rng = np.random.default_rng(7)
    updates = shipped(rng, np.float32, settings, 3)
    state = run(optimizer, rng, np.float32, updates)[-1]
    poison = np.full(SIZE, np.nan, np.float32)
    skip = Update(poison, 3, 1e-3, skipped=True, **settings)
    assert optimizer.forward(state, skip) is state
    assert optimizer.inverse(state, skip) is state
    first = Update(None, 0, 1e-3, skipped=True)
    start = optimizer.init(state.p)
    assert optimizer.forward(start, first) is start


@every
@pytest.mark.parametrize(
    "change",
    [
        {"lr": 2e-3},
        {"clip_coefficient": 0.5},
        {"maximize": True},
        {"weight_decay": np.full(SIZE, 0.7)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_shipped_number_matters(optimizer, settings, change):
    rng = np.random.default_rng(8)
    updates = shipped(rng, np.float32, settings, 3)
    states = run(optimizer, rng, np.float32, updates)
    other = optimizer.forward(states[2], replace(updates[2], **change))
    # Lion's weights see the gradient's size through the momentum only.
    moved = (other.p != states[3].p) | (other.m != states[3].m)
    assert np.mean(moved) > 0.4


@every
def test_a_wrong_step_count_is_refused(optimizer, settings):
    rng = np.random.default_rng(9)
    updates = shipped(rng, np.float32, settings, 4)
    states = run(optimizer, rng, np.float32, updates)
    for wrong in (1, 3):
        with pytest.raises(errors.StepMismatch, match="allowed: 3"):
            optimizer.forward(states[2], replace(updates[2], step=wrong + (wrong == 3)))
    with pytest.raises(errors.StepMismatch, match="allowed: 4"):
        optimizer.inverse(states[4], updates[2])
    with pytest.raises(errors.StepMismatch, match="allowed: 4"):
        optimizer.forward(states[4], Update(None, 5, 0.1, skipped=True))


@every
def test_the_first_step_is_not_undone(optimizer, settings):
    rng = np.random.default_rng(10)
    updates = shipped(rng, np.float32, settings, 1)
    states = run(optimizer, rng, np.float32, updates)
    with pytest.raises(errors.AcrossFirstStep, match="t = 1"):
        optimizer.inverse(states[1], updates[0])


@every
def test_a_gradient_that_is_not_finite_never_leaves_a_quiet_nan(optimizer, settings):
    rng = np.random.default_rng(11)
    updates = shipped(rng, np.float32, settings, 4)
    states = run(optimizer, rng, np.float32, updates)
    for poison in (np.nan, np.inf):
        gradient = updates[3].gradient.copy()
        gradient[7] = poison
        broken = replace(updates[3], gradient=gradient)
        if isinstance(states[4], AdamState) or settings.get("momentum") or optimizer.name == "Lion":
            with pytest.raises((errors.NonFiniteState, errors.SecondMomentLost), match="element 7"):
                optimizer.inverse(states[4], broken)
        (rollback,) = rollbacks(states[4], [broken], optimizer)
        assert rollback.reason is not None
        assert any(not np.isfinite(promised[7]) for promised in rollback.promised.values())


@pytest.mark.parametrize(
    ("optimizer", "settings", "message"),
    [
        (AdamWPost(), {"betas": (0.0, 0.999)}, r"betas\[0\] = 0"),
        (AdamWTorch(), {"betas": (0.9, 0.0)}, r"betas\[1\] = 0"),
        (Adam(), {"betas": (0.0, 0.9)}, r"betas\[0\] = 0"),
        (Lion(), {"betas": (0.9, 0.0)}, r"betas\[1\] = 0"),
        (AdamWPost(), {"lr": 1.0, "weight_decay": 1.0}, "leaves nothing of the weights"),
        (AdamWTorch(), {"lr": 0.5, "weight_decay": 2.0}, "leaves nothing of the weights"),
        (Lion(), {"lr": 1.0, "weight_decay": 1.0}, "leaves nothing of the weights"),
        (SGD(), {"lr": 1.0, "weight_decay": 1.0}, "leaves"),
        (
            SGD(),
            {"lr": 1.0, "weight_decay": 1.0, "momentum": 0.5, "nesterov": True},
            "leaves",
        ),
    ],
)
def test_numbers_that_destroy_the_earlier_state_have_no_inverse(optimizer, settings, message):
    rng = np.random.default_rng(12)
    settings = {"lr": 1e-3} | settings
    updates = [
        Update(rng.standard_normal(5).astype(np.float32), step, **settings) for step in (1, 2)
    ]
    one = optimizer.init(rng.standard_normal(5).astype(np.float32))
    for update in updates:
        one = optimizer.forward(one, update)
    with pytest.raises(errors.NoInverse, match=message):
        optimizer.inverse(one, updates[1])


def test_amsgrad_is_refused_by_name():
    for form in (AdamWPost, AdamWTorch, Adam):
        with pytest.raises(errors.NoInverse, match="amsgrad = True"):
            form(amsgrad=True)


def test_lion_undoes_the_sign_of_the_earlier_momentum_not_of_the_later():
    """Momentum and gradient of opposite sign, so that the two signs differ."""
    optimizer = Lion()
    state = MomentumState(np.array([1.0], np.float32), np.array([1e-3], np.float32), 5)
    update = Update(np.array([-1.0], np.float32), 6, 0.125, betas=(0.9, 0.99))
    after = optimizer.forward(state, update)
    assert after.p[0] == 1.125
    back = optimizer.inverse(after, update)
    assert back.p[0] == 1.0


def test_lion_says_where_it_cannot_know_the_sign():
    """b1 m + (1-b1) g of almost 0: the weight can be off by a whole step either way."""
    optimizer = Lion()
    betas = (0.5, 0.99)
    m = np.array([0.1, 0.1], np.float32)
    g = np.array([-0.1, 0.3], np.float32)
    state = MomentumState(np.ones(2, np.float32), m, 5)
    update = Update(g, 6, 0.01, betas=betas)
    (rollback,) = rollbacks(optimizer.forward(state, update), [update], optimizer)
    assert rollback.allowed_error["p"][0] > 0.0099
    assert rollback.allowed_error["p"][1] < 1e-6


def test_the_library_swaps_sides_where_beta1_is_below_a_half():
    """torch.lerp: from the start for small weights, from the end for large ones."""
    g, m = np.float32(1.0000001), np.float32(-0.33333334)
    for b1, expected in (
        (0.9, m + np.float32(1 - 0.9) * (g - m)),
        (0.3, g - (g - m) * (np.float32(1) - np.float32(1 - 0.3))),
        # One minus this is below a half in double precision, and a half in single.
        (0.5 + 1e-9, g - (g - m) * np.float32(0.5)),
    ):
        state = AdamState(np.zeros(1, np.float32), np.array([m]), np.ones(1, np.float32), 3)
        found = AdamWTorch().forward(state, Update(np.array([g]), 4, 1e-3, betas=(b1, 0.99)))
        assert found.m[0] == expected


@pytest.mark.parametrize("beta1", [1e-3, 1e-5, 1e-7, 1e-9])
def test_a_nearly_forgotten_first_moment_is_never_promised_too_closely(beta1):
    rng = np.random.default_rng(13)
    optimizer = AdamWTorch()
    updates = shipped(rng, np.float32, {"betas": (beta1, 0.99)}, 6)
    states = run(optimizer, rng, np.float32, updates)
    (rollback,) = rollbacks(states[-1], updates[:-2:-1], optimizer)
    with np.errstate(invalid="ignore"):
        error = np.abs(rollback.state.m.astype(np.float64) - states[-2].m)
    known = np.isfinite(rollback.allowed_error["m"])
    assert (error[known] <= rollback.allowed_error["m"][known]).all()
    # One minus the rate rounds to one at last, and nothing at all is known.
    assert known.all() == (beta1 > 1e-8)
    # u / beta1 of the moment is lost before that.
    lost = np.median(rollback.allowed_error["m"] / np.abs(states[-2].m))
    assert lost > 2.0**-25 / beta1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("step", 3.0, "step = 3.0 is not an integer"),
        ("step", True, "step = True is a truth value"),
        ("step", 0, "step = 0 steps is too small"),
        ("lr", -1e-3, "lr = -0.001 is refused"),
        ("lr", math.nan, "lr = nan is refused"),
        ("lr", "fast", "lr = 'fast' is not a real number"),
        ("lr", True, "lr = True is not a real number"),
        ("betas", (0.9,), "must be two numbers"),
        ("betas", (0.9, 1.0), "betas = 1 is refused"),
        ("eps", math.inf, "eps = inf is refused"),
        ("weight_decay", -0.1, "weight_decay = -0.1 is refused"),
        ("weight_decay", np.array([0.1, np.nan]), "negative or not finite"),
        ("weight_decay", np.array([0.1, -1.0]), "negative or not finite"),
        ("weight_decay", np.array([True, False]), "an array of bool"),
        ("clip_coefficient", 1.5, "clip_coefficient = 1.5 is refused"),
        ("momentum", 1.0, "momentum = 1 is refused"),
        ("dampening", 2.0, "dampening = 2 is refused"),
        ("maximize", 1, "maximize = 1 is no truth value"),
        ("skipped", None, "skipped = None is no truth value"),
        ("nesterov", True, "nesterov with momentum = 0"),
        ("gradient", None, "gradient of step 1 is missing"),
        ("gradient", [1.0, 2.0], "no array of a floating type"),
        ("gradient", np.arange(2), "no array of a floating type"),
    ],
)
def test_an_update_says_what_is_wrong_with_it(field, value, message):
    good = {"gradient": np.ones(2, np.float32), "step": 1, "lr": 1e-3}
    with pytest.raises(errors.BadUpdate, match=message) as caught:
        Update(**(good | {field: value}))
    assert "allowed: " in str(caught.value)


def test_numpy_scalars_do_not_widen_the_state():
    update = Update(
        np.ones(3, np.float32),
        np.int64(1),
        np.float64(1e-3),
        betas=(np.float64(0.9), np.float32(0.5)),
        clip_coefficient=np.float64(0.5),
        weight_decay=np.float32(0.25),
    )
    state = AdamWPost().forward(AdamWPost().init(np.ones(3, np.float32)), update)
    assert all(value.dtype == np.float32 for value in state_arrays(state).values())
    assert type(update.step) is int


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (np.ones(4, np.float32), "allowed: the shard's shape"),
        (np.ones(3, np.float64), "a type no wider than float32"),
    ],
)
def test_a_gradient_of_another_shape_or_wider_type_is_refused(gradient, message):
    state = AdamWPost().init(np.ones(3, np.float32))
    with pytest.raises(errors.BadUpdate, match=message):
        AdamWPost().forward(state, Update(gradient, 1, 1e-3))


def test_a_mask_of_another_shape_is_refused():
    state = AdamWTorch().init(np.ones(3, np.float32))
    update = Update(np.ones(3, np.float32), 1, 1e-3, weight_decay=np.ones(1))
    with pytest.raises(errors.BadUpdate, match="weight_decay has shape"):
        AdamWTorch().forward(state, update)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"t": 1.0}, errors.BadUpdate, "t = 1.0 is not an integer"),
        ({"t": True}, errors.BadUpdate, "t = True is a truth value"),
        ({"m": np.zeros(3)}, errors.BadWindow, "m is float64"),
        ({"v": np.zeros(2, np.float32)}, errors.BadWindow, "v is float32 of shape"),
        ({"p": np.zeros(3, np.int32)}, errors.BadWindow, "p is no array of floats"),
    ],
)
def test_a_state_whose_parts_do_not_fit_is_refused(change, error, message):
    state = AdamWPost().init(np.ones(3, np.float32))._replace(**change)
    with pytest.raises(error, match=message):
        AdamWPost().forward(state, Update(np.ones(3, np.float32), 2, 1e-3))
