"""Where the files that travel with the package lie.

In a checkout they are the folders a person edits, ``book/parameters`` and ``data``. A built
wheel carries copies under ``checkpoint_tax/_shared`` (see ``[tool.hatch]`` in
``pyproject.toml``). The installed copy is looked for first, so that a wheel never reads a
folder that happens to lie beside it.
"""

from pathlib import Path

from checkpoint_tax.errors import InputError

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_shared"
_CHECKOUT = _PACKAGE.parent.parent


def _folder(installed: str, checkout: str) -> Path:
    copy = _INSTALLED / installed
    return copy if copy.is_dir() else _CHECKOUT / checkout


def presets() -> tuple[str, ...]:
    """Names of the presets that ship with the study, in alphabetical order.

    Returns
    -------
    tuple of str
        File names without their ending, such as ``"post-16k"``.
    """
    return tuple(
        sorted(path.stem for path in _folder("parameters", "book/parameters").glob("*.yaml"))
    )


def parameters_path(name: str) -> Path:
    """File of one preset.

    Parameters
    ----------
    name : str
        One of :func:`presets`; the ending ``.yaml`` may be left out.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    InputError
        If no preset has this name.
    """
    known = presets()
    stem = name.removesuffix(".yaml")
    if stem not in known:
        raise InputError(f"preset {name!r} does not exist; the presets are {', '.join(known)}.")
    return _folder("parameters", "book/parameters") / f"{stem}.yaml"


def data_path(name: str) -> Path:
    """File of the study's data folder.

    Parameters
    ----------
    name : str
        Path inside ``data``, such as ``"claims.csv"``.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    InputError
        If the folder holds no such file.
    """
    folder = _folder("data", "data").resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise InputError(f"data file {name!r} does not exist in the study's data folder.")
    return path
