"""The rules that turn a recomputed number into a verdict.

Each kind of claim has one rule. A rule sees the claim and what was computed for it, nothing
else: the same two always give the same verdict and the same sentence.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger.claims import Claim

REPRODUCED = "reproduced"
WITHIN_NOISE = "within its noise"
DIFFERS = "differs"
TRUE_ONLY_WHEN = "true only when"
NOT_COMPUTABLE = "not computable here"
OPEN = "open"

#: Every verdict, in the order in which they are counted.
VERDICTS = (REPRODUCED, WITHIN_NOISE, TRUE_ONLY_WHEN, DIFFERS, NOT_COMPUTABLE, OPEN)

# Room for the last bits of a computed number that lands on the edge of the printed digit.
_LAST_BITS = 1e-12
# Numbers that name something: no thousands separator, and the unit goes without saying.
_NAMES = ("year", "arXiv")
# Smaller numbers are written with a power of ten.
_SCIENTIFIC_BELOW = 1e-3


@dataclass(frozen=True)
class Computed:
    """What a chapter found for one claim.

    A `Computed` with nothing but a note says that the claim cannot be computed here, and why.

    Attributes
    ----------
    value : float or None
        The recomputed number, in the unit of the claim: 92.45 for 92.45 %. Of a statistical
        claim the exact mean; of an input what the post's other figures imply.
    low, high : float or None
        Of a statistical claim the range that holds 95 % of what one run of the post's length
        would print; of an unstated stream the range over streams; of an exact claim the
        interval of our own estimate, where it was simulated; of an input the range that the
        rounding of the post's other figures leaves.
    holds_under_post : bool or None
        Whether the statement holds under the post's own parameters and assumptions.
    holds_in_general : bool or None
        Whether it holds beyond them.
    condition : str
        On what it holds, to be read after "true only when"; no full stop.
    note : str
        Anything a reader needs to judge the numbers, such as the length of run; no full stop.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    holds_under_post: bool | None = None
    holds_in_general: bool | None = None
    condition: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is None:
                continue
            if isinstance(number, (bool, str)):
                raise InputError(f"computed {name} is {number!r}; it must be a number.")
            number = float(number)
            if not math.isfinite(number):
                raise InputError(f"computed {name} is {number}; it must be finite.")
            object.__setattr__(self, name, number)
        for name in ("holds_under_post", "holds_in_general"):
            flag = getattr(self, name)
            if flag is not None:
                object.__setattr__(self, name, bool(flag))
        if (self.low is None) != (self.high is None):
            raise InputError("computed low and high are given together or not at all.")
        if self.low is not None and self.high is not None:
            if self.value is None:
                raise InputError("computed low and high need a value.")
            if self.low > self.high:
                raise InputError(f"computed low {self.low:g} is above high {self.high:g}.")
        for name in ("condition", "note"):
            text = getattr(self, name)
            if text != text.strip() or text.endswith(".") or "\n" in text:
                raise InputError(
                    f"computed {name} {text!r} must be part of one sentence: "
                    "no line break, no blank at its ends, no full stop."
                )


@dataclass(frozen=True)
class Verdict:
    """Outcome for one claim.

    Attributes
    ----------
    name : str
        One of `VERDICTS`.
    reason : str
        One sentence with the numbers that decided it.
    """

    name: str
    reason: str


def verdict(claim: Claim, computed: Computed | None) -> Verdict:
    """Judge one claim.

    Parameters
    ----------
    claim : Claim
    computed : Computed or None
        What was recomputed, in the claim's unit; None leaves the claim open.

    Returns
    -------
    Verdict
        exact: reproduced iff the value meets the printed number to its rounding, else "true
        only when" where it holds under the post's assumptions and a condition is given, else
        differs. statistical: reproduced iff the exact mean meets the printed number, within
        its noise iff the printed number lies in the range of one run (widened by the
        rounding), else differs. unstated-stream: the same with the range over streams, but a
        condition that separates the streams makes it "true only when". input: reproduced iff
        the post's other figures imply or allow it, else differs. external-fact: like
        statistical, with the fact's interval where it has one. conclusion: reproduced iff it
        holds in general and under the post's assumptions, "true only when" iff only under the
        latter, else differs.

    Raises
    ------
    InputError
        If what was computed does not fit the kind of the claim or cannot decide it.
    """
    if computed is None:
        waits = claim.reason or f"chapter {claim.chapter} has not computed it"
        return Verdict(OPEN, _sentence(f"Open: {waits}"))
    if computed.value is None and computed.holds_under_post is None:
        if not computed.note:
            raise InputError(f"claim {claim.claim_id}: computed holds neither number nor note.")
        return Verdict(NOT_COMPUTABLE, _sentence(f"Not computable here: {computed.note}"))
    return _RULES[claim.kind](claim, computed)


def quantity(number: float, unit: str, rounding: float | None = None, extra: int = 1) -> str:
    """Write a number with its unit and the digits that are meant.

    Parameters
    ----------
    number : float
        In `unit`.
    unit : str
        "1" for a pure number.
    rounding : float, optional
        Half a unit of the last printed digit [unit]; without it four digits are written.
    extra : int, optional
        Digits to show beyond the printed ones.

    Returns
    -------
    str
        Such as ``"92.861 %"`` or ``"16,384 GPUs"``.
    """
    if number == 0:
        text = "0"
    elif not rounding or abs(number) < _SCIENTIFIC_BELOW:
        text = f"{number:.4g}"
    else:
        last_digit = math.floor(math.log10(2 * rounding) + 0.5)
        # A whole number printed as one needs no zeros behind the point.
        whole = last_digit >= 0 and number == round(number)
        decimals = max(0, extra - last_digit)
        if whole or unit in _NAMES:
            decimals = max(0, -last_digit)
        elif last_digit >= 0:
            # Few digits were printed: four show by how much a number agrees with them.
            decimals = max(decimals, 3 - math.floor(math.log10(abs(number))))
        text = f"{number:{',' if unit not in _NAMES else ''}.{decimals}f}"
    return text if unit in ("", "1", *_NAMES) else f"{text} {unit}"


def _sentence(clause: str, *more: str) -> str:
    return "; ".join([clause, *(part for part in more if part)]) + "."


def _printed(claim: Claim) -> tuple[float, float]:
    if claim.value is None or claim.rounding is None:
        raise InputError(f"claim {claim.claim_id}: its number is missing.")
    return claim.value, claim.rounding


def _value(claim: Claim, computed: Computed) -> float:
    if computed.value is None:
        raise InputError(f"claim {claim.claim_id} is {claim.kind}: computed needs a value.")
    return computed.value


def _meets(claim: Claim, number: float) -> bool:
    printed, rounding = _printed(claim)
    if claim.relation == "<":
        return number < printed
    if claim.relation == ">":
        return number > printed
    return abs(number - printed) <= rounding + _LAST_BITS * abs(printed)


def _range_reaches(claim: Claim, low: float, high: float) -> bool:
    printed, rounding = _printed(claim)
    if claim.relation == "<":
        return low < printed
    if claim.relation == ">":
        return high > printed
    slack = rounding + _LAST_BITS * abs(printed)
    return low - slack <= printed <= high + slack


def _target(claim: Claim) -> str:
    return f'the printed "{claim.printed}"'


def _agreement(claim: Claim, *, agrees: bool) -> str:
    said, denied = {
        "=": ("rounds to", "does not round to"),
        "~": ("agrees with", "does not agree with"),
        "<": ("is below the bound of", "is not below the bound of"),
        ">": ("is above the bound of", "is not above the bound of"),
        "range": ("lies within", "lies outside"),
    }[claim.relation]
    return f"{said if agrees else denied} {_target(claim)}"


def _shown(claim: Claim, number: float) -> str:
    return quantity(number, claim.unit, claim.rounding)


def _span(claim: Claim, low: float, high: float) -> str:
    return f"{_shown(claim, low).removesuffix(f' {claim.unit}')} to {_shown(claim, high)}"


def _condition(computed: Computed) -> str:
    return f"this supposes that {computed.condition}" if computed.condition else ""


def _exact(claim: Claim, computed: Computed) -> Verdict:
    value = _value(claim, computed)
    agrees = _meets(claim, value)
    if computed.low is not None and computed.high is not None:
        ends = {_meets(claim, computed.low), _meets(claim, computed.high)}
        if ends != {agrees} or (not agrees and _range_reaches(claim, computed.low, computed.high)):
            raise InputError(
                f"claim {claim.claim_id}: the estimate {_span(claim, computed.low, computed.high)} "
                "is too wide to decide it; ask for a narrower one."
            )
    found = f"recomputed {_shown(claim, value)}, which {_agreement(claim, agrees=agrees)}"
    if agrees:
        return Verdict(REPRODUCED, _sentence(_capital(found), _condition(computed), computed.note))
    if computed.holds_under_post and computed.condition:
        return Verdict(
            TRUE_ONLY_WHEN,
            _sentence(f"True only when {computed.condition}: {found}", computed.note),
        )
    return Verdict(DIFFERS, _sentence(_capital(found), computed.note))


def _statistical(claim: Claim, computed: Computed) -> Verdict:
    value, low, high = _value(claim, computed), computed.low, computed.high
    if low is None or high is None:
        raise InputError(
            f"claim {claim.claim_id} is statistical: computed needs the range that one run "
            "of the post's length would print."
        )
    more = (_condition(computed), computed.note)
    span = _span(claim, low, high)
    if _meets(claim, value):
        found = f"The exact result {_shown(claim, value)} {_agreement(claim, agrees=True)}"
        rounding = claim.rounding or 0.0
        scatter = f"95 % of single runs print {span}" if high - low > 2 * rounding else ""
        return Verdict(REPRODUCED, _sentence(found, scatter, *more))
    mean = f"the exact result is {_shown(claim, value)}"
    if _range_reaches(claim, low, high):
        found = f"{_capital(_target(claim))} is within what 95 % of single runs print, {span}"
        return Verdict(WITHIN_NOISE, _sentence(found, mean, *more))
    found = f"{_capital(_target(claim))} is outside what 95 % of single runs print, {span}"
    return Verdict(DIFFERS, _sentence(found, mean, *more))


def _unstated_stream(claim: Claim, computed: Computed) -> Verdict:
    value, low, high = _value(claim, computed), computed.low, computed.high
    agrees = _meets(claim, value)
    found = f"Recomputed {_shown(claim, value)}, which {_agreement(claim, agrees=agrees)}"
    if agrees:
        return Verdict(REPRODUCED, _sentence(found, _condition(computed), computed.note))
    if low is None or high is None:
        raise InputError(
            f"claim {claim.claim_id} depends on an unstated stream: computed needs the range "
            "over streams."
        )
    span = f"streams give {_span(claim, low, high)}"
    if not _range_reaches(claim, low, high):
        return Verdict(DIFFERS, _sentence(found, span, computed.note))
    if computed.condition:
        clause = f"True only when {computed.condition}: {span} around {_target(claim)}"
        return Verdict(TRUE_ONLY_WHEN, _sentence(clause, computed.note))
    return Verdict(WITHIN_NOISE, _sentence(found, span, computed.note))


def _input(claim: Claim, computed: Computed) -> Verdict:
    value = _value(claim, computed)
    agrees = _meets(claim, value)
    found = f"the post's other figures imply {_shown(claim, value)}"
    if computed.low is not None and computed.high is not None:
        agrees = agrees or _range_reaches(claim, computed.low, computed.high)
        found += f" ({_span(claim, computed.low, computed.high)})"
    name, word = (REPRODUCED, "agrees") if agrees else (DIFFERS, "does not agree")
    clause = f"An assumption of the post: {found}, which {word} with {_target(claim)}"
    return Verdict(name, _sentence(clause, computed.note))


def _external_fact(claim: Claim, computed: Computed) -> Verdict:
    value, low, high = _value(claim, computed), computed.low, computed.high
    agrees = _meets(claim, value)
    interval = "" if low is None or high is None else f" ({_span(claim, low, high)})"
    found = f"The sourced value {_shown(claim, value)}{interval} {_agreement(claim, agrees=agrees)}"
    if agrees:
        return Verdict(REPRODUCED, _sentence(found, computed.note))
    if low is not None and high is not None and _range_reaches(claim, low, high):
        return Verdict(WITHIN_NOISE, _sentence(found, "its interval does", computed.note))
    return Verdict(DIFFERS, _sentence(found, computed.note))


def _conclusion(claim: Claim, computed: Computed) -> Verdict:
    post, general = computed.holds_under_post, computed.holds_in_general
    if post is None or general is None:
        raise InputError(
            f"claim {claim.claim_id} is a conclusion: computed needs holds_under_post and "
            "holds_in_general."
        )
    if post and general:
        found = "It holds under the post's assumptions and beyond them"
        return Verdict(REPRODUCED, _sentence(found, computed.note))
    if post:
        if not computed.condition:
            raise InputError(
                f"claim {claim.claim_id} holds under the post's assumptions only: computed "
                "needs the condition."
            )
        return Verdict(
            TRUE_ONLY_WHEN, _sentence(f"True only when {computed.condition}", computed.note)
        )
    found = "It does not hold under the post's own parameters and assumptions"
    if general:
        found += ", though it does in general"
    where = f"it would hold only when {computed.condition}" if computed.condition else ""
    return Verdict(DIFFERS, _sentence(found, where, computed.note))


def _capital(clause: str) -> str:
    return clause[0].upper() + clause[1:]


_RULES: Mapping[str, Callable[[Claim, Computed], Verdict]] = {
    "input": _input,
    "exact": _exact,
    "statistical": _statistical,
    "unstated-stream": _unstated_stream,
    "external-fact": _external_fact,
    "conclusion": _conclusion,
}
