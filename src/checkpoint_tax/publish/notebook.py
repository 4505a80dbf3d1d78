"""Opening a chapter with validated numbers, and running one from Python.

A chapter is a notebook with a cell tagged ``parameters``. Papermill puts the numbers of a
rerun into a cell after it, checks nothing, and only warns about a name the chapter does not
have. Both ends are closed here: :func:`run_chapter` checks before a kernel starts, and
:func:`open_chapter`, the first call in every chapter, checks what arrived by any other way.
"""

import ast
import datetime
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoint_tax.errors import InputError
from checkpoint_tax.publish.chapters import (
    PARAMETERS_TAG,
    declarations,
    read_notebook,
    tagged_cell,
)
from checkpoint_tax.scenario import PARAMETERS, Scenario, scenario_from_mapping
from checkpoint_tax.scenario.files import SOURCES, check_sources
from checkpoint_tax.scenario.parameters import (
    is_true_or_false,
    kind_of,
    number_hint,
    shown,
    unknown_name,
)

if TYPE_CHECKING:
    import pandas as pd

# Written by IPython and papermill into every notebook's namespace.
_NOT_PARAMETERS = frozenset({"In", "Out", "exit", "quit", "get_ipython"})
_PAPERMILL_NAMES = frozenset({"PAPERMILL_INPUT_PATH", "PAPERMILL_OUTPUT_PATH"})
_INJECTED = "# Parameters"
_RAW_HINT = "papermill's -p reads numbers, true/false and None out of a text: give it with -r"

_OWN_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (numbers.Integral,),
    "float": (numbers.Real,),
    "bool": (bool,),
    "list": (list, tuple),
    "dict": (dict,),
}


class ChapterError(RuntimeError):
    """A chapter that raised while it ran; the message names the chapter and its error."""


@dataclass(frozen=True)
class ChapterParameters:
    """The parameters a chapter declares.

    Attributes
    ----------
    defaults : mapping
        Name to the value in the chapter's own cell.
    own_types : mapping
        Type names of those parameters that are the chapter's own, not the scenario's.
    """

    defaults: Mapping[str, object]
    own_types: Mapping[str, str]


def open_chapter(namespace: Mapping[str, object]) -> Scenario:
    """Validate a chapter's parameters, switch its charts on, and return its job.

    Parameters
    ----------
    namespace : mapping
        The notebook's ``globals()``, taken right after its parameters cell. Known are the
        scenario's parameters (those a chapter does not use are ignored), ``sources``, and
        whatever the parameters cell declares with a type (``seed: int = 0``).

    Returns
    -------
    Scenario
        Built from every scenario parameter found; the rest are defaults.

    Raises
    ------
    InputError
        For a name nobody declared (with the nearest known one) or a refused value.
    """
    annotations = namespace.get("__annotations__")
    declared = annotations if isinstance(annotations, Mapping) else {}
    own_types = {
        name: _type_name(kind) for name, kind in declared.items() if _is_own_parameter(name)
    }
    injected = _injected_names(namespace.get("In"))
    found = {
        name
        for name, value in namespace.items()
        if not name.startswith("_") and name not in _NOT_PARAMETERS and _is_plain(value)
    }
    values = {name: namespace[name] for name in found | injected if name in namespace}
    job = check_chapter(values, own_types, injected)
    _enable_charts()
    return job


def check_chapter(
    values: Mapping[str, object], own_types: Mapping[str, str], given: Iterable[str]
) -> Scenario:
    """Check every value of a chapter by name and build its job.

    Parameters
    ----------
    values : mapping
        The chapter's defaults with the given values over them.
    own_types : mapping
        Type names of the chapter's own parameters.
    given : iterable of str
        The names a person set for this run. Of the two MTBFs the one that was set wins over
        the other one's default; both set must agree.

    Returns
    -------
    Scenario

    Raises
    ------
    InputError
        For an unknown name or a refused value.
    """
    known = {*PARAMETERS, *own_types, SOURCES}
    for name, value in values.items():
        if name not in known and name not in _PAPERMILL_NAMES:
            raise unknown_name(name, known)
        if name in own_types:
            _check_own(name, value, own_types[name])
        elif name in PARAMETERS and PARAMETERS[name].type == "text" and not isinstance(value, str):
            raise PARAMETERS[name].refusal(value, f"is {kind_of(value)}, not a text ({_RAW_HINT})")
    check_sources(values.get(SOURCES))
    job = {name: value for name, value in values.items() if name in PARAMETERS}
    return scenario_from_mapping(_one_mtbf(job, frozenset(given)))


def _one_mtbf(job: dict[str, object], given: frozenset[str]) -> dict[str, object]:
    both = {"gpu_mtbf_h", "job_mtbf_h"}
    if not both <= job.keys() or job["job_mtbf_h"] is None:
        return job
    weaker = both - given if len(both & given) == 1 else set()
    if not both & given and job["gpu_mtbf_h"] == PARAMETERS["gpu_mtbf_h"].default:
        weaker = {"gpu_mtbf_h"}
    return {name: value for name, value in job.items() if name not in weaker}


def _check_own(name: str, value: object, type_name: str) -> None:
    types = _OWN_TYPES.get(type_name)
    if types is None:
        return
    numeric = type_name in ("int", "float")
    fits = isinstance(value, types) and not (numeric and is_true_or_false(value))
    if not fits:
        hint = f" ({_RAW_HINT})" if type_name == "str" else ""
        if numeric and isinstance(value, str):
            hint = number_hint(value)
        raise InputError(
            f"{name} = {shown(value)} is {kind_of(value)}, but must be of type {type_name}{hint}."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} = {shown(value)} is not a finite number, but must be one.")


def _is_own_parameter(name: str) -> bool:
    return name not in PARAMETERS and name != SOURCES and not name.startswith("_")


def _type_name(annotation: object) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return text.split("[")[0].strip("'\" ").lower()


def _is_plain(value: object) -> bool:
    plain = (numbers.Number, str, list, tuple, dict, datetime.date, type(None))
    return isinstance(value, plain) or is_true_or_false(value)


def _injected_names(history: object) -> frozenset[str]:
    """Names that papermill assigned, read off the cells that ran before.

    Papermill heads its cell with a comment and writes plain assignments, while a parameters
    cell annotates each of its own.
    """
    names: set[str] = set()
    for source in history if isinstance(history, list) else []:
        if isinstance(source, str) and source.startswith(_INJECTED):
            for statement in ast.parse(source).body:
                if isinstance(statement, ast.Assign):
                    names.update(t.id for t in statement.targets if isinstance(t, ast.Name))
    return frozenset(names)


def _enable_charts() -> None:
    from checkpoint_tax.report import charts

    charts.enable()


def declared_parameters(notebook: Path | str) -> ChapterParameters:
    """Read what a chapter's parameters cell declares, without running it.

    Parameters
    ----------
    notebook : pathlib.Path or str
        The chapter's ``.ipynb``.

    Returns
    -------
    ChapterParameters

    Raises
    ------
    InputError
        If the file is no notebook, has no cell tagged ``parameters``, or a default in it is
        not a plain value.
    """
    path = Path(notebook)
    content = read_notebook(path)
    if tagged_cell(content, PARAMETERS_TAG) is None:
        raise InputError(f"{path} has no cell tagged {PARAMETERS_TAG}, so it takes none.")
    defaults: dict[str, object] = {}
    own_types: dict[str, str] = {}
    for name, statement in declarations(content):
        if not isinstance(statement, ast.AnnAssign):
            continue
        try:
            defaults[name] = ast.literal_eval(statement.value) if statement.value else None
        except ValueError:
            raise InputError(f"{path}: the default of {name} is not a plain value.") from None
        if _is_own_parameter(name):
            own_types[name] = _type_name(ast.unparse(statement.annotation))
    return ChapterParameters(defaults=defaults, own_types=own_types)


def plain_value(name: str, value: object) -> object:
    """Convert a value to one that survives the way through papermill unchanged.

    Parameters
    ----------
    name : str
        Parameter name, for messages.
    value : object
        A Python or NumPy scalar, a date, a text, or a list or mapping of those.

    Returns
    -------
    object
        Plain Python; dates become ISO 8601 texts.

    Raises
    ------
    InputError
        For NaN, infinity, arrays and anything else that has no plain form.
    """
    if isinstance(value, datetime.date):  # a datetime and pandas' Timestamp are dates too
        return value.isoformat()
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        if type(value).__name__ == "datetime64":
            return str(value)
        item = value.item() if hasattr(value, "item") else value
        return plain_value(name, item)
    if isinstance(value, Mapping):
        return {str(key): plain_value(name, entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(name, entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        if name in PARAMETERS:
            PARAMETERS[name].check(value)
        raise InputError(f"{name} = {shown(value)} is not a finite number, but must be one.")
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    raise InputError(f"{name} is {kind_of(value)}, which a chapter cannot take as a parameter.")


def run_chapter(
    notebook: Path | str,
    output: Path | str,
    parameters: Mapping[str, object] | None = None,
    *,
    cwd: Path | str | None = None,
    progress: bool = False,
) -> Any:
    """Execute a chapter with other numbers, after checking all of them.

    Parameters
    ----------
    notebook : pathlib.Path or str
        The chapter's ``.ipynb``; it is not changed.
    output : pathlib.Path or str
        Where the executed notebook goes.
    parameters : mapping, optional
        Parameter name to value. NumPy scalars become Python ones, dates ISO texts; a text
        stays a text.
    cwd : pathlib.Path or str, optional
        Folder the chapter runs in; the present one if left out.
    progress : bool
        Show papermill's progress bar.

    Returns
    -------
    nbformat.NotebookNode
        The executed notebook.

    Raises
    ------
    InputError
        Before anything runs: an unknown name or a refused value.
    ChapterError
        If the chapter raised; names the chapter and the notebook's exception.
    """
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    chapter = Path(notebook)
    declared = declared_parameters(chapter)
    given = {name: plain_value(name, value) for name, value in (parameters or {}).items()}
    check_chapter({**declared.defaults, **given}, declared.own_types, given)
    try:
        return papermill.execute_notebook(
            str(chapter.resolve()).replace("{", "{{").replace("}", "}}"),
            str(Path(output).resolve()).replace("{", "{{").replace("}", "}}"),
            parameters=given,
            kernel_name="python3",
            progress_bar=progress,
            cwd=None if cwd is None else str(cwd),
        )
    except papermill.PapermillExecutionError as error:
        raise ChapterError(
            f"chapter {chapter.stem} failed with {error.ename}: {_one_line(error.evalue)}"
        ) from error
    except (DeadKernelError, CellTimeoutError) as error:
        raise ChapterError(f"chapter {chapter.stem} failed: {_one_line(str(error))}") from error


def _one_line(text: str) -> str:
    return " ".join(text.split())


def parameter_table(
    job: Scenario, sources: Mapping[str, Mapping[str, str]] | None = None
) -> "pd.DataFrame":
    """Every parameter of a job, for display.

    Parameters
    ----------
    job : Scenario
        The job.
    sources : mapping, optional
        Provenance of a parameter file: name to ``{"kind": ..., "source": ...}``. A value that
        differs from the default and has no entry is shown as set by the reader.

    Returns
    -------
    pandas.DataFrame
        Columns name, value, unit, meaning, kind, source; one row per parameter.

    Raises
    ------
    InputError
        If the provenance is malformed.
    """
    import pandas as pd

    known = check_sources(sources)
    rows = []
    for name, value in job.as_dict().items():
        parameter = PARAMETERS[name]
        origin = known.get(name)
        if name == "gpu_mtbf_h" and job.job_mtbf_h is not None:
            origin = {"kind": "derived", "source": "job_mtbf_h times n_gpus"}
        if origin is None and getattr(job, name) == parameter.default:
            origin = {"kind": parameter.kind, "source": parameter.default_source}
        elif origin is None:
            origin = {"kind": "set here", "source": "parameters of this run"}
        rows.append(
            {
                "name": name,
                "value": "not set" if value is None else value,
                "unit": parameter.unit,
                "meaning": parameter.meaning,
                **origin,
            }
        )
    return pd.DataFrame(rows, columns=["name", "value", "unit", "meaning", "kind", "source"])
