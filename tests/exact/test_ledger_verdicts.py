"""Each rule of the verdicts, on both sides of its edge."""

from typing import Any

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import Claim, Computed, quantity, verdict

PRINTED: dict[str, tuple[float, float]] = {
    "92.45%": (92.45, 0.005),
    "<10": (10.0, 0.0),
    "> 10": (10.0, 0.0),
    "about 112": (112.0, 0.5),
    "10-20": (15.0, 5.0),
}


def claim(kind: str, printed: str = "92.45%", relation: str = "=", unit: str = "%") -> Claim:
    value, rounding = PRINTED[printed]
    return Claim(
        claim_id="tax.concl.a" if kind == "conclusion" else "tax.text.a",
        post="tax",
        place="text",
        statement="a claim",
        printed=printed,
        kind=kind,
        chapter="cost-saturates",
        relation=relation,
        value=value,
        unit=unit,
        rounding=rounding,
    )


def name(judged: Claim, **found: Any) -> str:
    return verdict(judged, Computed(**found)).name


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (92.45, "reproduced"),
        (92.455, "reproduced"),
        (92.445, "reproduced"),
        (92.4551, "differs"),
        (92.4449, "differs"),
    ],
)
def test_exact_turns_at_half_a_digit(value: float, expected: str) -> None:
    assert name(claim("exact"), value=value) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"holds_under_post": True, "condition": "drains shrink"}, "true only when"),
        ({"holds_under_post": False, "condition": "drains shrink"}, "differs"),
        ({"holds_under_post": True}, "differs"),
        ({"condition": "drains shrink"}, "differs"),
    ],
)
def test_exact_needs_the_post_and_a_condition_for_true_only_when(
    found: dict[str, Any], expected: str
) -> None:
    assert name(claim("exact"), value=90.0, **found) == expected


def test_exact_value_that_agrees_is_reproduced_whatever_the_condition() -> None:
    assert name(claim("exact"), value=92.45, holds_under_post=True, condition="x") == "reproduced"


@pytest.mark.parametrize(
    ("low", "high", "value", "expected"),
    [(92.449, 92.451, 92.45, "reproduced"), (92.46, 92.48, 92.47, "differs")],
)
def test_exact_accepts_an_estimate_that_decides(
    low: float, high: float, value: float, expected: str
) -> None:
    assert name(claim("exact"), value=value, low=low, high=high) == expected


@pytest.mark.parametrize(("low", "high"), [(92.45, 92.46), (92.44, 92.45), (92.0, 93.0)])
@pytest.mark.parametrize("value", [92.45, 92.47])
def test_exact_refuses_an_estimate_that_does_not_decide(
    value: float, low: float, high: float
) -> None:
    with pytest.raises(InputError, match="too wide to decide"):
        name(claim("exact"), value=value, low=low, high=high)


@pytest.mark.parametrize(
    ("relation", "printed", "value", "expected"),
    [
        ("<", "<10", 9.999, "reproduced"),
        ("<", "<10", 10.0, "differs"),
        (">", "> 10", 10.001, "reproduced"),
        (">", "> 10", 10.0, "differs"),
        ("~", "about 112", 112.5, "reproduced"),
        ("~", "about 112", 112.51, "differs"),
        ("range", "10-20", 10.0, "reproduced"),
        ("range", "10-20", 20.0, "reproduced"),
        ("range", "10-20", 20.01, "differs"),
        ("range", "10-20", 9.99, "differs"),
    ],
)
def test_relations(relation: str, printed: str, value: float, expected: str) -> None:
    assert name(claim("exact", printed, relation, "steps"), value=value) == expected


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (92.454, 92.0, 93.0, "reproduced"),
        (92.86, 92.0, 93.7, "within its noise"),
        (92.86, 92.455, 93.2, "within its noise"),
        (92.86, 92.456, 93.2, "differs"),
        (92.0, 91.5, 92.445, "within its noise"),
        (92.0, 91.5, 92.444, "differs"),
    ],
)
def test_statistical_turns_at_the_rounded_ends_of_one_run(
    value: float, low: float, high: float, expected: str
) -> None:
    assert name(claim("statistical"), value=value, low=low, high=high) == expected


@pytest.mark.parametrize(
    ("relation", "printed", "value", "low", "high", "expected"),
    [
        ("<", "<10", 3, 3, 20, "reproduced"),
        ("<", "<10", 12, 9.9, 20, "within its noise"),
        ("<", "<10", 12, 10, 20, "differs"),
        (">", "> 10", 12, 3, 20, "reproduced"),
        (">", "> 10", 9, 3, 10.1, "within its noise"),
        (">", "> 10", 9, 3, 10, "differs"),
    ],
)
def test_statistical_bounds(
    relation: str, printed: str, value: float, low: float, high: float, expected: str
) -> None:
    judged = claim("statistical", printed, relation, "steps")
    assert name(judged, value=value, low=low, high=high) == expected


def test_statistical_needs_the_range_of_one_run() -> None:
    with pytest.raises(InputError, match="is statistical"):
        name(claim("statistical"), value=92.45)


def test_statistical_names_what_its_model_supposes() -> None:
    found = Computed(92.86, 92.0, 93.7, condition="drains shrink", note="2,000 failures")
    reason = verdict(claim("statistical"), found).reason
    assert "this supposes that drains shrink; 2,000 failures." in reason


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"value": 92.45}, "reproduced"),
        ({"value": 91.0, "low": 90.0, "high": 93.0}, "within its noise"),
        (
            {"value": 91.0, "low": 90.0, "high": 93.0, "condition": "gradients are white"},
            "true only when",
        ),
        (
            {"value": 91.0, "low": 90.0, "high": 92.0, "condition": "gradients are white"},
            "differs",
        ),
    ],
)
def test_unstated_stream(found: dict[str, Any], expected: str) -> None:
    assert name(claim("unstated-stream"), **found) == expected


def test_unstated_stream_needs_the_range_over_streams() -> None:
    with pytest.raises(InputError, match="range over streams"):
        name(claim("unstated-stream"), value=91.0)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"value": 92.45}, "reproduced"),
        ({"value": 92.5}, "differs"),
        ({"value": 92.5, "low": 92.455, "high": 92.6}, "reproduced"),
        ({"value": 92.5, "low": 92.456, "high": 92.6}, "differs"),
    ],
)
def test_input_is_judged_by_what_other_figures_allow(found: dict[str, Any], expected: str) -> None:
    assert name(claim("input"), **found) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"value": 92.45}, "reproduced"),
        ({"value": 93.0}, "differs"),
        ({"value": 93.0, "low": 92.0, "high": 94.0}, "within its noise"),
        ({"value": 93.0, "low": 92.9, "high": 94.0}, "differs"),
    ],
)
def test_external_fact(found: dict[str, Any], expected: str) -> None:
    assert name(claim("external-fact"), **found) == expected


@pytest.mark.parametrize(
    ("post", "general", "expected"),
    [
        (True, True, "reproduced"),
        (True, False, "true only when"),
        (False, False, "differs"),
        (False, True, "differs"),
    ],
)
def test_conclusion(post: bool, general: bool, expected: str) -> None:
    found = {"holds_under_post": post, "holds_in_general": general, "condition": "drains shrink"}
    assert name(claim("conclusion"), **found) == expected


def test_a_conclusion_that_holds_for_the_post_only_needs_its_condition() -> None:
    with pytest.raises(InputError, match="needs the condition"):
        name(claim("conclusion"), holds_under_post=True, holds_in_general=False)


@pytest.mark.parametrize("found", [{"holds_under_post": True}, {"value": 1.0}])
def test_a_conclusion_needs_both_answers(found: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="needs holds_under_post and holds_in_general"):
        name(claim("conclusion"), **found)


KINDS = ("input", "exact", "statistical", "unstated-stream", "external-fact", "conclusion")


@pytest.mark.parametrize("kind", KINDS)
def test_what_nothing_was_computed_for_is_open(kind: str) -> None:
    judged = verdict(claim(kind), None)
    assert judged.name == "open"
    assert judged.reason == "Open: chapter cost-saturates has not computed it."


@pytest.mark.parametrize("kind", KINDS)
def test_a_note_alone_says_that_nothing_can_be_computed(kind: str) -> None:
    judged = verdict(claim(kind), Computed(note="the vendor alone knows"))
    assert judged.name == "not computable here"
    assert judged.reason == "Not computable here: the vendor alone knows."


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_at_all_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match="neither number nor note"):
        verdict(claim(kind), Computed())


@pytest.mark.parametrize("kind", KINDS[:-1])
def test_a_number_is_needed_where_one_is_printed(kind: str) -> None:
    with pytest.raises(InputError, match="computed needs a value"):
        verdict(claim(kind), Computed(holds_under_post=True, holds_in_general=True))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"value": float("nan")}, "must be finite"),
        ({"value": float("inf")}, "must be finite"),
        ({"value": "92.45"}, "must be a number"),
        ({"value": True}, "must be a number"),
        ({"value": 1.0, "low": 0.0}, "together or not at all"),
        ({"low": 0.0, "high": 1.0}, "need a value"),
        ({"value": 1.0, "low": 2.0, "high": 1.0}, "is above high"),
        ({"value": 1.0, "note": "A sentence."}, "part of one sentence"),
        ({"value": 1.0, "condition": "a\nb"}, "part of one sentence"),
    ],
)
def test_computed_refuses_what_no_rule_could_use(found: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Computed(**found)


def test_reasons_carry_numbers_and_units() -> None:
    reasons = [
        verdict(claim("exact"), Computed(92.861)).reason,
        verdict(claim("statistical"), Computed(92.861, 91.9, 93.7)).reason,
        verdict(claim("exact", "10-20", "range", "min"), Computed(10.954)).reason,
    ]
    assert reasons == [
        'Recomputed 92.861 %, which does not round to the printed "92.45%".',
        'The printed "92.45%" is within what 95 % of single runs print, 91.900 to 93.700 %; '
        "the exact result is 92.861 %.",
        'Recomputed 10.95 min, which lies within the printed "10-20".',
    ]


@pytest.mark.parametrize(
    ("number", "unit", "rounding", "text"),
    [
        (92.8612, "%", 0.005, "92.861 %"),
        (306.87, "steps", 0.5, "306.9 steps"),
        (307.0, "steps", 0.5, "307 steps"),
        (16384.0, "GPUs", 500.0, "16,384 GPUs"),
        (6.987, "s", 0.5, "6.987 s"),
        (8.1234e-8, "1", 5e-10, "8.123e-08"),
        (1974.0, "year", 0.5, "1974"),
        (2511.07035, "arXiv", 5e-6, "2511.07035"),
        (0.0, "points", 0.5, "0 points"),
        (3.5, "1", None, "3.5"),
        (-2.8, "points", 0.05, "-2.80 points"),
    ],
)
def test_quantity(number: float, unit: str, rounding: float | None, text: str) -> None:
    assert quantity(number, unit, rounding) == text
