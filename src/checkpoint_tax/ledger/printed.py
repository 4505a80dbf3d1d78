"""What a printed number says: its value and how finely it was printed."""

import re
from dataclasses import dataclass
from decimal import Decimal

from checkpoint_tax.errors import InputError

#: How a printed text bounds the number it claims: equal, below, above, about, in a range.
RELATIONS = ("=", "<", ">", "~", "range")

#: Number words of the posts. The longest comes first, so that no word hides in another.
_WORDS = {
    "order of magnitude": "10",
    "triple": "3",
    "three": "3",
    "two": "2",
}
_NUMBER = r"(?<![A-Za-wyz\d.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*(?:-|or)\s*({_NUMBER})")
_DECADE = re.compile(r"\b(\d{3}0)s\b")
_THOUSANDS = re.compile(r"k(?![A-Za-z])")


@dataclass(frozen=True)
class Printed:
    """A number as a text prints it.

    Attributes
    ----------
    value : decimal.Decimal
        The number; of a range its middle.
    rounding : decimal.Decimal
        Half a unit of the last digit that is meant; half the width of a range; 0 of a bound
        and of the word "half".
    """

    value: Decimal
    rounding: Decimal


def read_printed(printed: str, relation: str) -> Printed:
    """Read the one number of a printed text.

    Parameters
    ----------
    printed : str
        Text such as ``"92.45%"``, ``"about 16k GPUs"``, ``"10-20 minutes"`` or
        ``"half an interval"``.
    relation : str
        One of `RELATIONS`. For ``"~"`` the zeros at the end of a whole number are not meant:
        "about 16,000" is printed to the nearest thousand.

    Returns
    -------
    Printed

    Raises
    ------
    InputError
        If the text holds no number, more than one, or not the form its relation needs.
    """
    if relation not in RELATIONS:
        raise InputError(f"relation is {relation!r}; allowed are {', '.join(RELATIONS)}.")
    if relation == "=" and re.search(r"\bhalf\b", printed):
        return Printed(Decimal("0.5"), Decimal(0))
    if relation == "range" and (decade := _DECADE.search(printed)):
        return Printed(Decimal(decade[1]) + 5, Decimal(5))
    text = printed
    for word, digits in _WORDS.items():
        text = re.sub(rf"\b{word}\b", digits, text)
    if relation == "range":
        ends = _RANGE.search(text)
        if ends is None:
            raise InputError(f"printed is {printed!r}; a range needs the form '10-20'.")
        low, high = (Decimal(end.replace(",", "")) for end in ends.groups())
        return Printed((low + high) / 2, (high - low) / 2)
    found = list(re.finditer(_NUMBER, text))
    if len(found) != 1:
        raise InputError(f"printed is {printed!r}; it must hold exactly one number.")
    number = Decimal(found[0][0].replace(",", ""))
    meant = number
    if relation == "~" and number == number.to_integral_value():
        meant = number.normalize()
    scale = Decimal(1000) if _THOUSANDS.match(text, found[0].end()) else Decimal(1)
    exponent = meant.as_tuple().exponent
    if not isinstance(exponent, int):
        raise InputError(f"printed is {printed!r}; its number must be finite.")
    half_unit = Decimal(0) if relation in "<>" else Decimal(5).scaleb(exponent - 1)
    return Printed(number * scale, half_unit * scale)
