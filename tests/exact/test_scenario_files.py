"""Parameter files: what a person typed is what the study takes, or the file is refused."""

import contextlib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from checkpoint_tax.errors import InputError
from checkpoint_tax.resources import data_path, parameters_path, presets
from checkpoint_tax.scenario import load_scenario, parse_parameters, read_parameters
from checkpoint_tax.scenario.parameters import yaml_number


def refused(text: str) -> str:
    with pytest.raises(InputError) as error:
        parse_parameters(text, "job.yaml").scenario()
    sentence = str(error.value)
    assert sentence.startswith("job.yaml: ")
    assert "\n" not in sentence
    return sentence.removeprefix("job.yaml: ")


def test_a_flat_file_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "my-cluster.yaml"
    path.write_text("n_gpus: 1024\nstep_s: 2.5 # s\ntarget: newest\ndrain_s: 1.0e+2\n")
    job = load_scenario(path)
    assert (job.n_gpus, job.step_s, job.target, job.drain_s) == (1024, 2.5, "newest", 100.0)
    assert load_scenario(str(path)) == job


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("drain_s: 15:00", "line 1: YAML reads 15:00 as 900, a number in base 60;"),
        ("n_gpus: 8\ndrain_s: 1:30.5", "line 2: YAML reads 1:30.5 as 90.5, a number in base 60;"),
        ("drain_s: -1:00", "line 1: YAML reads -1:00 as -60, a number in base 60;"),
        ("n_gpus: 010", "line 1: YAML reads 010 as 8, a number in base 8; write 10"),
        ("step_s: 1\nn_gpus: 2\nstep_s: 1", "line 3: step_s is given twice; keep one"),
        ("sources:\n  step_s: {kind: assumed, kind: derived}", "line 2: kind is given twice;"),
        ("gpu_mtbf_h: 1e4", "gpu_mtbf_h = '1e4' [h] is a text, not a number (YAML reads 1e4 as"),
        ("step_s: '7'", "step_s = '7' [s] is a text, not a number (write it without quotes)"),
        ("step_s: 2025-01-31", "step_s = '2025-01-31' [s] is a text, not a number"),
        ("n_gpus: yes", "n_gpus = True [1] is a true/false value, not a number"),
        ("step_s:", "step_s = None [s] is empty, not a number"),
        ("step_s: [7]", "step_s = [7] [s] is a list, not a number"),
        ("n_gpu: 8", "'n_gpu' is not a parameter: the nearest known one is n_gpus."),
        ("source:\n  step_s: 1", "'source' is not a parameter: the nearest known one is sources."),
        ("1: 8", "1 is not a parameter: known are"),
        ("", "the file is empty; it must hold lines of the form name: value."),
        ("# only a remark", "the file is empty;"),
        ("- n_gpus: 8", "the file holds a list, but must hold lines of the form name: value."),
        ("n_gpus=8", "the file holds a text, but must hold lines"),
        ("job:\n  n_gpus: 8", "'job' holds a mapping; parameters stand on their own lines"),
        ("a: [", "line 1, column 5: this is not valid YAML"),
        ("n_gpus: !!python/object:os.system {}", "line 1, column 9: this is not valid YAML"),
        ("n_gpus: !!int eight", "this is not valid YAML"),
        ("? [1]\n: 2", "line 1, column 3: this is not valid YAML"),
        ("n_gpus: 8\n---\nn_gpus: 9", "line 2, column 1: this is not valid YAML"),
        ("sources: all mine", "sources is a text, but must be a mapping."),
        ("sources: {step_s: assumed}", "sources: step_s must hold exactly kind and source."),
        ("sources: {step_s: {kind: assumed}}", "sources: step_s must hold exactly kind and"),
        ("sources: {step_s: {kind: assumed, source: x, by: me}}", "sources: step_s must hold ex"),
        ("sources: {steps: {kind: assumed, source: x}}", "'steps' is not a parameter"),
        (
            "sources: {step_s: {kind: guessed, source: x}}",
            "sources: the kind of step_s is 'guessed', but must be one of published, derived,",
        ),
        ("sources: {step_s: {kind: assumed, source: 7}}", "sources: the source of step_s must"),
    ],
)
def test_every_trap_of_yaml_is_named(text: str, sentence: str) -> None:
    assert refused(text).startswith(sentence)


def test_a_quoted_clock_stays_a_text_and_its_hint_speaks_of_units() -> None:
    assert "(write 15:00 in the unit itself" in refused("drain_s: '15:00'")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_hint_for_exponents_is_a_number_to_every_yaml_reader(value: float) -> None:
    assert yaml.safe_load(yaml_number(value)) == value


@given(st.text())
def test_no_file_content_escapes_as_another_error(text: str) -> None:
    with contextlib.suppress(InputError):
        parse_parameters(text, "job.yaml").scenario()


def test_a_chapters_own_names_are_let_through_when_named() -> None:
    content = parse_parameters("n_gpus: 8\nseed: 3", "job.yaml", ("seed",))
    assert content.values == {"n_gpus": 8, "seed": 3}
    with pytest.raises(InputError, match="'sed' is not a parameter: the nearest known one is seed"):
        parse_parameters("sed: 3", "job.yaml", ("seed",))


def test_sources_travel_beside_the_values() -> None:
    content = parse_parameters(
        "step_s: 7\nsources: {step_s: {kind: published, source: a post}}", "job.yaml"
    )
    assert content.values == {"step_s": 7}
    assert content.sources == {"step_s": {"kind": "published", "source": "a post"}}


def test_a_name_that_is_neither_file_nor_preset_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"did you mean the preset post-16k\?.*llama3-405b"):
        read_parameters("post-16")
    with pytest.raises(InputError, match="cannot be read"):
        read_parameters(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text in UTF-8"):
        read_parameters(binary)


def test_a_preset_goes_before_a_file_of_the_same_bare_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("post-16k").write_text("n_gpus: 1\n")
    assert load_scenario("post-16k").n_gpus == 16384
    assert load_scenario("./post-16k").n_gpus == 1


def test_resources_are_found_by_name_only() -> None:
    assert parameters_path("post-16k") == parameters_path("post-16k.yaml")
    assert parameters_path(presets()[0]).is_file()
    for outside in ("../pyproject.toml", "/etc/hostname", "no-such.csv", "."):
        with pytest.raises(InputError, match="does not exist"):
            data_path(outside)
    with pytest.raises(InputError, match="the presets are bloom-176b, "):
        parameters_path("../parameters/post-16k")
