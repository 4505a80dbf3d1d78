"""Every derived fact follows from the sourced ones to the digits the table gives."""

import math
from decimal import Decimal
from pathlib import Path

import pytest
from scipy.stats import chi2

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import (
    Claim,
    external_computed,
    load_claims,
    load_facts,
    load_interruptions,
    verdict,
)
from checkpoint_tax.ledger.facts import FACT_COLUMNS
from checkpoint_tax.units import DAY_S, GB_BYTES, GIB_BYTES, HOUR_S

FACTS = load_facts()
COUNTS = load_interruptions()
HOURS_A_DAY = DAY_S / HOUR_S


def v(key: str) -> float:
    return FACTS[key].value


def rsc1_mtbf_h(n_gpus: int) -> float:
    return HOURS_A_DAY / (n_gpus / v("rsc_gpus_per_node") * v("rsc1_failures") / 1000)


def youngs_mtbf_h(when: str) -> float:
    interval_s = v(f"dlrover_{when}_steps") * v("dlrover_step_s")
    return interval_s**2 / (2 * v(f"dlrover_{when}_blocking_s")) / HOUR_S


LLAMA3_H = v("llama3_days") * HOURS_A_DAY
DERIVED = {
    "llama3_unexpected": sum(COUNTS.values()),
    "llama3_gpu_share": 100 * COUNTS["faulty GPU"] / sum(COUNTS.values()),
    "llama3_mtbf_h": LLAMA3_H / sum(COUNTS.values()),
    "llama3_gpu_time_per_failure": v("llama3_gpus") * LLAMA3_H / sum(COUNTS.values()) / 1000,
    "llama3_mtbf_all_h": LLAMA3_H / v("llama3_interruptions"),
    "rsc1_mtbf_16384_h": rsc1_mtbf_h(16384),
    "rsc1_mtbf_131072_h": rsc1_mtbf_h(131072),
    "rsc1_mtbf_1024_h": rsc1_mtbf_h(1024),
    "opt_up_share": 100 * v("opt_ideal_days") / v("opt_days"),
    "opt_checkpoint_tb": v("opt_gpus") * v("opt_shard_gb") / 1000,
    "opt_bytes_per_param": v("opt_gpus") * v("opt_shard_gb") / v("opt_parameters"),
    "glm130_mtbf_h": v("glm130_exposure_h") / v("glm130_events"),
    "dlrover_before_implied_mtbf_h": youngs_mtbf_h("before"),
    "dlrover_after_implied_mtbf_h": youngs_mtbf_h("after"),
    "deepspeed_8b_state_gb": v("deepspeed_8b_state_gib") * GIB_BYTES / GB_BYTES,
    "tiercheck_young_waste": 100
    * 2
    * v("tiercheck_blocking_s")
    / (60 * v("tiercheck_interval_min")),
}


def half_unit(text: str) -> float:
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5 * 10.0**exponent


def test_every_derived_fact_is_derived_here() -> None:
    assert {key for key, fact in FACTS.items() if fact.tag == "D"} == set(DERIVED)


@pytest.mark.parametrize("key", DERIVED)
def test_derived_value(key: str) -> None:
    text = FACTS[key].text
    assert abs(DERIVED[key] - float(text)) <= half_unit(text) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("key", "exposure_h", "events"),
    [
        ("llama3_mtbf_h", LLAMA3_H, 419),
        ("glm130_mtbf_h", v("glm130_exposure_h"), 11),
    ],
)
def test_exact_poisson_interval(key: str, exposure_h: float, events: int) -> None:
    # Garwood's interval for a Poisson count, turned into one for exposure / count.
    most = chi2.ppf(0.975, 2 * (events + 1)) / 2
    least = chi2.ppf(0.025, 2 * events) / 2
    low, high = exposure_h / most, exposure_h / least
    fact = FACTS[key]
    assert fact.low is not None
    assert fact.high is not None
    digits = {"llama3_mtbf_h": (0.005, 0.005), "glm130_mtbf_h": (0.05, 0.5)}[key]
    assert abs(low - fact.low) <= digits[0]
    assert abs(high - fact.high) <= digits[1]


def test_llama3_counts_agree_with_the_printed_totals() -> None:
    assert len(COUNTS) == 18
    assert sum(COUNTS.values()) == v("llama3_interruptions") - v("llama3_planned")
    # The printed share of faulty GPUs is not that of the counts.
    assert not math.isclose(v("llama3_printed_gpu_share"), DERIVED["llama3_gpu_share"], abs_tol=5)


def test_measured_mtbf_at_1024_gpus_does_not_follow_from_the_rate() -> None:
    assert v("rsc_measured_mtbf_1024_h") < rsc1_mtbf_h(1024) / 3


def test_the_facts_decide_every_claim_of_their_chapter() -> None:
    claims = load_claims()
    found = external_computed(claims, FACTS, COUNTS)
    assert set(found) == {claim.claim_id for claim in claims if claim.chapter == "ledger"}
    names = {
        claim.claim_id: verdict(claim, found[claim.claim_id]).name
        for claim in claims
        if claim.chapter == "ledger"
    }
    vendor = {claim.claim_id for claim in claims if claim.fact == "vendor"}
    assert {i for i, name in names.items() if name == "not computable here"} == vendor
    assert {name for i, name in names.items() if i not in vendor} == {"reproduced"}


def test_largest_causes_follow_the_counts() -> None:
    claims = [claim for claim in load_claims() if claim.claim_id == "guide.concl.gpu_hbm_largest"]
    swapped = COUNTS | {"software": 100}
    for counts, holds in ((COUNTS, True), (swapped, False)):
        found = external_computed(claims, FACTS, counts)[claims[0].claim_id]
        assert (found.holds_under_post, found.holds_in_general) == (holds, holds)


def fact_claim(fact: str, unit: str) -> Claim:
    return Claim(
        "guide.text.days", "guide", "text", "days", "54", "external-fact", "ledger",
        "=", 54.0, unit, 0.5, fact,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fact", "unit", "message"),
    [("llama3_weeks", "d", "does not exist"), ("llama3_days", "h", "but fact 'llama3_days' in")],
)
def test_a_claim_needs_a_fact_in_its_own_unit(fact: str, unit: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        external_computed([fact_claim(fact, unit)], FACTS, COUNTS)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,1,,,h,X,paper,", "tag is 'X'"),
        ("a,1,,,h,M,paper,", "tag is 'M'"),
        ("a,,,,h,V,paper,", "value is empty"),
        ("a,1,,,,V,paper,", "unit is empty"),
        ("a,1,,,h,V,,", "source is empty"),
        ("A b,1,,,h,V,paper,", "a key is made of"),
        ("vendor,1,,,h,V,paper,", "a key is made of"),
        ("a,1,0,,h,V,paper,", "together or not at all"),
        ("a,1,2,3,h,V,paper,", "lies outside"),
        ("a,one,,,h,V,paper,", "must be numbers"),
        ("a,nan,,,h,V,paper,", "must be finite"),
        ("a,1,,,h,V,paper", "must have 8 fields"),
        ("a,1,,,h,V,paper,,", "must have 8 fields"),
        ("b,1,,,h,V,paper,", "used twice"),
    ],
)
def test_a_bad_fact_is_refused(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(f"{','.join(FACT_COLUMNS)}\nb,1,,,h,V,paper,\n{row}\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_facts(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cause,count\na,1\n", "must have the columns"),
        ("cause,interruptions\na,1\na,2\n", "named twice"),
        ("cause,interruptions\na,1.5\n", "positive whole number"),
        ("cause,interruptions\na,0\n", "positive whole number"),
        ("cause,interruptions\na,²\n", "positive whole number"),
        ("cause,interruptions\na\n", "positive whole number"),
    ],
)
def test_bad_counts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_interruptions(path)


def test_a_fact_file_without_its_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("key,value\na,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="must have the columns"):
        load_facts(path)
