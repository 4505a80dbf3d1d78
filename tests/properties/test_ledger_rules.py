"""Laws that every verdict obeys, whatever was claimed and computed.

Hypothesis draws the cases from a fixed seed, so these tests raise no false alarm.
"""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import KINDS, VERDICTS, Claim, Computed, verdict

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
ROUNDINGS = st.sampled_from([0.0, 5e-9, 0.005, 0.05, 0.5, 500.0])
RELATIONS = st.sampled_from(["=", "<", ">", "~", "range"])


@st.composite
def claims(draw: st.DrawFn, kinds: tuple[str, ...] = tuple(KINDS)) -> Claim:
    kind = draw(st.sampled_from(kinds))
    return Claim(
        claim_id="tax.concl.a" if kind == "conclusion" else "tax.text.a",
        post="tax",
        place="text",
        statement="a claim",
        printed="as printed",
        kind=kind,
        chapter="cost-saturates",
        relation=draw(RELATIONS),
        value=draw(NUMBERS),
        unit=draw(st.sampled_from(["%", "steps", "1", "year"])),
        rounding=draw(ROUNDINGS),
    )


@st.composite
def findings(draw: st.DrawFn) -> Computed:
    value = draw(st.none() | NUMBERS)
    low = high = None
    if value is not None and draw(st.booleans()):
        low = value - draw(st.floats(0, 1e3))
        high = value + draw(st.floats(0, 1e3))
    return Computed(
        value=value,
        low=low,
        high=high,
        holds_under_post=draw(st.none() | st.booleans()),
        holds_in_general=draw(st.none() | st.booleans()),
        condition=draw(st.sampled_from(["", "drains shrink"])),
        note=draw(st.sampled_from(["", "a run of 2,000 failures"])),
    )


def outcome(claim: Claim, computed: Computed | None) -> tuple[str, str]:
    try:
        judged = verdict(claim, computed)
    except InputError as refusal:
        return "refused", str(refusal)
    return judged.name, judged.reason


@settings(derandomize=True, max_examples=600, deadline=None)
@given(claims(), st.none() | findings())
def test_a_verdict_is_one_of_the_six_with_one_sentence(
    claim: Claim, computed: Computed | None
) -> None:
    name, reason = outcome(claim, computed)
    assert name in (*VERDICTS, "refused")
    assert "\n" not in reason
    assert reason.endswith(".")
    assert ". " not in reason
    assert "nan" not in reason


@settings(derandomize=True, max_examples=300, deadline=None)
@given(claims(), st.none() | findings(), claims(), st.none() | findings())
def test_a_verdict_depends_on_its_inputs_only(
    claim: Claim, computed: Computed | None, other: Claim, between: Computed | None
) -> None:
    first = outcome(claim, computed)
    outcome(other, between)
    assert outcome(claim, computed) == first


@settings(derandomize=True, max_examples=300, deadline=None)
@given(claims(("exact", "input", "external-fact", "unstated-stream")), st.floats(-1, 1))
def test_a_number_within_the_rounding_is_reproduced(claim: Claim, part: float) -> None:
    assert claim.value is not None
    assert claim.rounding is not None
    if claim.relation in "<>":
        edge = math.nextafter(claim.value, -math.inf if claim.relation == "<" else math.inf)
        assert outcome(claim, Computed(edge))[0] == "reproduced"
    else:
        near = claim.value + part * claim.rounding
        assert outcome(claim, Computed(near))[0] == "reproduced"


@settings(derandomize=True, max_examples=300, deadline=None)
@given(claims(("statistical",)), NUMBERS, st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_wider_range_of_single_runs_never_turns_noise_into_a_difference(
    claim: Claim, value: float, below: float, above: float, wider: float
) -> None:
    narrow = outcome(claim, Computed(value, value - below, value + above))[0]
    wide = outcome(claim, Computed(value, value - below - wider, value + above + wider))[0]
    rank = ["differs", "within its noise", "reproduced"]
    assert rank.index(wide) >= rank.index(narrow)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    claims(("exact", "statistical", "external-fact")),
    NUMBERS,
    st.integers(-3, 3),
)
def test_a_change_of_unit_changes_no_verdict(claim: Claim, value: float, power: int) -> None:
    # Powers of two keep every comparison exact.
    assert claim.value is not None
    assert claim.rounding is not None
    scale = 2.0**power
    scaled = Claim(
        claim.claim_id, claim.post, claim.place, claim.statement, claim.printed, claim.kind,
        claim.chapter, claim.relation, claim.value * scale, claim.unit, claim.rounding * scale,
    )  # fmt: skip
    found = Computed(value, value, value)
    scaled_found = Computed(value * scale, value * scale, value * scale)
    assert outcome(scaled, scaled_found)[0] == outcome(claim, found)[0]
