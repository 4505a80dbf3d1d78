"""IPython extension: notes which files of one folder a kernel reads.

Presets are both: the parameters of a book, and data for a chapter that puts published jobs on a
map. A chapter is re-executed when a preset changes that it read, and only then; that cannot be
known beforehand, so the kernel writes it down.
"""

import os
import sys
from pathlib import Path
from typing import Any

WATCHED_VARIABLE = "CHECKPOINT_TAX_WATCHED_FOLDER"
RECORD_VARIABLE = "CHECKPOINT_TAX_READS_RECORD"

_EVENTS = frozenset({"open", "os.listdir", "os.scandir"})


def load_ipython_extension(shell: Any) -> None:
    """Start noting reads; called by IPython when the kernel starts.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
        Not used.
    """
    watched = os.path.realpath(os.environ[WATCHED_VARIABLE])
    record = Path(os.environ[RECORD_VARIABLE])
    seen: set[str] = set()
    record.touch()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path in seen or not (path == watched or path.startswith(watched + os.sep)):
            return
        seen.add(path)
        with record.open("a", encoding="utf-8") as lines:
            lines.write(path + "\n")

    sys.addaudithook(note)
