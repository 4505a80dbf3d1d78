"""What papermill loads by itself: presets by name, and no base-60 numbers.

Papermill loads every entry point of the group ``papermill.io`` as soon as it is imported, so
this module is at work in a plain ``papermill`` call too, where nothing else of this package
runs before the notebook starts. It does two things:

- registers the scheme ``preset://``, so that ``papermill -f preset://post-16k.yaml`` reads a preset
  wherever it is installed;
- makes papermill's own YAML loader refuse ``15:00``, which it would pass on as 900. Once the
  number is injected nobody can tell it from a 900 that was typed; this is the only place
  where the trap can be closed for ``-f`` and ``-y``.

Importing it without papermill does nothing to papermill.
"""

import sys
from typing import Any

import yaml

from checkpoint_tax.errors import InputError
from checkpoint_tax.resources import parameters_path, presets
from checkpoint_tax.scenario.files import FLOAT_TAG, INT_TAG, refuse_surprising_number

SCHEME = "preset://"


class PresetHandler:
    """Papermill's reader for ``preset://NAME``; it only reads."""

    @classmethod
    def read(cls, path: str) -> str:
        """Text of a preset.

        Parameters
        ----------
        path : str
            ``preset://NAME.yaml``; without the ending papermill warns, and reads it.

        Returns
        -------
        str
            The preset's YAML.

        Raises
        ------
        InputError
            If no preset has this name.
        """
        return parameters_path(path.removeprefix(SCHEME)).read_text(encoding="utf-8")

    @classmethod
    def listdir(cls, path: str) -> list[str]:
        """Addresses of all presets.

        Parameters
        ----------
        path : str
            Ignored; there is one folder.

        Returns
        -------
        list of str
        """
        return [f"{SCHEME}{name}" for name in presets()]

    @classmethod
    def write(cls, buf: str, path: str) -> None:
        """Refuse to write.

        Parameters
        ----------
        buf : str
            Text that papermill wants to write.
        path : str
            Where to.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError(f"{path} can only be read: presets ship with the study.")

    @classmethod
    def pretty_path(cls, path: str) -> str:
        """Path for papermill's log.

        Parameters
        ----------
        path : str
            ``preset://NAME``.

        Returns
        -------
        str
        """
        return path


def guard(loader: type[Any]) -> None:
    """Make one YAML loader class refuse numbers that YAML 1.1 reads in an unexpected base.

    Parameters
    ----------
    loader : type
        A subclass of ``yaml.SafeLoader``. PyYAML copies its table of constructors on the first
        change, so the classes above it stay as they are.
    """

    def read_int(self: Any, node: yaml.ScalarNode) -> int:
        refuse_surprising_number(self, node)
        return int(self.construct_yaml_int(node))

    def read_float(self: Any, node: yaml.ScalarNode) -> float:
        refuse_surprising_number(self, node)
        return float(self.construct_yaml_float(node))

    loader.add_constructor(INT_TAG, read_int)
    loader.add_constructor(FLOAT_TAG, read_float)


def guard_papermill() -> None:
    """Guard papermill's parameter files, if papermill is in use.

    The module is half imported at this time when papermill itself asks for the entry point;
    the loader class is already defined then.
    """
    reader = getattr(sys.modules.get("papermill.iorw"), "NoDatesSafeLoader", None)
    if reader is not None:
        guard(reader)


guard_papermill()
