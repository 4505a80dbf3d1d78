"""A value is judged once and by one rule, whatever the path it came by."""

import contextlib
import copy
import dataclasses
import io
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint_tax.cli import main
from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import (
    PARAMETERS,
    Parameter,
    Scenario,
    drain_tax_from_throughput_loss,
    parse_parameters,
    scenario_from_mapping,
)
from checkpoint_tax.scenario.parameters import shown, yaml_number

NUMBERS = [p for p in PARAMETERS.values() if p.type in ("int", "float")]
WORDS = [p for p in PARAMETERS.values() if p.type == "text"]


def by_python(name: str, value: object) -> str:
    given: dict[str, Any] = {name: value}
    with pytest.raises(InputError) as refused:
        Scenario(**given)
    return str(refused.value)


def by_yaml(line: str) -> str:
    with pytest.raises(InputError) as refused:
        parse_parameters(line, "job.yaml").scenario()
    return str(refused.value).removeprefix("job.yaml: ")


def by_command_line(name: str, text: str) -> str:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        status = main(["check", "post-16k", "-p", name, text])
    assert status == 2
    assert errors.getvalue().count("\n") == 1
    return errors.getvalue().strip().removeprefix("checkpoint-tax: ")


def yaml_text(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return yaml_number(value)


def bad_numbers(parameter: Parameter) -> st.SearchStrategy[float]:
    below = st.floats(max_value=parameter.low, exclude_max=not parameter.low_open)
    above = st.floats(min_value=parameter.high, exclude_min=True)
    bad = st.one_of(below, above, st.just(math.nan))
    if parameter.type == "int":
        broken = st.floats(parameter.low, 1e6).filter(lambda x: not x.is_integer())
        bad = st.one_of(bad, broken)
    return bad


@given(data=st.data(), parameter=st.sampled_from(NUMBERS))
def test_any_bad_number_gets_the_same_full_sentence_on_every_path(
    data: st.DataObject, parameter: Parameter
) -> None:
    value = data.draw(bad_numbers(parameter))
    sentence = by_python(parameter.name, value)
    assert sentence.startswith(f"{parameter.name} = {value!r} [{parameter.unit}] ")
    assert sentence.endswith(f"; allowed is {parameter.allowed}.")
    assert "\n" not in sentence
    assert by_yaml(f"{parameter.name}: {yaml_text(value)}") == sentence
    assert by_command_line(parameter.name, repr(value)) == sentence


@given(text=st.text(min_size=1), parameter=st.sampled_from(list(PARAMETERS.values())))
def test_any_text_is_a_known_word_or_refused_on_one_line(text: str, parameter: Parameter) -> None:
    if text in parameter.choices:
        return
    sentence = by_python(parameter.name, text)
    assert sentence.startswith(f"{parameter.name} = {shown(text)} [{parameter.unit}] ")
    assert parameter.allowed in sentence
    assert len(sentence.splitlines()) == 1


@given(value=st.floats(min_value=1e-9, max_value=1e12))
def test_a_good_number_arrives_unchanged_on_every_path(value: float) -> None:
    direct = Scenario(drain_s=value).drain_s
    assert direct == value
    assert parse_parameters(f"drain_s: {yaml_number(value)}", "x").scenario().drain_s == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (True, "is a true/false value, not a number"),
        (np.bool_(True), "is a true/false value, not a number"),
        (None, "is empty, not a number"),
        ([1], "is a list, not a number"),
        ({"a": 1}, "is a mapping, not a number"),
        (1j, "is of type complex, not a number"),
        (np.array(7.0), "is of type ndarray, not a number"),
        (np.eye(2), "is of type ndarray, not a number"),
        (10**400, "is too large"),
        pytest.param(10**5000, "is too large", id="thousands-of-digits"),
        ("7", "is a text, not a number (write it without quotes)"),
        ("1e4", "is a text, not a number (YAML reads 1e4 as a text: write 1.0e+4)"),
        ("-2.5E-3", "is a text, not a number (YAML reads -2.5E-3 as a text: write -2.5e-3)"),
        ("15:00", "is a text, not a number (write 15:00 in the unit itself, seconds or hours)"),
        ("seven", "is a text, not a number;"),
    ],
)
def test_what_is_no_number_is_named_for_what_it_is(value: object, problem: str) -> None:
    sentence = by_python("step_s", value)
    assert len(sentence.splitlines()) == 1
    assert f"[s] {problem}" in sentence
    assert sentence.endswith("allowed is a number from 1e-09 to 1e+12 s.")


@pytest.mark.parametrize("parameter", WORDS, ids=lambda p: p.name)
@pytest.mark.parametrize("value", [1, 0.5, None, True, ["wait"]])
def test_what_is_no_text_is_refused_where_a_word_belongs(
    parameter: Parameter, value: object
) -> None:
    assert "not a text; allowed is one of" in by_python(parameter.name, value)


def test_a_mistyped_word_is_answered_with_the_nearest() -> None:
    assert "(did you mean compressed?)" in by_python("drain_mode", "comprest")


@pytest.mark.parametrize(
    ("given_value", "kept"),
    [
        (np.int64(512), 512),
        (np.uint8(8), 8),
        (np.float64(512.0), 512),
        (np.float32(512.0), 512),
        (512.0, 512),
        (Fraction(512), 512),
    ],
)
def test_whole_numbers_of_every_kind_become_python_ints(given_value: object, kept: int) -> None:
    n_gpus = scenario_from_mapping({"n_gpus": given_value}).n_gpus
    assert type(n_gpus) is int
    assert n_gpus == kept


@pytest.mark.parametrize("given_value", [np.float32(0.25), np.float64(0.25), Fraction(1, 4)])
def test_real_numbers_of_every_kind_become_python_floats(given_value: object) -> None:
    drain_tax = scenario_from_mapping({"drain_tax": given_value}).drain_tax
    assert type(drain_tax) is float
    assert drain_tax == 0.25


def test_bounds_belong_to_the_range_where_the_sentence_says_so() -> None:
    assert Scenario(failure_shape=0.2).failure_shape == 0.2
    assert Scenario(failure_shape=5).failure_shape == 5.0
    assert Scenario(drain_s=0).drain_s == 0.0
    assert by_python("gpu_mtbf_h", 0) == (
        "gpu_mtbf_h = 0 [h] is too small; allowed is a number above 0, up to 1e+12 h."
    )


def test_the_default_job_is_the_first_posts() -> None:
    job = Scenario()
    assert job.job_mtbf_s == 50000 * 3600 / 16384
    assert job.restart_s == 390.0
    assert job.drain_steps == 30.0
    assert job.target_fraction == 0.0
    assert job.blocking_cost_s == 0.0
    assert job.replace(save_kind="blocking").blocking_cost_s == 210.0
    # Daly's interval in steps, as the post prints it for this row.
    assert round(math.sqrt(2 * job.blocking_s * job.job_mtbf_s) / job.step_s) == 307


def test_restart_is_the_sum_of_its_named_parts() -> None:
    job = Scenario(
        detect_s=1, reschedule_s=2, relaunch_s=4, reload_s=8, warmup_s=16, restart_unsplit_s=32
    )
    assert job.restart_s == 63.0
    assert job.restart_parts == {
        "detect": 1.0,
        "reschedule": 2.0,
        "relaunch": 4.0,
        "reload": 8.0,
        "warmup": 16.0,
        "restart_unsplit": 32.0,
    }


@pytest.mark.parametrize(("target", "fraction"), [("oldest", 0), ("median", 0.5), ("newest", 1)])
def test_targets_lie_at_their_fraction_of_the_drain(target: str, fraction: float) -> None:
    assert Scenario(target=target).target_fraction == fraction


def test_a_job_mtbf_below_one_step_is_taken_for_a_wrong_unit() -> None:
    sentence = by_python("job_mtbf_h", 7 / 3600 * 0.999)
    assert "[h] makes the job fail every 6.993 s, within one step of 7 s" in sentence
    assert "is the unit right?" in sentence
    assert Scenario(job_mtbf_h=7 / 3600 * 1.001).job_mtbf_s > 7
    assert by_python("gpu_mtbf_h", 13).startswith("gpu_mtbf_h = 13.0 [h] makes the job fail")


def test_overlapping_drains_have_no_window_to_take_a_median_of() -> None:
    with pytest.raises(InputError, match=r"target = 'median' .* drain_mode = 'overlap'"):
        Scenario(target="median", drain_mode="overlap")


def test_the_wall_clock_wants_exponential_failures() -> None:
    with pytest.raises(InputError, match=r"failure_shape = 0.7 .* failure_clock = 'uptime'"):
        Scenario(failure_shape=0.7, failure_clock="wall")
    assert Scenario(failure_shape=0.7).failure_shape == 0.7


def test_a_job_mtbf_overrides_the_default_and_sets_the_gpu_share() -> None:
    job = Scenario(n_gpus=512, job_mtbf_h=12)
    assert job.job_mtbf_s == 43200.0
    assert job.gpu_mtbf_h == 6144.0
    assert job.replace(n_gpus=1024).job_mtbf_s == 43200.0
    assert Scenario(n_gpus=512, gpu_mtbf_h=6144).replace(n_gpus=1024).job_mtbf_s == 21600.0


def test_two_mtbfs_that_disagree_by_more_than_a_thousandth_are_refused() -> None:
    assert Scenario(n_gpus=512, gpu_mtbf_h=6144, job_mtbf_h=12.011).job_mtbf_h == 12.011
    with pytest.raises(InputError, match=r"job_mtbf_h = 12.013 \[h\] contradicts gpu_mtbf_h"):
        Scenario(n_gpus=512, gpu_mtbf_h=6144, job_mtbf_h=12.013)
    # The default counts once it is typed.
    with pytest.raises(InputError, match="give one of the two"):
        Scenario(gpu_mtbf_h=50000, job_mtbf_h=12)


def test_replace_keeps_what_was_given_and_judges_again() -> None:
    job = Scenario(n_gpus=512, job_mtbf_h=12)
    assert job.replace(step_s=2).job_mtbf_h == 12.0
    assert job.replace(gpu_mtbf_h=512).job_mtbf_h is None
    assert Scenario(gpu_mtbf_h=9e4).replace(job_mtbf_h=3).gpu_mtbf_h == 3 * 16384
    with pytest.raises(InputError, match="step_s = 0"):
        job.replace(step_s=0)
    with pytest.raises(InputError, match="'steps' is not a parameter"):
        job.replace(steps=1)


def test_a_scenario_survives_mapping_copy_and_pickle() -> None:
    for job in (Scenario(), Scenario(n_gpus=768, job_mtbf_h=117.45, target="newest")):
        assert scenario_from_mapping(job.as_dict()) == job
        assert pickle.loads(pickle.dumps(job)) == job
        assert copy.deepcopy(job).replace(n_gpus=8) == job.replace(n_gpus=8)
        assert hash(job) == hash(copy.copy(job))


@pytest.mark.parametrize("field", ["step_s", "job_mtbf_h", "something_new"])
def test_a_scenario_cannot_be_changed_in_place(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(Scenario(), field, 1.0)


@pytest.mark.parametrize(
    ("name", "near"),
    [("n_gpu", "n_gpus"), ("drains", "drain_s"), ("MTBF_h", "job_mtbf_h"), ("step", "step_s")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError) as refused:
        scenario_from_mapping({name: 1})
    assert str(refused.value) == f"{name!r} is not a parameter: the nearest known one is {near}."


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(InputError, match=r"known are blocking_s, .*, warmup_s"):
        scenario_from_mapping({"zzz": 1})


def test_only_a_mapping_holds_parameters() -> None:
    pairs: Any = [("n_gpus", 1)]
    with pytest.raises(InputError, match="must be a mapping"):
        scenario_from_mapping(pairs)


def test_every_parameter_is_described_and_its_default_passes_its_own_rule() -> None:
    for parameter in PARAMETERS.values():
        assert parameter.unit
        assert parameter.meaning
        assert parameter.default_source
        assert parameter.check(parameter.default) == parameter.default
        assert getattr(Scenario(), parameter.name) == parameter.default


def test_every_parameter_of_time_says_its_unit_in_its_name() -> None:
    for name, parameter in PARAMETERS.items():
        assert (parameter.unit == "s") == name.endswith("_s")
        assert (parameter.unit == "h") == name.endswith("_h")


def test_a_throughput_loss_is_not_a_tax() -> None:
    assert drain_tax_from_throughput_loss(0.5) == 1.0
    assert drain_tax_from_throughput_loss(0.0) == 0.0
    with pytest.raises(InputError, match=r"throughput_loss = 1.0"):
        drain_tax_from_throughput_loss(1.0)
