"""Scale rules: what they give, and that disagreeing anchors stay apart."""

import math

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures import (
    Anchor,
    Topology,
    compare_anchors,
    published_anchors,
    scale_mtbf,
)
from checkpoint_tax.units import HOUR_S


def test_parts_are_proportional_and_name_the_anchor() -> None:
    anchor = published_anchors()["rsc1_measured"]
    scaled = scale_mtbf(anchor, 16384)
    assert scaled.mtbf_s == pytest.approx(7.9 / 16 * HOUR_S)
    assert "RSC-1, measured" in str(scaled)
    assert "by the rule of parts" in str(scaled)


def test_published_anchors_of_one_cluster_disagree() -> None:
    anchors = published_anchors()
    pair = [anchors["rsc1_measured"], anchors["rsc1_rate"]]
    found = compare_anchors(pair, 16384)
    assert not found.agree
    assert [round(s.mtbf_s / HOUR_S, 2) for s in found.scaled] == [0.49, 1.8]
    assert "29.62 min" in found.sentence
    assert "but 108 min at 16,384 GPUs" in found.sentence
    assert "disagree by a factor of 3.65" in found.sentence
    back = compare_anchors(pair, 1024)
    assert round(back.scaled[1].mtbf_s / HOUR_S, 1) == 28.8


def test_anchors_within_their_intervals_agree() -> None:
    one = Anchor("a", 10.0, 8, "x", "", 8.0, 13.0)
    other = Anchor("b", 14.0, 8, "y", "", 12.0, 17.0)
    assert compare_anchors([one, other], 8).agree
    assert not compare_anchors([one, Anchor("b", 14.0, 8, "y", "", 13.5, 17.0)], 8).agree


def test_every_published_anchor_is_as_sourced() -> None:
    found = {name: round(a.mtbf_s / HOUR_S, 2) for name, a in published_anchors().items()}
    assert found == {
        "llama3": 3.09, "rsc1_measured": 7.9, "rsc1_rate": 1.8, "glm130": 117.5, "bloom": 168.0,
        "opt": 15.07,
    }  # fmt: skip


def test_topology_counts_whole_parts() -> None:
    topology = Topology({"gpu": (1, 0.5), "switch": (512, 0.3), "storage": (math.inf, 0.2)})
    anchor = Anchor("mine", HOUR_S, 1024, "log")
    scaled = scale_mtbf(anchor, 1025, topology)
    assert scaled.rule == "topology"
    assert HOUR_S / scaled.mtbf_s == pytest.approx(0.5 * 1025 / 1024 + 0.3 * 3 / 2 + 0.2)
    assert scale_mtbf(anchor, 1024, topology).mtbf_s == HOUR_S
    gpus = Topology({"gpu": (1, 1.0)})
    assert scale_mtbf(anchor, 64, gpus).mtbf_s == scale_mtbf(anchor, 64).mtbf_s


@pytest.mark.parametrize(
    "make",
    [
        lambda: Topology({}),
        lambda: Topology({"gpu": (1, 0.9)}),
        lambda: Topology({"gpu": (0.5, 1.0)}),
        lambda: Topology({"gpu": (1, 1.5), "rack": (64, -0.5)}),
        lambda: Anchor("x", 0.0, 8, "y"),
        lambda: Anchor("x", 1.0, math.nan, "y"),
        lambda: scale_mtbf(Anchor("x", 1.0, 8, "y"), 0),
        lambda: compare_anchors([], 8),
    ],
)
def test_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InputError):
        make()
