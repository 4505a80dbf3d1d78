"""The detector on states written by hand: every rule, every format, no torch."""

import json
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkpoint_writers as write
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint_tax import cli
from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile.inspect import Inspection, UnreadableState, inspect_checkpoint
from checkpoint_tax.reconcile.inspect_entries import step_in_name
from checkpoint_tax.reconcile.inspect_files import StoredTensor, open_state
from checkpoint_tax.reconcile.inspect_rules import largest_ratio

Writer = Callable[[Path, Any], Path]


def _file(ending: str, form: Callable[[Any], bytes]) -> Writer:
    def writer(path: Path, content: Any) -> Path:
        path = path.with_suffix(ending)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(form(content))
        return path

    return writer


FORMATS: dict[str, Writer] = {
    "torch.save": _file(".pt", write.archive),
    "torch.save before 1.6": _file(".pt", write.legacy),
    "safetensors": _file(".safetensors", write.safetensors),
    "distributed": write.distributed,
    "distributed in 3 parts": lambda path, content: write.distributed(path, content, 3),
}

BETAS = (0.9, 0.95)
SHAPES = {"embed.weight": (7, 5), "block.0.proj.weight": (5, 5), "block.0.proj.bias": (5,)}


def trained(n_steps: int = 1200, seed: int = 0) -> dict[str, Any]:
    """Return a sharded-style state (parameters by name) whose moments are possible."""
    rng = np.random.default_rng(seed)
    model, state = {}, {}
    for name, shape in SHAPES.items():
        model[name] = rng.standard_normal(shape).astype(np.float32)
        m, v = np.zeros(shape), np.zeros(shape)
        for _ in range(12):
            g = rng.standard_normal(shape)
            m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        state[name] = {
            "step": np.float32(n_steps).reshape(()),
            "exp_avg": m.astype(np.float32),
            "exp_avg_sq": v.astype(np.float32),
        }
    group = {"lr": 3e-4, "betas": BETAS, "eps": 1e-8, "params": list(SHAPES)}
    return {"model": model, "optim": {"state": state, "param_groups": [group]}, "step": n_steps}


def numbered(content: dict[str, Any]) -> dict[str, Any]:
    """Return the same state as a plain optimizer keeps it: parameters by number."""
    optim = content["optim"]
    entries = dict(enumerate(optim["state"].values()))
    group = {**optim["param_groups"][0], "params": list(entries)}
    return {**content, "optim": {"state": entries, "param_groups": [group]}}


def kinds(inspection: Inspection) -> set[str]:
    return {finding.kind for finding in inspection.findings}


def sentence(inspection: Inspection, kind: str) -> str:
    (found,) = [f.sentence for f in inspection.findings if f.kind == kind]
    return found


def entry(content: dict[str, Any], name: str = "block.0.proj.bias") -> dict[str, Any]:
    return content["optim"]["state"][name]


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_number", [False, True], ids=["by name", "by number"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_whole_state_is_clean_in_every_format(tmp_path: Path, form: str, by_number: bool) -> None:
    content = numbered(trained()) if by_number else trained()
    seen = inspect_checkpoint(FORMATS[form](tmp_path / "step_00001200", content))
    assert seen.findings == ()
    assert (seen.n_parameters, seen.n_weights, seen.counters) == (3, 3, (1200.0,))
    assert seen.n_moment_elements == 2 * (35 + 25 + 5)
    assert seen.step == 1200
    assert seen.step_source.startswith("step 1200 was read from the name 'step_00001200")
    assert seen.format == form.split()[0].replace("distributed", "torch.distributed.checkpoint")


@pytest.mark.parametrize("form", FORMATS)
def test_a_skewed_state_is_found_in_every_format(tmp_path: Path, form: str) -> None:
    content = trained()
    entry(content)["step"] = np.float32(1201).reshape(())
    entry(content, "embed.weight")["exp_avg_sq"][2, 3] = -1e-9
    entry(content)["exp_avg"][4] = np.nan
    seen = inspect_checkpoint(FORMATS[form](tmp_path / "1200", content))
    assert kinds(seen) == {
        "steps-differ",
        "step-against-folder",
        "second-moment-negative",
        "moment-non-finite",
    }
    assert "2 at 1200, 1 at 1201 (optim.block.0.proj.bias)" in sentence(seen, "steps-differ")
    assert "optim.embed.weight exp_avg_sq (1 elements, down to -1e-09)" in sentence(
        seen, "second-moment-negative"
    )
    assert "optim.block.0.proj.bias exp_avg (1 elements)" in sentence(seen, "moment-non-finite")


@pytest.mark.parametrize(
    "names",
    [
        "{optim}.state.{name}.{role}",
        "state.{name}.{role}",
        "{optim}.state.{role}.{name}",
        "{role}.{name}",
        "{name}.{role}",
        "ranks.0.{optim}.state.{name}.{role}",
    ],
)
def test_moments_are_recognised_in_every_spelling(tmp_path: Path, names: str) -> None:
    content = trained()
    leaves = {
        names.format(optim="optim", name=name, role=role): value
        for name, fields in content["optim"]["state"].items()
        for role, value in fields.items()
        if role != "step"
    }
    broken = next(key for key in leaves if "exp_avg_sq" in key)
    leaves[broken][0] = -1.0
    path = tmp_path / "x.safetensors"
    path.write_bytes(write.safetensors(leaves))
    seen = inspect_checkpoint(path)
    assert (seen.n_parameters, kinds(seen)) == (3, {"second-moment-negative"})
    assert "no step counters" in " ".join(seen.notes)


def test_transposed_and_half_precision_moments_are_read(tmp_path: Path) -> None:
    content = trained()
    fields = entry(content, "embed.weight")
    fields["exp_avg"] = np.asfortranarray(fields["exp_avg"])
    fields["exp_avg_sq"] = write.Bfloat16(fields["exp_avg_sq"])
    assert inspect_checkpoint(FORMATS["torch.save"](tmp_path / "a", content)).clean
    fields["exp_avg_sq"] = write.Bfloat16(-fields["exp_avg_sq"].values)
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "b", content))
    assert kinds(seen) == {"second-moment-negative"}
    assert "(35 elements" in sentence(seen, "second-moment-negative")


def test_parts_make_the_whole_again(tmp_path: Path) -> None:
    content = trained()
    leaves = open_state(FORMATS["distributed in 3 parts"](tmp_path / "x", content)).leaves
    for name, expected in content["model"].items():
        leaf = leaves[f"model.{name}"]
        assert isinstance(leaf, StoredTensor)
        assert len(leaf.pieces) == 3
        assert np.array_equal(leaf.gathered(), expected)


# --- counters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "stuck"),
    [
        (np.float16(2047), "half-precision-step", "none is there yet"),
        (np.float16(2048), "half-precision-step", "3 stand still there already"),
        (write.Bfloat16(np.float32(255)), "half-precision-step", "none is there yet"),
        (write.Bfloat16(np.float32(256)), "half-precision-step", "3 stand still there already"),
        (np.float32(2**24), "step-stands-still", "have reached 16777216"),
    ],
)
def test_counters_that_cannot_count_on_are_found(
    tmp_path: Path, value: Any, kind: str, stuck: str
) -> None:
    content = trained()
    for fields in content["optim"]["state"].values():
        fields["step"] = value if isinstance(value, write.Bfloat16) else np.asarray(value)
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "x", content))
    assert kinds(seen) == {kind}
    assert stuck in sentence(seen, kind)


def test_the_limits_are_where_adding_one_is_lost() -> None:
    def up(value: float) -> float:
        bits = write.Bfloat16(np.float32(value)).bits()
        return float((bits.astype(np.uint32) << 16).view(np.float32))

    assert up(255 + 1) == 256
    assert up(256 + 1) == 256
    assert np.float16(2047) + np.float16(1) == 2048 == np.float16(2048) + np.float16(1)
    assert np.float32(2**24) + np.float32(1) == 2**24 != np.float32(2**24 - 1)


def test_a_counter_of_the_group_serves_all_its_parameters(tmp_path: Path) -> None:
    content = trained()
    for fields in content["optim"]["state"].values():
        del fields["step"]
    content["optim"]["param_groups"][0]["step"] = 1199
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "iter_0001200", content))
    assert seen.counters == (1199.0,)
    assert kinds(seen) == {"step-against-folder"}


def test_a_counter_that_one_parameter_lacks_is_found(tmp_path: Path) -> None:
    content = trained()
    del entry(content)["step"]
    seen = inspect_checkpoint(FORMATS["distributed"](tmp_path / "x", content))
    assert kinds(seen) == {"step-missing"}


@pytest.mark.parametrize("value", [-1.0, 12.5, math.nan, math.inf])
def test_a_counter_that_counts_nothing_is_found(tmp_path: Path, value: float) -> None:
    content = trained()
    entry(content)["step"] = np.float32(value).reshape(())
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "x", content))
    assert "step-not-whole" in kinds(seen)
    json.dumps(seen.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("path", "is_file", "steps"),
    [
        ("/runs/step_00001200", False, [1200]),
        ("/runs/1200", False, [1200]),
        ("/runs/0", False, [0]),
        ("/runs/iter_0001200", False, [1200]),
        ("/runs/global_step1200", False, [1200]),
        ("/runs/global-step-1200", False, [1200]),
        ("/runs/checkpoint-1200", False, [1200]),
        ("/runs/ckpt_1200.pt", True, [1200]),
        ("/runs/epoch=3-step=1200.ckpt", True, [1200]),
        ("/runs/step_7/optim.pt", True, [7]),
        ("/runs/7/optim.pt", True, [7]),
        ("/runs/7/dcp", False, []),
        ("/runs/step-7/dcp", False, [7]),
        ("/runs/step_7/step_8.pt", True, [8, 7]),
        ("/runs/epoch_3", False, []),
        ("/runs/latest", False, []),
        ("/runs/step_1_of_2", False, [1]),
        ("/runs/step_1_step_2", False, []),
        ("/runs/model-00001-of-00002.safetensors", True, []),
        ("/runs/misstep_3", False, []),
        ("/runs/v2.pt", True, []),
        ("/runs/llama-70b", False, []),
    ],
)
def test_only_names_that_spell_a_step_give_one(path: str, is_file: bool, steps: list[int]) -> None:
    found = [step for step, _ in step_in_name(Path(path).parts, is_file=is_file)]
    assert found == steps


def test_names_that_disagree_are_not_chosen_between(tmp_path: Path) -> None:
    path = FORMATS["torch.save"](tmp_path / "step_3" / "step_1200", trained())
    seen = inspect_checkpoint(path)
    assert seen.step is None
    assert "spell different ones" in seen.step_source
    assert seen.clean
    assert kinds(inspect_checkpoint(path, step=3)) == {"step-against-folder"}


@pytest.mark.parametrize("step", [-1, 1.0, True, "1200", 10**16])
def test_a_step_that_is_none_is_refused(tmp_path: Path, step: Any) -> None:
    path = FORMATS["torch.save"](tmp_path / "x", trained())
    with pytest.raises(InputError, match="whole number of steps"):
        inspect_checkpoint(path, step=step)


# --- presence ------------------------------------------------------------------------------------


def test_a_missing_second_moment_is_found(tmp_path: Path) -> None:
    content = trained()
    del entry(content)["exp_avg_sq"]
    seen = inspect_checkpoint(FORMATS["distributed"](tmp_path / "x", content))
    assert kinds(seen) == {"moment-missing"}
    assert "have moments but no exp_avg_sq: optim.block.0.proj.bias" in seen.findings[0].sentence


def test_a_moment_that_the_others_have_is_missed(tmp_path: Path) -> None:
    content = trained()
    for fields in content["optim"]["state"].values():
        fields["max_exp_avg_sq"] = fields["exp_avg_sq"]
    assert inspect_checkpoint(FORMATS["torch.save"](tmp_path / "a", content)).clean
    del entry(content)["max_exp_avg_sq"]
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "b", content))
    assert kinds(seen) == {"moment-missing"}
    assert seen.findings[0].parameters == ("optim.block.0.proj.bias",)


def test_a_counter_without_any_moment_is_found(tmp_path: Path) -> None:
    content = trained()
    content["optim"]["state"]["embed.weight"] = {"step": np.float32(1200)}
    seen = inspect_checkpoint(FORMATS["distributed"](tmp_path / "x", content))
    assert kinds(seen) == {"moment-missing"}
    assert "1 of 3 parameters have a step counter but no moments" in seen.findings[0].sentence


def test_an_infinity_norm_is_a_second_moment_of_its_own(tmp_path: Path) -> None:
    content = trained()
    for fields in content["optim"]["state"].values():
        fields["exp_inf"] = fields.pop("exp_avg_sq")
    assert inspect_checkpoint(FORMATS["torch.save"](tmp_path / "adamax", content)).clean


def test_a_second_moment_that_all_lack_is_missed_by_the_group_alone(tmp_path: Path) -> None:
    content = trained()
    for fields in content["optim"]["state"].values():
        del fields["exp_avg_sq"]
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "adam", content))
    assert kinds(seen) == {"moment-missing"}
    assert len(seen.findings[0].parameters) == 3
    # Lion keeps one moment, and has two betas but no eps.
    del content["optim"]["param_groups"][0]["eps"]
    assert inspect_checkpoint(FORMATS["torch.save"](tmp_path / "lion", content)).clean


@pytest.mark.parametrize("by_number", [False, True])
def test_a_listed_parameter_without_state_is_found(tmp_path: Path, by_number: bool) -> None:
    content = numbered(trained()) if by_number else trained()
    state = content["optim"]["state"]
    del state[next(iter(state))]
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "x", content))
    assert kinds(seen) == {"moment-missing"}
    assert "1 of 3 parameters that the optimizer lists have no state" in seen.findings[0].sentence


def test_a_flattened_state_lists_its_parameters_by_their_groups(tmp_path: Path) -> None:
    content = trained()
    optim = content.pop("optim")
    for name in SHAPES:
        content[f"optim.param_groups.{name}.betas"] = BETAS
        content[f"optim.param_groups.{name}.lr"] = 3e-4
        content[f"optim.state.{name}"] = optim["state"][name]
    path = FORMATS["distributed"](tmp_path / "a", content)
    assert inspect_checkpoint(path).clean
    del content["optim.state.embed.weight"]
    seen = inspect_checkpoint(FORMATS["distributed"](tmp_path / "b", content))
    assert kinds(seen) == {"moment-missing"}
    assert seen.findings[0].parameters == ("optim.embed.weight",)


def test_moments_lost_altogether_are_found_except_before_the_first_step(tmp_path: Path) -> None:
    content = trained()
    content["optim"]["state"] = {}
    path = FORMATS["torch.save"](tmp_path / "x", content)
    assert kinds(inspect_checkpoint(path)) == {"moment-missing"}
    assert inspect_checkpoint(path, step=0).clean
    weights = FORMATS["safetensors"](tmp_path / "w", content["model"])
    assert kinds(inspect_checkpoint(weights)) == {"moment-missing"}


def test_an_optimizer_that_keeps_no_moments_lacks_none(tmp_path: Path) -> None:
    content = trained()
    group = {"lr": 0.1, "momentum": 0, "params": [0, 1, 2]}
    content["optim"] = {
        "state": {i: {"momentum_buffer": None} for i in range(3)},
        "param_groups": [group],
    }
    assert inspect_checkpoint(FORMATS["torch.save"](tmp_path / "a", content)).clean
    group["momentum"] = 0.9
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "b", content))
    assert kinds(seen) == {"moment-missing"}


def test_empty_and_misshapen_moments_are_found(tmp_path: Path) -> None:
    content = trained()
    entry(content)["exp_avg"] = np.empty((0,), np.float32)
    entry(content, "embed.weight")["exp_avg"] = np.zeros((5, 7), np.float32)
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "x", content))
    assert kinds(seen) == {"moment-empty", "moment-shape"}


# --- values --------------------------------------------------------------------------------------


def test_moments_that_are_all_zero_after_a_step_are_found(tmp_path: Path) -> None:
    content = trained()
    for fields in content["optim"]["state"].values():
        fields["exp_avg"][...] = 0
        fields["exp_avg_sq"][...] = 0
    path = FORMATS["torch.save"](tmp_path / "x", content)
    assert kinds(inspect_checkpoint(path)) == {"moment-zero"}
    # One parameter that no gradient reached is ordinary.
    entry(content)["exp_avg_sq"][...] = 1
    assert inspect_checkpoint(FORMATS["torch.save"](tmp_path / "y", content)).clean


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_steps=st.integers(1, 60),
    beta1=st.floats(0, 0.99),
    beta2=st.floats(0, 0.9999),
    spread=st.floats(0, 12),
)
def test_no_gradients_can_break_the_bound(
    seed: int, n_steps: int, beta1: float, beta2: float, spread: float
) -> None:
    """Exact in theory, so a sound float32 history never fails: false-alarm rate 0."""
    rng = np.random.default_rng(seed)
    m, v = np.zeros(64, np.float32), np.zeros(64, np.float32)
    b1, b2 = np.float32(beta1), np.float32(beta2)
    for _ in range(n_steps):
        g = (rng.standard_normal(64) * 10 ** rng.uniform(-spread / 2, spread / 2, 64)).astype("f4")
        m = b1 * m + np.float32(1 - beta1) * g
        v = b2 * v + np.float32(1 - beta2) * g * g
    bound = largest_ratio(beta1, beta2, n_steps)
    squares = np.square(m, dtype=np.float64)
    judged = np.abs(m) > 1e-15
    assert np.all(squares[judged] <= bound * (1 + 1e-3) * v[judged].astype(np.float64))


@pytest.mark.parametrize(("b1", "b2", "n"), [(0.9, 0.95, 7), (0.9, 0.5, 9), (0.8, 0.64, 5)])
def test_the_bound_is_reached_by_the_gradients_that_the_proof_names(
    b1: float, b2: float, n: int
) -> None:
    g = (b1 / b2) ** np.arange(n - 1, -1, -1)
    m = (1 - b1) * np.sum(b1 ** np.arange(n - 1, -1, -1) * g)
    v = (1 - b2) * np.sum(b2 ** np.arange(n - 1, -1, -1) * g * g)
    assert m * m / v == pytest.approx(largest_ratio(b1, b2, n), rel=1e-12)


@pytest.mark.parametrize("form", FORMATS)
def test_moments_of_two_steps_break_the_bound_after_a_spike(tmp_path: Path, form: str) -> None:
    content = trained()
    fields = entry(content, "embed.weight")
    fields["exp_avg"][1, 1] += np.float32(0.1 * 1000)
    seen = inspect_checkpoint(FORMATS[form](tmp_path / "x", content))
    assert kinds(seen) == {"moments-impossible"}
    assert seen.findings[0].parameters == ("optim.embed.weight",)
    # With its second moment of the same step it is an ordinary spike.
    fields["exp_avg_sq"][1, 1] += np.float32(0.05 * 1000**2)
    assert inspect_checkpoint(FORMATS[form](tmp_path / "y", content)).clean


# --- two checkpoints -----------------------------------------------------------------------------


def _later(content: dict[str, Any], n_steps: int = 1210) -> dict[str, Any]:
    """Return the state some steps on: every weight and moment has moved."""
    model = {name: value * np.float32(0.99) for name, value in content["model"].items()}
    state = {
        name: {
            "step": np.float32(n_steps).reshape(()),
            "exp_avg": fields["exp_avg"] * np.float32(0.5),
            "exp_avg_sq": fields["exp_avg_sq"] * np.float32(0.5),
        }
        for name, fields in content["optim"]["state"].items()
    }
    return {"model": model, "optim": {**content["optim"], "state": state}, "step": n_steps}


@pytest.mark.parametrize("by_number", [False, True], ids=["by name", "by number"])
@pytest.mark.parametrize("form", FORMATS)
def test_moments_that_stood_still_are_found(tmp_path: Path, form: str, by_number: bool) -> None:
    first, second = trained(), _later(trained())
    shape = numbered if by_number else dict
    one = FORMATS[form](tmp_path / "a" / "step_1200", shape(first))
    two = FORMATS[form](tmp_path / "b" / "step_1210", shape(second))
    assert inspect_checkpoint(two, against=one).clean
    entry(second, "embed.weight")["exp_avg"] = entry(first, "embed.weight")["exp_avg"]
    entry(second, "embed.weight")["exp_avg_sq"] = entry(first, "embed.weight")["exp_avg_sq"]
    torn = FORMATS[form](tmp_path / "c" / "step_1210", shape(second))
    seen = inspect_checkpoint(torn, against=one)
    assert kinds(seen) == {"moment-stale"}
    assert "3 of 3 weights differ" in " ".join(seen.notes)
    assert f"optim.{0 if by_number else 'embed.weight'}" in sentence(seen, "moment-stale")


def test_one_part_that_stood_still_is_found(tmp_path: Path) -> None:
    first, second = trained(), _later(trained())
    entry(second, "embed.weight")["exp_avg"][2:4] = entry(first, "embed.weight")["exp_avg"][2:4]
    one = FORMATS["distributed in 3 parts"](tmp_path / "a", first)
    two = FORMATS["distributed in 3 parts"](tmp_path / "b", second)
    seen = inspect_checkpoint(two, against=one)
    assert kinds(seen) == {"moment-stale"}
    assert "optim.embed.weight exp_avg (the part at [2, 0])" in sentence(seen, "moment-stale")
    # A frozen part, whose weights stood still too, is no tear.
    second["model"]["embed.weight"][2:4] = first["model"]["embed.weight"][2:4]
    frozen = FORMATS["distributed in 3 parts"](tmp_path / "c", second)
    assert inspect_checkpoint(frozen, against=one).clean


def test_resharding_between_the_two_is_no_difference(tmp_path: Path) -> None:
    first, second = trained(), _later(trained())
    one = FORMATS["distributed in 3 parts"](tmp_path / "a", first)
    two = FORMATS["distributed"](tmp_path / "b", second)
    assert inspect_checkpoint(two, against=one).clean
    same = inspect_checkpoint(FORMATS["distributed"](tmp_path / "c", first), against=one)
    assert same.clean
    assert "0 of 3 weights differ" in " ".join(same.notes)


def test_a_number_is_not_taken_for_the_end_of_a_name(tmp_path: Path) -> None:
    """Parameter 0 of the optimizer is the weight `list.1` here, which is frozen."""
    first = trained()
    frozen, moving = entry(first), entry(first, "block.0.proj.bias").copy()
    moving["exp_avg"] = moving["exp_avg"] + np.float32(0.1)
    weights = np.ones((2, 5), np.float32)
    first["model"] = {"list.0": weights[0], "list.1": weights[1]}
    first["optim"]["state"] = {0: frozen, 1: moving}
    first["optim"]["param_groups"][0]["params"] = [0, 1]
    second = _later(first)
    second["model"]["list.1"] = weights[1]
    second["optim"]["state"][0] = {**frozen, "step": np.float32(1210)}
    one = FORMATS["torch.save"](tmp_path / "a", first)
    two = FORMATS["torch.save"](tmp_path / "b", second)
    assert inspect_checkpoint(two, against=one).clean


def test_zero_moments_may_stand_still(tmp_path: Path) -> None:
    first = trained()
    for role in ("exp_avg", "exp_avg_sq"):
        entry(first)[role][...] = 0
    one = FORMATS["torch.save"](tmp_path / "a", first)
    two = FORMATS["torch.save"](tmp_path / "b", _later(first))
    assert inspect_checkpoint(two, against=one).clean


@pytest.mark.parametrize("by_number", [False, True])
def test_counters_that_stood_still_are_found(tmp_path: Path, by_number: bool) -> None:
    shape = numbered if by_number else dict
    one = FORMATS["torch.save"](tmp_path / "a", shape(trained()))
    two = FORMATS["torch.save"](tmp_path / "b", shape(_later(trained(), 1200)))
    assert kinds(inspect_checkpoint(two, against=one)) == {"step-stale"}


def test_state_that_the_other_checkpoint_has_is_missed(tmp_path: Path) -> None:
    later = _later(trained())
    del later["optim"]["state"]["embed.weight"]
    later["optim"]["param_groups"] = []
    one = FORMATS["torch.save"](tmp_path / "a", trained())
    seen = inspect_checkpoint(FORMATS["torch.save"](tmp_path / "b", later), against=one)
    assert kinds(seen) == {"moment-missing"}


# --- size, command -------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    n = 2**26
    header: dict[str, Any] = {}
    for i, role in enumerate(("exp_avg", "exp_avg_sq")):
        span = [i * 4 * n, (i + 1) * 4 * n]
        header[f"optim.state.w.{role}"] = {"dtype": "F32", "shape": [n], "data_offsets": span}
    text = json.dumps(header).encode()
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 8 * n)
    tracemalloc.start()
    try:
        seen = inspect_checkpoint(path, against=path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen.n_moment_elements == 2 * n
    assert peak_bytes < 80 * 2**20 < path.stat().st_size / 6


def test_the_command_answers_with_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = FORMATS["distributed"](tmp_path / "a" / "step_1200", trained())
    assert cli.main(["inspect", str(good)]) == 0
    out, err = capsys.readouterr()
    assert "Nothing found; not every skew leaves a trace." in out
    assert "step 1200 was read from the name 'step_1200'" in out
    assert err == ""

    assert cli.main(["inspect", str(good), "--step", "1201", "--json"]) == 1
    out, err = capsys.readouterr()
    content = json.loads(out)
    assert content["clean"] is False
    assert content["findings"][0]["kind"] == "step-against-folder"
    assert (content["step"], content["counters"], err) == (1201, [1200.0], "")

    assert cli.main(["inspect", str(good), "--against", str(good)]) == 0
    assert "0 of 3 weights differ" in capsys.readouterr().out

    for wrong in (["inspect", str(tmp_path / "none")], ["inspect", str(good), "--step", "-1"]):
        assert cli.main(wrong) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)


def test_what_is_unreadable_in_the_other_checkpoint_is_said(tmp_path: Path) -> None:
    good = FORMATS["torch.save"](tmp_path / "a", trained())
    with pytest.raises(UnreadableState, match=r"none\.pt cannot be read: No such file"):
        inspect_checkpoint(good, against=tmp_path / "none.pt")
