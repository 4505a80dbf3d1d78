"""Windows recorded in real training: repaired bit for bit, and what becomes of the torn one."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile.errors import BadUpdate, BadWindow, MissingUpdate, StepMismatch
from checkpoint_tax.reconcile.torch_recorder import (
    CorrectedAdamW,
    Recorder,
    SliceUpdate,
    cut_into_shards,
    write_states,
)
from checkpoint_tax.reconcile.torch_training import (
    RecordedWindow,
    Training,
    record_window,
    relative_distance,
    same_states,
)
from checkpoint_tax.reconcile.window import reconcile, torn_state

IMPLEMENTATIONS = ("single", "foreach", "fused")
# Neither consecutive nor sorted, two shards at one version, sizes from 1 to 5; the boundaries
# fall inside parameters and at no multiple of a vector's width.
VERSIONS = [30, 31, 32, 34, 37, 38, 30, 45]
SHARES = [1.0, 5.0, 2.0, 1.0, 1.0, 3.0, 2.0, 1.0]
# Iterations that the loss scaler skips: 33, 34 and 39 make the versions 34, 35 and 40.
SKIPPED = (33, 34, 39)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def recorded(request: pytest.FixtureRequest) -> tuple[RecordedWindow, Recorder]:
    seen: list[Recorder] = []
    training = Training(
        implementation=request.param,
        skipped=SKIPPED,
        # One of the three ships before clipping, so that both ways are held to the bit.
        ship_unclipped=request.param != "single",
    )
    targets = ("newest", "median", "oldest", 36, 41)
    window = record_window(
        training, VERSIONS, shares=SHARES, targets=targets, follow_steps=60, watch=seen.append
    )
    return window, seen[0]


def test_newest_is_the_synchronous_snapshot_and_the_uninterrupted_run(
    recorded: tuple[RecordedWindow, Recorder],
) -> None:
    newest = recorded[0].resumed["newest"]
    assert newest.version == 45
    assert newest.same_at_start
    assert newest.same_at_end
    assert len(newest.losses) == 60
    assert newest.losses == recorded[0].losses
    assert newest.start_error == {"p": 0.0, "m": 0.0, "v": 0.0}
    assert newest.promised_error == {"p": 0.0, "m": 0.0, "v": 0.0}


def test_the_training_learns_so_that_its_states_are_not_idle(
    recorded: tuple[RecordedWindow, Recorder],
) -> None:
    losses = recorded[0].losses
    assert np.mean(losses[-10:]) < 1.2 < np.log(64)


def test_the_torn_state_goes_another_way(recorded: tuple[RecordedWindow, Recorder]) -> None:
    torn = recorded[0].resumed["torn"]
    assert not torn.same_at_start
    assert not torn.same_at_end
    assert torn.start_error["p"] > 1e-2
    assert torn.start_error["m"] > 0.5
    assert torn.largest_loss_difference > 1e-2
    assert torn.end_error > 1e-2


@pytest.mark.parametrize("target", ["median", "oldest", "36", "41"])
def test_rolled_back_targets_are_near_and_keep_their_promise(
    recorded: tuple[RecordedWindow, Recorder], target: str
) -> None:
    way = recorded[0].resumed[target]
    assert way.version == {"median": 32, "oldest": 30, "36": 36, "41": 41}[target]
    for name in "pmv":
        # A promise bounds every element relative to its scale, so also their 2-norm, unless the
        # scales of m outgrow its elements; here they do not.
        assert 0 < way.start_error[name] <= way.promised_error[name] < 1e-3
    assert way.largest_loss_difference < 1e-5


def test_traffic_counts_the_slices_that_are_not_skipped(
    recorded: tuple[RecordedWindow, Recorder],
) -> None:
    window, _ = recorded
    steps = [version for version in range(31, 46) if version - 1 not in SKIPPED]
    total = window.n_parameters
    assert sum(shard.size for shard in window.shards) == total
    for name in ("newest", "median", "oldest", "36", "41"):
        way = window.resumed[name]
        slices = sum(
            shard.size * sum(min(v, way.version) < s <= max(v, way.version) for s in steps)
            for shard, v in zip(window.shards, VERSIONS, strict=True)
        )
        assert way.traffic == pytest.approx(slices / total, rel=1e-12)
    costs = {
        t: sum(s.size * abs(v - t) for s, v in zip(window.shards, VERSIONS, strict=True))
        for t in range(30, 46)
    }
    assert costs[window.resumed["median"].version] == min(costs.values())
    assert window.resumed["torn"].traffic == 0.0


def test_skipped_steps_are_shipped_as_such(recorded: tuple[RecordedWindow, Recorder]) -> None:
    _, recorder = recorded
    updates = recorder.window().updates
    for shipped in updates.values():
        assert sorted(shipped) == list(range(31, 46))
        assert [k for k, update in shipped.items() if update.skipped] == [34, 35, 40]
        counts = [shipped[k].step for k in range(31, 46)]
        assert counts == [31, 32, 33, 33, 33, 34, 35, 36, 37, 37, 38, 39, 40, 41, 42]
    assert {capture.state.t for capture in recorder.window().captures} == {
        30,
        31,
        32,
        33,
        35,
        36,
        42,
    }


def test_every_number_of_a_step_is_shipped_with_it(
    recorded: tuple[RecordedWindow, Recorder],
) -> None:
    window, recorder = recorded
    training = window.training
    for part, shipped in recorder.window().updates.items():
        vector = recorder._parameters[part.parameter].ndim < 2
        for version, update in shipped.items():
            assert isinstance(update, SliceUpdate)
            assert (update.placement.offset, update.placement.numel) == (part.start, part.numel)
            if update.skipped:
                continue
            lr = training.lr * (0.5 if vector else 1.0) * training.lr_factor(version - 1)
            assert update.lr == lr
            assert update.weight_decay == (0.0 if vector else training.weight_decay)
            assert update.betas == training.betas
            assert update.eps == 1e-8
            assert 0 < update.clip_coefficient <= 1
    assert [training.lr_factor(i) for i in (0, 9, 19, 20)] == [0.05, 0.5, 1.0, 1.0]
    assert training.lr_factor(10**6) == pytest.approx(0.1)
    coefficients = {
        update.clip_coefficient for s in recorder.window().updates.values() for update in s.values()
    }
    assert (len(coefficients) > 1) == training.ship_unclipped


def test_shards_fall_anywhere_and_cover_every_element(
    recorded: tuple[RecordedWindow, Recorder],
) -> None:
    parts = sorted(
        (part.parameter, part.start, part.stop, part.numel)
        for shard in recorded[0].shards
        for part in shard.slices
    )
    assert any(start % 16 for _, start, _, _ in parts)
    for before, after in pairwise(parts):
        if before[0] == after[0]:
            assert before[2] == after[1]
        else:
            assert before[2] == before[3]
            assert after[1] == 0


def test_with_corrections_every_target_is_exact() -> None:
    window = record_window(
        Training(implementation="fused", skipped=SKIPPED),
        VERSIONS,
        shares=SHARES,
        targets=("newest", "median", "oldest"),
        follow_steps=20,
        corrected=True,
    )
    assert {name: way.version for name, way in window.resumed.items()} == {
        "torn": 45,
        "newest": 45,
        "median": 32,
        "oldest": 30,
    }
    for name in ("newest", "median", "oldest"):
        way = window.resumed[name]
        assert way.same_at_start
        assert way.same_at_end
        assert way.losses == window.losses
        assert way.promised_error == {"p": 0.0, "m": 0.0, "v": 0.0}
    assert not window.resumed["torn"].same_at_end
    assert 0.5 < window.correction_bits < 6


def test_an_update_without_corrections_is_not_undone_as_if_it_had_them() -> None:
    model, optimizer, backward = _small("foreach")
    recorder = Recorder(model, optimizer, _shards(model, [2, 4]))
    for iteration in range(4):
        backward(iteration)
        optimizer.step()
        recorder.iteration()
    exact = CorrectedAdamW(replayer=recorder.optimizer.replayer)
    with pytest.raises(MissingUpdate, match="has no corrections"):
        reconcile(recorder.window(), 2, exact)


def test_a_run_repeats_itself() -> None:
    once, again = (
        record_window(Training(), [5, 8], targets=("newest",), follow_steps=5) for _ in range(2)
    )
    assert once.losses == again.losses
    assert once.resumed["torn"] == again.resumed["torn"]


# --- small models, held to PyTorch itself --------------------------------------------------------


def _small(
    implementation: str, **options: Any
) -> tuple[torch.nn.Module, torch.optim.Optimizer, Callable[[int], None]]:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(13, 17), torch.nn.Tanh(), torch.nn.Linear(17, 5))
    first, second = model[0], model[2]
    optimizer = torch.optim.AdamW(
        [
            {"params": list(first.parameters()), "betas": (0.3, 0.99), "maximize": True},
            {"params": list(second.parameters()), "betas": (0.95, 0.999), "eps": 1e-6},
        ],
        lr=1e-2,
        foreach=implementation == "foreach",
        fused=True if implementation == "fused" else None,
        **options,
    )

    def backward(iteration: int, scale: float = 1.0) -> None:
        torch.manual_seed(100 + iteration)
        optimizer.zero_grad()
        (scale * model(torch.randn(8, 13)).square().mean()).backward()

    return model, optimizer, backward


def _shards(model: torch.nn.Module, versions: list[int]) -> Any:
    total = sum(p.numel() for p in model.parameters())
    edges = [total * i // len(versions) + i for i in range(1, len(versions))]
    return cut_into_shards(model.named_parameters(), edges, versions)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_groups_with_their_own_numbers_and_a_schedule_that_runs_early(implementation: str) -> None:
    """Betas on both sides of 0.5, ascent, and a schedule that steps before the recorder looks."""
    model, optimizer, backward = _small(implementation)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))
    recorder = Recorder(model, optimizer, _shards(model, [0, 3, 9, 2]))
    for iteration in range(9):
        backward(iteration)
        optimizer.step()
        schedule.step()
        recorder.iteration()
    result = reconcile(recorder.window(), "newest", recorder.optimizer)
    assert same_states(result.states, recorder.snapshot())
    assert not same_states(torn_state(recorder.window()), recorder.snapshot())


def test_a_fused_step_that_unscales_and_skips_inside_is_recorded() -> None:
    model, optimizer, backward = _small("fused")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    recorder = Recorder(model, optimizer, _shards(model, [1, 4, 6, 2]))
    for iteration in range(6):
        backward(iteration, scaler.get_scale() or 1.0)
        scaler.scale(torch.zeros(()))
        if iteration in (2, 4):
            model[0].weight.grad[3, 3] = torch.nan
        scaler.step(optimizer)
        scaler.update()
        recorder.iteration()
    window = recorder.window()
    assert {k for s in window.updates.values() for k, u in s.items() if u.skipped} == {3, 5}
    result = reconcile(window, "newest", recorder.optimizer)
    assert same_states(result.states, recorder.snapshot())
    assert {state.t for state in result.states.values()} == {4}


def test_a_state_written_back_is_the_one_that_was_read() -> None:
    model, optimizer, backward = _small("foreach")
    recorder = Recorder(model, optimizer, _shards(model, [3, 3, 3]))
    for iteration in range(3):
        backward(iteration)
        optimizer.step()
        recorder.iteration()
    kept = recorder.snapshot()
    other, other_optimizer, other_backward = _small("foreach")
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    write_states(kept, other, other_optimizer)
    again = Recorder(other, other_optimizer, _shards(other, [3, 3, 3]), 3)
    assert same_states(again.snapshot(), kept)
    for run, step, record in (
        (backward, optimizer.step, recorder),
        (other_backward, other_optimizer.step, again),
    ):
        for iteration in range(3, 6):
            run(iteration)
            step()
            record.iteration()
    assert same_states(again.snapshot(), recorder.snapshot())
    part = next(iter(kept))
    with pytest.raises(BadWindow, match="do not cover"):
        write_states({part: kept[part]}, other, other_optimizer)


def test_closing_lets_the_optimizer_go() -> None:
    model, optimizer, backward = _small("foreach")
    recorder = Recorder(model, optimizer, _shards(model, [0, 0]))
    recorder.close()
    backward(0)
    optimizer.step()
    assert recorder._stepped == {}


def test_recording_changes_nothing() -> None:
    ends, draws = [], []
    for watched in (False, True):
        model, optimizer, backward = _small("foreach")
        recorder = Recorder(model, optimizer, _shards(model, [0, 2])) if watched else None
        for iteration in range(4):
            backward(iteration)
            optimizer.step()
            if recorder:
                recorder.iteration()
        draws.append(torch.rand(3).tolist())
        ends.append(Recorder(model, optimizer, _shards(model, [4, 4]), 4).snapshot())
    assert draws[0] == draws[1]
    assert len(ends[0]) == len(ends[1])
    for one, other in zip(ends[0].values(), ends[1].values(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_parameter_left_out_of_a_step_is_refused_by_name() -> None:
    model, optimizer, backward = _small("foreach")
    recorder = Recorder(model, optimizer, _shards(model, [0, 2]))
    for iteration in range(2):
        backward(iteration)
        if iteration == 1:
            model[2].bias.grad = None
        optimizer.step()
        recorder.iteration()
    with pytest.raises(StepMismatch):
        reconcile(recorder.window(), "newest", recorder.optimizer)


def test_what_cannot_be_recorded_is_refused() -> None:
    model, optimizer, backward = _small("foreach")
    with pytest.raises(BadWindow, match="amsgrad"):
        Recorder(model, _small("foreach", amsgrad=True)[1], ())
    with pytest.raises(BadWindow, match="optimizer is SGD"):
        Recorder(model, torch.optim.SGD(model.parameters(), lr=0.1), ())
    with pytest.raises(BadWindow, match=r"version = 1 of a shard is past"):
        Recorder(model, optimizer, _shards(model, [1, 4]), 2)
    half = torch.optim.AdamW(model[0].parameters())
    with pytest.raises(BadWindow, match=r"'2\.weight' is in no group"):
        Recorder(model, half, _shards(model, [1, 4]))
    recorder = Recorder(model, optimizer, _shards(model, [0, 2]))
    with pytest.raises(BadWindow, match="shards are still to be copied"):
        recorder.window()
    with pytest.raises(BadUpdate, match="max_norm = 0"):
        recorder.clip(0.0)
    for iteration in range(2):
        backward(iteration)
        optimizer.step()
        recorder.iteration()
    with pytest.raises(MissingUpdate):
        reconcile(recorder.window(), 3, recorder.optimizer)
    for edges, versions in (([9, 9], [1, 1, 1]), ([10**6], [1, 1]), ([9], [1]), ([0], [1, 1])):
        with pytest.raises(BadWindow):
            cut_into_shards(model.named_parameters(), edges, versions)
    with pytest.raises(InputError, match="shares"):
        record_window(Training(), [1, 2], shares=[1.0])
    with pytest.raises(InputError, match="implementation"):
        Training(implementation="amsgrad")


def test_distance_is_relative_and_zero_only_for_equal_states() -> None:
    model, optimizer, backward = _small("foreach")
    recorder = Recorder(model, optimizer, _shards(model, [1, 1]))
    backward(0)
    optimizer.step()
    recorder.iteration()
    state = recorder.snapshot()
    scaled = {part: s._replace(p=s.p * np.float32(1.5)) for part, s in state.items()}
    distance = relative_distance(scaled, state)
    assert distance["p"] == pytest.approx(0.5, rel=1e-6)
    assert distance["m"] == distance["v"] == 0.0
    assert not same_states(scaled, state)
    later = {part: s._replace(t=s.t + 1) for part, s in state.items()}
    assert not same_states(later, state)
