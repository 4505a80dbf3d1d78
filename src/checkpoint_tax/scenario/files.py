"""Parameter files: flat YAML, read so that what a person typed is what the study takes.

YAML 1.1 turns ``15:00`` into 900, ``010`` into 8 and the second of two equal keys into the
only one, without a word. The loader here refuses all three by name.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from checkpoint_tax.errors import InputError
from checkpoint_tax.resources import parameters_path, presets
from checkpoint_tax.scenario.job import PARAMETERS, Scenario, scenario_from_mapping
from checkpoint_tax.scenario.parameters import KINDS, kind_of, nearest, shown, unknown_name

SOURCES = "sources"

INT_TAG = "tag:yaml.org,2002:int"
FLOAT_TAG = "tag:yaml.org,2002:float"
_TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"


@dataclass(frozen=True)
class ParameterFile:
    """What one parameter file says.

    Attributes
    ----------
    name : str
        Name for messages: a path or a preset's name.
    values : mapping
        Parameter name to value as typed; not validated yet.
    sources : mapping
        Parameter name to ``{"kind": ..., "source": ...}``; empty where the file gives none.
    """

    name: str
    values: Mapping[str, object]
    sources: Mapping[str, Mapping[str, str]]

    def scenario(self) -> Scenario:
        """The scenario of this file.

        Returns
        -------
        Scenario

        Raises
        ------
        InputError
            For a refused value, with the file's name.
        """
        try:
            return scenario_from_mapping(self.values)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None


def refuse_surprising_number(loader: Any, node: yaml.ScalarNode) -> None:
    """Refuse a YAML number that YAML 1.1 reads otherwise than a person does.

    Parameters
    ----------
    loader : yaml.constructor.SafeConstructor
        The loader at work; it supplies YAML's own reading for the message.
    node : yaml.ScalarNode
        A scalar tagged as a number.

    Raises
    ------
    InputError
        For base-60 numbers such as ``15:00`` and base-8 ones such as ``010``.
    """
    text = str(node.value)
    digits = text.lstrip("+-").replace("_", "")
    if ":" in digits:
        read = (
            yaml.constructor.SafeConstructor.construct_yaml_int(loader, node)
            if node.tag == INT_TAG
            else yaml.constructor.SafeConstructor.construct_yaml_float(loader, node)
        )
        raise InputError(
            f"line {node.start_mark.line + 1}: YAML reads {text} as {read:g}, a number in base 60;"
            f" write seconds as a plain number, such as {read:g}, or quote a text."
        )
    if node.tag == INT_TAG and digits.isdigit() and len(digits) > 1 and digits[0] == "0":
        read = int(digits, 8)
        raise InputError(
            f"line {node.start_mark.line + 1}: YAML reads {text} as {read}, a number in base 8;"
            f" write {digits.lstrip('0') or '0'} or quote a text."
        )


class _Loader(yaml.SafeLoader):
    """Safe loader that refuses duplicate keys and surprising numbers and keeps dates as text."""

    def plain_int(self, node: yaml.ScalarNode) -> int:
        refuse_surprising_number(self, node)
        return int(self.construct_yaml_int(node))

    def plain_float(self, node: yaml.ScalarNode) -> float:
        refuse_surprising_number(self, node)
        return float(self.construct_yaml_float(node))

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise InputError(
                        f"line {key.start_mark.line + 1}: {key.value} is given twice;"
                        " keep one of the two lines."
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] != _TIMESTAMP_TAG]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor(INT_TAG, _Loader.plain_int)
_Loader.add_constructor(FLOAT_TAG, _Loader.plain_float)


def parse_parameters(text: str, name: str, other_names: Collection[str] = ()) -> ParameterFile:
    """Read the text of a parameter file.

    Parameters
    ----------
    text : str
        Flat YAML: one ``name: value`` a line, and optionally ``sources``, a mapping of
        parameter names to ``{kind: published|derived|assumed, source: text}``.
    name : str
        Name of the file, for messages.
    other_names : collection of str
        Names allowed beside the scenario's: a chapter's own parameters.

    Returns
    -------
    ParameterFile
        Values as typed; names are checked, values are not.

    Raises
    ------
    InputError
        One sentence that starts with the file's name.
    """
    try:
        content = yaml.load(text, Loader=_Loader)
        return _split(content, name, other_names)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{name}: {_yaml_problem(error)}") from None


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    problem = getattr(error, "problem", None) or str(error) or type(error).__name__
    return f"{place}this is not valid YAML ({' '.join(str(problem).split())})."


def _split(content: object, name: str, other_names: Collection[str]) -> ParameterFile:
    if content is None:
        raise InputError("the file is empty; it must hold lines of the form name: value.")
    if not isinstance(content, dict):
        raise InputError(
            f"the file holds {kind_of(content)}, but must hold lines of the form name: value."
        )
    values = {key: value for key, value in content.items() if key != SOURCES}
    for key, value in values.items():
        if key not in PARAMETERS and key not in other_names:
            nested = isinstance(value, (dict, list))
            if nested and not (isinstance(key, str) and nearest(key, [*PARAMETERS, SOURCES])):
                raise InputError(
                    f"{shown(key)} holds {kind_of(value)}; parameters stand on their own lines,"
                    " name: value, without headings above them."
                )
            raise unknown_name(key, [*PARAMETERS, *other_names, SOURCES])
    return ParameterFile(name=name, values=values, sources=check_sources(content.get(SOURCES)))


def check_sources(sources: object) -> dict[str, dict[str, str]]:
    """Check the provenance part of a parameter file.

    Parameters
    ----------
    sources : object
        Parameter name to ``{"kind": ..., "source": ...}``; None for no provenance.

    Returns
    -------
    dict

    Raises
    ------
    InputError
        For an unknown name, a kind that does not exist or a source that is not a text.
    """
    if sources is None:
        return {}
    if not isinstance(sources, Mapping):
        raise InputError(f"{SOURCES} is {kind_of(sources)}, but must be a mapping.")
    checked: dict[str, dict[str, str]] = {}
    for name, entry in sources.items():
        if name not in PARAMETERS:
            raise unknown_name(name, PARAMETERS)
        if not isinstance(entry, Mapping) or set(entry) != {"kind", "source"}:
            raise InputError(f"{SOURCES}: {name} must hold exactly kind and source.")
        if entry["kind"] not in KINDS:
            raise InputError(
                f"{SOURCES}: the kind of {name} is {shown(entry['kind'])},"
                f" but must be one of {', '.join(KINDS)}."
            )
        if not isinstance(entry["source"], str) or not entry["source"].strip():
            raise InputError(f"{SOURCES}: the source of {name} must be a text.")
        checked[name] = {"kind": entry["kind"], "source": entry["source"]}
    return checked


def read_parameters(file_or_preset: str | Path, other_names: Collection[str] = ()) -> ParameterFile:
    """Read a parameter file or a preset.

    Parameters
    ----------
    file_or_preset : str or pathlib.Path
        A path, or the name of a preset such as ``"post-16k"``. A name without folder and
        ending is a preset's.
    other_names : collection of str
        Names allowed beside the scenario's: a chapter's own parameters.

    Returns
    -------
    ParameterFile

    Raises
    ------
    InputError
        One sentence for a file that is missing, unreadable or wrong.
    """
    path = Path(file_or_preset)
    name = str(file_or_preset)
    if isinstance(file_or_preset, str) and name in presets():
        path = parameters_path(name)
    elif not path.exists():
        near = nearest(path.stem, presets())
        hint = f" (did you mean the preset {near}?)" if near else ""
        raise InputError(
            f"{name} is neither a file nor a preset{hint}; the presets are {', '.join(presets())}."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{name}: the file is not a text in UTF-8.") from None
    except OSError as error:
        raise InputError(f"{name}: the file cannot be read ({error.strerror}).") from None
    return parse_parameters(text, name, other_names)


def load_scenario(file_or_preset: str | Path) -> Scenario:
    """Read and validate a scenario.

    Parameters
    ----------
    file_or_preset : str or pathlib.Path
        A YAML file, or the name of a preset.

    Returns
    -------
    Scenario

    Raises
    ------
    InputError
        One sentence that starts with the file's name.
    """
    return read_parameters(file_or_preset).scenario()
