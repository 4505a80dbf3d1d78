"""What one parameter is, and the one place that accepts or refuses a value for it."""

import difflib
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from checkpoint_tax.errors import InputError
from checkpoint_tax.units import DIMENSIONLESS

Kind = Literal["published", "derived", "assumed"]
KINDS: tuple[Kind, ...] = ("published", "derived", "assumed")

LONGEST_S = 1e12
"""Longest time that a parameter may be [s]."""

_SHOWN_CHARACTERS = 60
_SHORT_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_CLOCK = re.compile(r"[+-]?\d+(:[0-5]?\d)+(\.\d*)?")


@dataclass(frozen=True)
class Parameter:
    """One named number or word that a person may set.

    Attributes
    ----------
    name : str
        Name in code, files and notebooks.
    type : {"int", "float", "text", "mapping"}
        What a value is converted to; a mapping by `convert`.
    unit : str
        Unit as a person writes it; "1" for a pure number.
    meaning : str
        One line, for tables and messages.
    default : int, float, str, object or None
        None where leaving it out means something of its own.
    default_source : str
        Where the default comes from.
    kind : {"published", "derived", "assumed"}
        How well the default is known.
    low, high : float
        Bounds of a number; ``high`` is allowed, ``low`` unless ``low_open``.
    low_open : bool
        True where the lower bound itself is refused.
    choices : tuple of str
        The words a text may be.
    convert : callable, optional
        For a mapping: takes a value and the parameter's name, gives a checked object or refuses.
    """

    name: str
    type: Literal["int", "float", "text", "mapping"]
    unit: str
    meaning: str
    default: Any
    default_source: str
    kind: Kind
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    choices: tuple[str, ...] = ()
    convert: Callable[[object, str], object] | None = None

    @property
    def optional(self) -> bool:
        """Whether the parameter may be left open (None)."""
        return self.default is None

    @property
    def allowed(self) -> str:
        """The allowed values in words, unit included."""
        if self.type == "text":
            return "one of " + ", ".join(self.choices)
        if self.type == "mapping":
            return "a mapping of " + ", ".join(self.choices)
        noun = "a whole number" if self.type == "int" else "a number"
        low = f"above {self.low:g}, up" if self.low_open else f"from {self.low:g}"
        unit = "" if self.unit == DIMENSIONLESS else f" {self.unit}"
        return f"{noun} {low} to {self.high:g}{unit}"

    def refusal(self, value: object, problem: str) -> InputError:
        """The error for a value of this parameter.

        Parameters
        ----------
        value : object
            The value as it was given.
        problem : str
            What is wrong with it, as the end of a sentence that starts with the value.

        Returns
        -------
        InputError
            One sentence: parameter, value, unit, problem, allowed range.
        """
        return InputError(
            f"{self.name} = {shown(value)} [{self.unit}] {problem}; allowed is {self.allowed}."
        )

    def check(self, value: object) -> Any:
        """Accept a value, converted to a plain Python one, or refuse it.

        Parameters
        ----------
        value : object
            A Python or NumPy scalar; a text only where the parameter is a text.

        Returns
        -------
        int, float, str, object or None

        Raises
        ------
        InputError
            One sentence naming parameter, value, unit and allowed range.
        """
        if value is None and self.optional:
            return None
        if self.type == "text":
            return self._check_text(value)
        if self.convert is not None:
            return self.convert(value, self.name)
        return self._check_number(value)

    def _check_text(self, value: object) -> str:
        if not isinstance(value, str):
            raise self.refusal(value, f"is {kind_of(value)}, not a text")
        if value not in self.choices:
            near = nearest(value, self.choices)
            hint = f" (did you mean {near}?)" if near else ""
            raise self.refusal(value, f"is not a known word{hint}")
        return str(value)

    def _check_number(self, value: object) -> int | float:
        if isinstance(value, str):
            raise self.refusal(value, f"is a text, not a number{number_hint(value)}")
        if is_true_or_false(value) or not isinstance(value, numbers.Real):
            raise self.refusal(value, f"is {kind_of(value)}, not a number")
        number: int | float
        try:
            number = int(value) if isinstance(value, numbers.Integral) else float(value)
            outside = not math.isfinite(number)
        except OverflowError:
            raise self.refusal(value, "is too large") from None
        if outside:
            raise self.refusal(value, "is not a finite number")
        if self.type == "int" and number != int(number):
            raise self.refusal(value, "is not a whole number")
        if number < self.low or (self.low_open and number == self.low):
            raise self.refusal(value, "is too small")
        if number > self.high:
            raise self.refusal(value, "is too large")
        return int(number) if self.type == "int" else float(number)


def described(
    default: object,
    unit: str,
    meaning: str,
    source: str,
    kind: Kind,
    *,
    value_type: Literal["int", "float", "text", "mapping"] = "float",
    low: float = 0.0,
    high: float = LONGEST_S,
    low_open: bool = False,
    choices: tuple[str, ...] = (),
    convert: Callable[[object, str], object] | None = None,
) -> Any:
    """A field of a data class that carries the description of its parameter.

    Parameters
    ----------
    default : object
        Default of the field and the parameter.
    unit, meaning, source : str
        As in :class:`Parameter` (`source` is its ``default_source``).
    kind : {"published", "derived", "assumed"}
        How well the default is known.
    value_type : {"int", "float", "text", "mapping"}
        What a value is converted to.
    low, high : float
        Bounds of a number.
    low_open : bool
        True where the lower bound itself is refused.
    choices : tuple of str
        The words a text may be, or the names a mapping may hold.
    convert : callable, optional
        Reads the value of a mapping.

    Returns
    -------
    dataclasses.Field
    """
    metadata: Mapping[str, object] = {
        "default": default,
        "type": value_type,
        "unit": unit,
        "meaning": meaning,
        "default_source": source,
        "kind": kind,
        "low": low,
        "high": high,
        "low_open": low_open,
        "choices": choices,
        "convert": convert,
    }
    return field(default=default, metadata=metadata)


def shown(value: object) -> str:
    """A value as a message shows it: on one line and short.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    str
    """
    if isinstance(value, numbers.Number) and hasattr(value, "item"):
        value = value.item()
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to print whole numbers of more than 4,300 digits
        return "a number of thousands of digits"
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[: _SHOWN_CHARACTERS - 12]}...{text[-8:]}"


def is_true_or_false(value: object) -> bool:
    """Whether a value is a truth value (Python's or NumPy's), which is never a number here.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    bool
    """
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def kind_of(value: object) -> str:
    """What a value is, in a person's words.

    Parameters
    ----------
    value : object
        Anything.

    Returns
    -------
    str
        For example ``"a list"`` or ``"a true/false value"``.
    """
    if value is None:
        return "empty"
    if is_true_or_false(value):
        return "a true/false value"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, numbers.Real):
        return "a number"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"of type {type(value).__name__}"


def number_hint(text: str) -> str:
    """What a person probably meant by a text that stands where a number belongs.

    Parameters
    ----------
    text : str
        The text as given.

    Returns
    -------
    str
        Empty, or a remark in parentheses that starts with a blank.
    """
    bare = text.strip()
    if _SHORT_EXPONENT.fullmatch(bare):
        value = float(bare)
        if math.isfinite(value):
            return f" (YAML reads {bare} as a text: write {yaml_number(value)})"
    if _CLOCK.fullmatch(bare):
        return f" (write {bare} in the unit itself, seconds or hours)"
    try:
        float(bare)
    except ValueError:
        return ""
    return " (write it without quotes)"


def yaml_number(value: float) -> str:
    """A number written so that every YAML reader takes it for a number.

    YAML 1.1 wants a point in the mantissa and a sign in the exponent.

    Parameters
    ----------
    value : float
        A finite number.

    Returns
    -------
    str
        For example ``"1.0e+4"``.
    """
    mantissa, exponent = f"{value:.17e}".split("e")
    for digits in range(1, 18):
        short = f"{value:.{digits}e}"
        if float(short) == value:
            mantissa, exponent = short.split("e")
            break
    return f"{mantissa}e{int(exponent):+d}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a mistyped one most resembles.

    Parameters
    ----------
    word : str
        What was typed.
    known : iterable of str
        The words that exist.

    Returns
    -------
    str or None
        None when nothing comes near.
    """
    found = difflib.get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.5)
    return found[0] if found else None


def unknown_name(name: object, known: Iterable[str]) -> InputError:
    """The error for a parameter name that does not exist.

    Parameters
    ----------
    name : object
        The name as given.
    known : iterable of str
        The names that exist.

    Returns
    -------
    InputError
        One sentence with the nearest known name, or with all of them when none is near.
    """
    names = sorted(known)
    near = nearest(name, names) if isinstance(name, str) else None
    hint = f"the nearest known one is {near}" if near else f"known are {', '.join(names)}"
    return InputError(f"{shown(name)} is not a parameter: {hint}.")
