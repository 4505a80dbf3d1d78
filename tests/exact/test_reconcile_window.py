"""Capture windows: torn states, the way to each target, and every refusal by name."""

from dataclasses import replace

import numpy as np
import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile import errors
from checkpoint_tax.reconcile.gate import rollbacks
from checkpoint_tax.reconcile.optimizers import AdamState, AdamWPost, AdamWTorch, Lion, state_arrays
from checkpoint_tax.reconcile.updates import Update
from checkpoint_tax.reconcile.window import (
    Capture,
    Window,
    best_target,
    lowest_version,
    reconcile,
    targets,
    torn_state,
)


def recorded(optimizer, sizes, versions, *, seed=0, last=40, skips=(), spikes=(), **settings):
    """Truth per version, and the window of shards captured at the versions given."""
    rng = np.random.default_rng(seed)
    states = [optimizer.init((0.02 * rng.standard_normal(n)).astype(np.float32)) for n in sizes]
    truth, shipped, step = [states], {i: {} for i in range(len(sizes))}, 0
    for version in range(1, last + 1):
        step += version not in skips
        later = []
        for i, n in enumerate(sizes):
            gradient = rng.standard_normal(n).astype(np.float32)
            gradient *= dict(spikes).get((i, version), 1)
            update = Update(
                None if version in skips else gradient,
                step,
                1e-3 * (1 + version / last),
                weight_decay=0.1,
                clip_coefficient=float(rng.uniform(0.5, 1)),
                skipped=version in skips,
                **settings,
            )
            shipped[i][version] = update
            later.append(optimizer.forward(states[i], update))
        states = later
        truth.append(states)
    captures = [Capture(i, v, truth[v][i]) for i, v in enumerate(versions)]
    return truth, Window(captures, shipped)


def same_bits(state, truth):
    pairs = zip(state_arrays(state).values(), state_arrays(truth).values(), strict=True)
    return state.t == truth.t and all(a.tobytes() == b.tobytes() for a, b in pairs)


OPTIMIZERS = [
    pytest.param(AdamWPost(), {}, id="adamw-post"),
    pytest.param(AdamWTorch(), {}, id="adamw-torch"),
    pytest.param(Lion(), {"betas": (0.9, 0.99)}, id="lion"),
]
SIZES = (5, 300, 40, 1)
VERSIONS = (31, 25, 36, 28)


@pytest.mark.parametrize(("optimizer", "settings"), OPTIMIZERS)
def test_newest_and_beyond_equal_the_synchronous_snapshot_bit_for_bit(optimizer, settings):
    truth, window = recorded(optimizer, SIZES, VERSIONS, **settings)
    for target, version in (("newest", 36), (36, 36), (40, 40)):
        found = reconcile(window, target, optimizer)
        assert found.target == version
        assert all(same_bits(found.states[i], truth[version][i]) for i in range(4))
        assert set(found.promised_error.values()) == {0.0}
        assert found.promised_by_shard == {}
        assert found.gated == ()


@pytest.mark.parametrize(("optimizer", "settings"), OPTIMIZERS)
@pytest.mark.parametrize("target", ["median", "oldest", 20, 27, 30])
def test_other_targets_are_within_the_promise_and_exact_where_replayed(optimizer, settings, target):
    truth, window = recorded(optimizer, SIZES, VERSIONS, **settings)
    found = reconcile(window, target, optimizer)
    assert found.target == {"median": 25, "oldest": 25}.get(target, target)
    for i, version in enumerate(VERSIONS):
        state, true = found.states[i], truth[found.target][i]
        assert same_bits(state, true) == (version <= found.target)
        assert (i in found.promised_by_shard) == (version > found.target)
        assert state.t == true.t
    assert 0 < max(found.promised_error.values()) < 1e-4
    for name, worst in found.promised_error.items():
        assert worst == max(shard[name] for shard in found.promised_by_shard.values())


def test_a_torn_state_holds_each_shard_as_it_was_captured():
    truth, window = recorded(AdamWPost(), SIZES, VERSIONS)
    torn = torn_state(window)
    assert [torn[i].t for i in range(4)] == list(VERSIONS)
    assert all(same_bits(torn[i], truth[v][i]) for i, v in enumerate(VERSIONS))
    assert not same_bits(torn[0], truth[36][0])


def test_skipped_steps_are_versions_without_a_slice():
    optimizer = AdamWPost()
    truth, window = recorded(optimizer, (64, 64), (20, 30), skips={22, 25, 26})
    forward = reconcile(window, 30, optimizer)
    assert same_bits(forward.states[0], truth[30][0])
    assert forward.states[0].t == 27
    assert forward.traffic == 7 / 2
    back = reconcile(window, 20, optimizer)
    assert back.states[1].t == 20
    assert back.traffic == 7 / 2
    unskipped = reconcile(window, 24, optimizer)
    assert unskipped.traffic == (3 + 4) / 2


def test_a_step_back_over_skips_alone_is_exact():
    optimizer = AdamWPost()
    truth, window = recorded(optimizer, (64,), (30,), skips={29, 30})
    found = reconcile(window, 28, optimizer, tolerance=1e-12)
    assert same_bits(found.states[0], truth[28][0])
    assert set(found.promised_error.values()) == {0.0}
    assert found.traffic == 0


def test_traffic_counts_parameters_not_shards():
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (10, 30), (20, 24))
    assert reconcile(window, "newest", optimizer).traffic == 10 * 4 / 40
    assert reconcile(window, "oldest", optimizer).traffic == 30 * 4 / 40
    median = reconcile(window, "median", optimizer)
    assert (median.target, median.traffic) == (24, 1.0)


@pytest.mark.parametrize(
    ("versions", "sizes", "expected"),
    [
        (range(16), None, (15, 8, 0)),
        (range(5), None, (4, 2, 0)),
        ([7], None, (7, 7, 7)),
        ([3, 9, 4, 100], None, (100, 9, 3)),
        ([3, 9, 4, 100], [1, 1, 1, 10], (100, 100, 3)),
        ([3, 9, 4, 100], [10, 1, 1, 1], (100, 3, 3)),
        ([3, 9], [1, 1], (9, 9, 3)),
        ([3, 9], [1.5, 1], (9, 3, 3)),
        ([3, 9, 20], [0, 1, 0], (20, 9, 3)),
        ([5, 5, 5, 8], [1, 1, 1, 2], (8, 5, 5)),
    ],
)
def test_targets_are_weighted_and_the_newest_of_equally_cheap_ones(versions, sizes, expected):
    assert tuple(targets(list(versions), sizes)) == expected


def test_a_gated_shard_moves_the_target_up_to_where_it_may_go():
    """One shard of the newest half saw a spike at version 34 that no step back survives."""
    optimizer = AdamWPost()
    spikes = {(1, 34): 1e4}
    versions, sizes = (30, 36, 31, 32, 38), (8,) * 5
    truth, window = recorded(optimizer, sizes, versions, spikes=spikes)
    assert targets(versions, sizes).median == 32
    held = reconcile(window, "median", optimizer, tolerance=1e-4)
    assert held.target == 34
    assert held.gated == (1,)
    assert max(held.promised_error.values()) <= 1e-4
    assert all(same_bits(held.states[i], truth[34][i]) for i in (0, 2, 3))
    # Any other target at or above the floor ships more.
    capture = window.captures[1]
    assert lowest_version(window, capture, 25, optimizer, 1e-4) == 34
    for other in (35, 36, 38):
        assert reconcile(window, other, optimizer).traffic > held.traffic


def test_a_spike_at_the_captured_step_allows_forward_replay_only():
    optimizer = AdamWPost()
    truth, window = recorded(optimizer, (8,) * 3, (30, 32, 36), spikes={(2, 36): 1e5})
    held = reconcile(window, "median", optimizer, tolerance=1e-4)
    assert (held.target, held.gated) == (36, (2,))
    assert all(same_bits(held.states[i], truth[36][i]) for i in range(3))
    with pytest.raises(errors.ReconcileError):
        reconcile(window, "oldest", optimizer, tolerance=1e-4)


def test_without_slices_a_later_shard_is_gated_and_a_named_target_refused():
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (8,) * 3, (30, 32, 36))
    shipped = {i: dict(slices) for i, slices in window.updates.items()}
    del shipped[2][35]
    short = Window(window.captures, shipped)
    assert reconcile(short, "median", optimizer).target == 35
    with pytest.raises(errors.MissingUpdate, match="shard 2 to version 35"):
        reconcile(short, "oldest", optimizer)
    del shipped[0][34]
    with pytest.raises(errors.MissingUpdate, match="shard 0 to version 34"):
        reconcile(Window(window.captures, shipped), "newest", optimizer)
    with pytest.raises(errors.MissingUpdate, match="shard 0 to version 31"):
        reconcile(Window(window.captures), "newest", optimizer)


def test_a_skip_that_was_not_recorded_stops_the_way_back_too():
    """No gradient is missing, yet without the record nobody knows that the step was skipped."""
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (8,) * 3, (30, 32, 36), skips={35})
    shipped = {i: dict(slices) for i, slices in window.updates.items()}
    assert reconcile(window, "median", optimizer).target == 32
    del shipped[2][35]
    assert reconcile(Window(window.captures, shipped), "median", optimizer).target == 35


def test_tolerance_refuses_by_name_and_says_by_how_much():
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (64,) * 2, (30, 36))
    promise = max(reconcile(window, 30, optimizer).promised_error.values())
    assert reconcile(window, 30, optimizer, tolerance=promise).target == 30
    with pytest.raises(errors.RollbackRefused, match=r"tolerance = .*pure number") as caught:
        reconcile(window, 30, optimizer, tolerance=promise * 0.999)
    assert "shard 1 at version 30" in str(caught.value)


def test_the_first_step_is_not_crossed():
    optimizer = AdamWPost()
    truth, window = recorded(optimizer, (8,) * 3, (0, 1, 3))
    with pytest.raises(errors.AcrossFirstStep, match="t = 1"):
        reconcile(window, "oldest", optimizer)
    # The median is 1; shard 2 may go back to it, and shard 0 is replayed through the first step.
    found = reconcile(window, "median", optimizer)
    assert found.target == 1
    assert same_bits(found.states[0], truth[1][0])
    assert found.states[2].t == 1


def test_a_second_moment_that_was_nothing_before_the_step_is_lost():
    """An element's first gradient makes up all of its second moment."""
    optimizer = AdamWPost()
    gradient = np.array([1.0, 0.5], np.float32)
    state = AdamState(*(np.array(a, np.float32) for a in ([1, 1], [1, 0], [1, 0])), 7)
    update = Update(gradient, 8, 1e-3)
    window = Window([Capture("a", 8, optimizer.forward(state, update))], {"a": {8: update}})
    with pytest.raises(errors.SecondMomentLost, match="element 1 after rolling back step 8"):
        reconcile(window, 7, optimizer)


@pytest.mark.parametrize(("optimizer", "settings"), OPTIMIZERS)
def test_elements_that_never_saw_a_gradient_are_rolled_back_exactly(optimizer, settings):
    """Rows of an embedding that the data did not touch: nothing is lost of a moment of zero."""
    rng = np.random.default_rng(0)
    state = optimizer.init(rng.standard_normal(3).astype(np.float32))
    updates = []
    for step in range(1, 31):
        gradient = rng.standard_normal(3).astype(np.float32)
        gradient[1] = 0
        updates.append(Update(gradient, step, 1e-3, **settings))
        state = optimizer.forward(state, updates[-1])
    for rollback in rollbacks(state, updates[:5:-1], optimizer):
        for name, allowed in rollback.allowed_error.items():
            if name != "p":
                assert state_arrays(rollback.state)[name][1] == 0
                assert allowed[1] == 0
                assert allowed[0] > 0
    window = Window([Capture("a", 30, state)], {"a": dict(enumerate(updates, start=1))})
    assert reconcile(window, 29, optimizer, tolerance=2e-6).target == 29


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("target", ["newest", "median", "oldest"])
def test_numbers_that_are_not_finite_are_refused_by_name(poison, target):
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (8,) * 2, (30, 32))
    for name in "pmv":
        state = window.captures[0].state
        broken = getattr(state, name).copy()
        broken[3] = poison
        captures = [replace(window.captures[0], state=state._replace(**{name: broken}))]
        captures += window.captures[1:]
        with pytest.raises(errors.NonFiniteState, match=f"^{name} = .*element 3 of shard 0"):
            reconcile(Window(captures, window.updates), target, optimizer)
    for shard in (0, 1):
        shipped = {i: dict(slices) for i, slices in window.updates.items()}
        gradient = shipped[shard][32].gradient.copy()
        gradient[0] = poison
        shipped[shard][32] = replace(shipped[shard][32], gradient=gradient)
        used = {"newest": 0, "median": 0, "oldest": 1}[target]
        if target == "median" and shard == 1:
            continue
        if shard == used:
            with pytest.raises(errors.NonFiniteState, match="gradient of step 32"):
                reconcile(Window(window.captures, shipped), target, optimizer)


def test_a_result_that_overflows_is_refused_by_name():
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (8,), (30,))
    huge = replace(window.updates[0][31], gradient=np.full(8, 3e38, np.float32))
    with pytest.raises(errors.NonFiniteState, match="v = inf at element 0 of shard 0 replayed"):
        reconcile(Window(window.captures, {0: {31: huge}}), 31, optimizer)


def test_a_negative_second_moment_is_refused_as_captured():
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (8,), (30,))
    state = window.captures[0].state
    capture = Capture(0, 30, state._replace(v=-state.v))
    with pytest.raises(errors.SecondMomentLost, match="of shard 0 as captured"):
        reconcile(Window([capture]), 30, optimizer)


def test_step_counts_come_from_the_state_not_from_the_version():
    """A window whose versions are folder names, ten ahead of the steps."""
    optimizer = AdamWPost()
    truth, window = recorded(optimizer, (8,) * 2, (20, 24))
    shipped = {i: {v + 10: u for v, u in slices.items()} for i, slices in window.updates.items()}
    captures = [replace(c, version=c.version + 10) for c in window.captures]
    found = reconcile(Window(captures, shipped), "newest", optimizer)
    assert found.target == 34
    assert same_bits(found.states[0], truth[24][0])


def test_a_shard_named_with_a_wrong_version_is_found_out():
    optimizer = AdamWPost()
    _, window = recorded(optimizer, (8,) * 2, (20, 24))
    wrong = Window((window.captures[0], replace(window.captures[1], version=23)), window.updates)
    with pytest.raises(errors.StepMismatch):
        reconcile(wrong, 24, optimizer)
    with pytest.raises(errors.StepMismatch, match=r"t = \[23, 24\] steps at version 23"):
        reconcile(wrong, 23, optimizer)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: Window([]), "holds no shard"),
        (lambda w: Window([w.captures[0]] * 2), "names a shard twice"),
        (lambda w: Capture(0, 1.0, w.captures[0].state), "version = 1.0 is not an integer"),
        (lambda w: Capture(0, -1, w.captures[0].state), "version = -1 iterations"),
        (lambda w: reconcile(w, "mean", AdamWPost()), "target = 'mean' is not known"),
        (lambda w: reconcile(w, 30.0, AdamWPost()), "target = 30.0 is not an integer"),
        (lambda w: reconcile(w, -1, AdamWPost()), "target = -1 iterations"),
        (lambda w: reconcile(w, "newest", AdamWPost(), 0.0), "tolerance = 0 is refused"),
        (lambda w: reconcile(w, "newest", AdamWPost(), 1.5), "tolerance = 1.5 is refused"),
        (lambda w: reconcile(w, "newest", AdamWPost(), float("nan")), "tolerance = nan is refused"),
        (lambda w: best_target([]), "0 sizes for 0 versions"),
        (lambda w: best_target([1, 2], [1]), "1 sizes for 2 versions"),
        (lambda w: best_target([1, 2], [1, float("nan")]), "sizes = "),
        (lambda w: best_target([1.5, 2]), "version = 1.5 is not an integer"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    _, window = recorded(AdamWPost(), (8,) * 2, (30, 32))
    with pytest.raises(InputError, match=message) as caught:
        call(window)
    assert "\n" not in str(caught.value)
    assert "allowed: " in str(caught.value)


def test_refusals_are_input_errors_with_names_of_their_own():
    named = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.ReconcileError)
    ]
    assert len(named) == 11
    assert all(issubclass(error, InputError) for error in named)
