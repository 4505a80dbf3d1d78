"""The chapter on the spike gate: table 4, the gate as a tolerance, targets, exact rollback."""

import math

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import ledger_frame, load_claims
from checkpoint_tax.reconcile.gate import UNIT_FP32
from checkpoint_tax.reconcile.traffic import slices
from checkpoint_tax.studies import spike_gate as study
from checkpoint_tax.studies.spike_claims import measured

VERDICTS = {
    "tax.concl.rollback_not_bitwise": "true only when",
    "tax.concl.spike_cancels": "reproduced",
    "tax.concl.gate_forward_only": "true only when",
}


@pytest.fixture(scope="module")
def judged():
    frame = ledger_frame(study.claims())
    return frame[frame["chapter"] == study.CHAPTER].set_index("claim_id")


def test_every_claim_of_the_chapter_is_computed_and_no_other():
    own = {claim.claim_id for claim in load_claims() if claim.chapter == study.CHAPTER}
    assert len(own) == 16
    assert study.claims().keys() == own


def test_conclusions_have_the_verdicts_that_their_numbers_give(judged):
    conclusions = judged[judged["kind"] == "conclusion"]
    assert conclusions["verdict"].to_dict() == VERDICTS
    assert "9 of them; for the other 7" in judged.loc["tax.concl.gate_forward_only", "reason"]


def test_cells_of_table_4_hold_or_lie_within_the_stream_they_leave_open(judged):
    cells = judged[judged.index.str.startswith("tax.t4.")]
    assert set(cells["verdict"]) == {"reproduced", "within its noise"}
    assert judged.loc["tax.t4.x1.ratio", "verdict"] == "reproduced"
    assert judged.loc["tax.t4.x10.ratio", "verdict"] == "reproduced"
    # The odds of a share grow with the square of the spike: sqrt(2.125 * 49) of 1.
    spike = judged.loc["tax.t4.x10.spike"]
    assert spike["computed"] == pytest.approx(math.sqrt(0.68 / 0.32 * 0.98 / 0.02), rel=1e-12)
    assert spike["low"] < 10 < spike["high"]


def test_shares_and_errors_are_those_of_the_printed_table():
    frame = study.spike_frame().set_index("spike")
    assert frame.loc[1.0, "share"] == pytest.approx(0.02, abs=5e-4)
    assert frame.loc[10.0, "share"] == pytest.approx(0.68, abs=5e-3)
    for row in frame.to_dict("records"):
        assert row["error_low"] <= row["printed_error"] <= row["error_high"]
        assert row["share_low"] <= row["share"] <= row["share_high"]
        assert row["bound"] == pytest.approx(UNIT_FP32 / (1 - row["share"]), rel=1e-12)
    assert frame.loc[1000.0, "first_moment"] > 100 * frame.loc[1.0, "first_moment"]
    assert frame.loc[1.0, "gated"] == 0.0
    assert frame.loc[1000.0, "gated"] > 0.9


def test_a_threshold_of_0_9_is_a_tolerance_of_6e_7():
    frame = study.tolerance_frame(2 * UNIT_FP32).set_index("share")
    assert frame.loc[0.9, "one_step"] == pytest.approx(6e-7, rel=0.01)
    assert frame.loc[0.5, "one_step"] == 2 * UNIT_FP32
    # Two steps: (e + u) / (1 - rho) of e = u / (1 - rho); the sum of a geometric series.
    for steps in (1, 4, 8, 15):
        series = UNIT_FP32 * sum(2.0**n for n in range(1, steps + 1))
        assert frame.loc[0.5, f"back {steps}"] == pytest.approx(series, rel=1e-12)
    assert 1 - UNIT_FP32 / 3e-6 in set(study.tolerance_frame(3e-6)["share"])


def test_an_impossible_tolerance_adds_no_threshold():
    assert study.tolerance_frame(UNIT_FP32 / 2)["share"].min() == 0.5
    assert "No step back meets" in study.tolerance_table(UNIT_FP32 / 2).text


@pytest.mark.parametrize("shards", [2, 5, 16])
def test_the_target_under_a_gate_is_the_cheapest_that_every_shard_can_reach(shards):
    versions = list(range(1, shards + 1))
    for row in study.gated_frame(shards).to_dict("records"):

        def reachable(target, at=row["spike_at"]):
            # Rolling back from v to T undoes the updates T + 1 to v.
            return all(not target < at <= v for v in versions)

        allowed = [target for target in versions if reachable(target)]
        assert row["target"] in allowed
        assert row["traffic"] == min(slices(versions, target) for target in allowed)
        assert row["age_steps"] == shards - row["target"]


def test_a_spike_up_to_the_median_changes_nothing_and_a_last_one_forces_the_newest():
    frame = study.gated_frame(16).set_index("spike_at")
    assert set(frame.loc[:9, "traffic"]) == {4.0}
    assert frame.loc[16, "traffic"] == 7.5
    assert frame["stuck"].tolist() == [0] * 9 + [7, 6, 5, 4, 3, 2, 1]


def test_measured_rollbacks_are_exact_and_an_exact_median_stays_below_0_6():
    frame = study.correction_frame()
    assert frame["exact"].all()
    assert frame["bits"].is_monotonic_increasing
    bits = measured()["window"]["correction_bits"]
    assert bits < 2.5
    # 7 of 16 shards come after the median, by 1 to 7 steps.
    expected = (4.0 + 28 / 16 * bits / 32) / 7.5
    assert study.exact_median_ratio(16, 4) == pytest.approx(expected, rel=1e-12)
    assert study.exact_median_ratio(16, 4) < study.exact_median_ratio(16, 2) < 0.6


def test_measured_runs_follow_the_uninterrupted_one_where_they_should():
    window = measured()["window"]
    assert window["plain"]["newest"]["same_at_end"]
    assert window["corrected"]["median"]["same_at_end"]
    assert window["corrected"]["oldest"]["end_error"] == 0.0
    assert not window["plain"]["median"]["same_at_end"]
    assert window["plain"]["torn"]["end_error"] > 1e-3


def test_the_posts_formula_is_measured_not_to_be_the_librarys():
    for ways in measured()["formula"].values():
        assert ways["replay"]["bitwise"]
        assert not ways["post"]["bitwise"]
        assert ways["post"]["differing"]["p"] > 0.9
        assert ways["post"]["relative_l2"]["p"] > ways["ordered"]["relative_l2"]["p"]
    assert "the post's formula" in study.formula_table().text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: study.spike_frame(-1), "seed = -1"),
        (lambda: study.gated_frame(1), "shards = 1"),
        (lambda: study.exact_median_ratio(16, 0), "gradient_bytes = 0 B"),
        (lambda: study.tolerance_frame(0.0), "tolerance = 0"),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_the_answer_names_the_tolerance_the_targets_and_the_bits():
    text = str(study.answer(16, 6e-7, 4))
    assert "0.9 lets 6e-07 pass" in text
    assert "a threshold of 0.901" in text
    assert "7 of 16 places" in text
    assert f"{measured()['window']['correction_bits']:.2f} bits" in text
