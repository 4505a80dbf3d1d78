"""Executes one chapter through papermill, in a process of its own.

Its own process, because two chapters run side by side, a kernel that dies must not take the
build along, and papermill with its imports costs a second that a build with nothing to do
should not pay.
"""

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint_tax.publish import file_reads
from checkpoint_tax.publish.chapters import Chapter, Project, read_notebook
from checkpoint_tax.publish.freshness import digest

_SECONDS_TO_START = 120
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"^File (?P<path>.+?):(?P<line>\d+)(?:, in (?P<function>[^(\s]+))?", re.M)
_SHOWN_ERROR_LINES = 6


@dataclass(frozen=True)
class Failure:
    """Why a chapter could not be executed.

    Attributes
    ----------
    chapter : str
    error : str
        The exception with its message.
    cell : int or None
        Number of the failing cell, counted from 1 over all cells as the notebook shows them.
    code : str
        Its first line of code.
    place : str
        Where the exception was raised, empty if in the cell itself.
    """

    chapter: str
    error: str
    cell: int | None = None
    code: str = ""
    place: str = ""

    def __str__(self) -> str:
        head = f"Chapter {self.chapter} failed"
        lines = [head + (f" in cell {self.cell}:" if self.cell else ":")]
        lines += ["    " + line for line in self.error.splitlines()[:_SHOWN_ERROR_LINES]]
        if self.code:
            lines.append(f"    while running: {self.code}")
        if self.place:
            lines.append(f"    raised at: {self.place}")
        return "\n".join(lines)


def kernel_environment(project: Project) -> dict[str, str]:
    """Environment of a kernel: this checkout's caches and no settings of the user's.

    Parameters
    ----------
    project : Project

    Returns
    -------
    dict
        The current environment with caches below ``.cache``. Compiled kernels get a folder per
        version of their sources: Numba's own cache misses a change in a function that another
        module's function calls, and would go on giving the old result.
    """
    cache = project.root / ".cache"
    simulator = (project.package / "simulate").glob("*.py")
    replay = (project.package / "reconcile").glob("*kernels.py")
    sources = sorted([*simulator, *replay])
    compiled = digest(*(path.read_bytes() for path in [*sources, project.lock] if path.is_file()))
    return {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache / "numba" / compiled[:12]),
        "IPYTHONDIR": str(cache / "ipython"),
        "JUPYTER_CONFIG_DIR": str(cache / "jupyter"),
        "JUPYTER_DATA_DIR": str(cache / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def execute(
    project: Project,
    chapter: Chapter,
    parameters: Mapping[str, object],
    output: Path,
    *,
    started: Callable[[subprocess.Popen[bytes]], None] = lambda process: None,
) -> tuple[str, ...] | None:
    """Execute a chapter from its first cell to its last.

    Parameters
    ----------
    project : Project
    chapter : Chapter
    parameters : mapping
        Injected after the parameters cell.
    output : pathlib.Path
        Where papermill writes the executed notebook, complete or not. The committed notebook
        is only read.
    started : callable, optional
        Told the process, so that an interrupted build can end it.

    Returns
    -------
    tuple of str or None
        Files of the presets' folder that the kernel read; None if it could not be observed.

    Raises
    ------
    ChapterFailed
        If a cell raises or the kernel dies.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    request, result, reads, log = (
        output.with_name(f"{output.name}.{kind}") for kind in ("request", "result", "reads", "log")
    )
    for path in (output, result, reads):
        path.unlink(missing_ok=True)
    request.write_text(
        json.dumps(
            {
                "chapter": chapter.name,
                "input": str(chapter.path),
                "output": str(output),
                "parameters": dict(parameters),
                "folder": str(project.book),
                "result": str(result),
            }
        ),
        encoding="utf-8",
    )
    environment = kernel_environment(project)
    Path(environment["IPYTHONDIR"]).mkdir(parents=True, exist_ok=True)
    with log.open("w") as messages:  # of papermill and the kernel about themselves
        process = subprocess.Popen(
            [sys.executable, "-m", "checkpoint_tax.publish.execution", str(request)],
            env={
                **environment,
                file_reads.WATCHED_VARIABLE: str(project.presets),
                file_reads.RECORD_VARIABLE: str(reads),
            },
            stderr=messages,
        )
        started(process)
        status = process.wait()
    request.unlink(missing_ok=True)
    failure = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else None
    observed = tuple(reads.read_text(encoding="utf-8").splitlines()) if reads.is_file() else None
    for path in (result, reads):
        path.unlink(missing_ok=True)
    if status or failure:
        if failure:
            raise ChapterFailed(Failure(**failure))
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise ChapterFailed(
            Failure(chapter.name, "\n".join([f"its process ended with status {status}", *last]))
        )
    log.unlink()
    return observed


class ChapterFailed(Exception):
    """A chapter raised.

    Parameters
    ----------
    failure : Failure
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def _where(traceback: list[str]) -> str:
    frames = list(_FRAME.finditer(_ESCAPES.sub("", "\n".join(traceback))))
    if not frames:
        return ""
    last = frames[-1]
    function = f" in {last['function']}" if last["function"] else ""
    return f"{last['path']}:{last['line']}{function}"


def _run(request: Mapping[str, Any]) -> Failure | None:
    import papermill
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from papermill.engines import NBClientEngine, papermill_engines
    from papermill.exceptions import PapermillException, PapermillExecutionError

    name = str(request["chapter"])

    class ReportingEngine(NBClientEngine):
        """Papermill's engine, with one line of progress per code cell."""

        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
            start = nb_man.cell_start
            total = sum(cell.cell_type == "code" for cell in nb_man.nb.cells)
            count = iter(range(1, total + 1))

            def report(cell: Any, *arguments: Any, **more: Any) -> None:
                if cell.cell_type == "code":
                    print(f"  {name}: cell {next(count)} of {total}", flush=True)
                start(cell, *arguments, **more)

            nb_man.cell_start = report
            return super().execute_managed_notebook(nb_man, kernel_name, **options)

    logging.getLogger("papermill").setLevel(logging.ERROR)
    papermill_engines.register("reporting", ReportingEngine)
    try:
        papermill.execute_notebook(
            request["input"],
            request["output"],
            parameters=request["parameters"],
            engine_name="reporting",
            kernel_name="python3",
            progress_bar=False,
            start_timeout=_SECONDS_TO_START,
            cwd=request["folder"],
            extra_arguments=["--IPKernelApp.extra_extensions=checkpoint_tax.publish.file_reads"],
        )
    except PapermillExecutionError as error:
        source = error.source.strip().splitlines()
        place = _where(error.traceback)
        return Failure(
            name,
            f"{error.ename}: {error.evalue}",
            _cell_number(request, error.source, error.cell_index),
            source[0] if source else "",
            "" if "Cell" in place or "ipykernel" in place else place,
        )
    except DeadKernelError:
        return Failure(name, "the kernel died (out of memory, or killed)")
    except (PapermillException, CellExecutionError, OSError, ValueError) as error:
        return Failure(name, f"{type(error).__name__}: {error}")
    return None


def _cell_number(request: Mapping[str, Any], source: str, index: int) -> int:
    """Number of a cell in the notebook as committed: papermill adds cells of its own."""
    from checkpoint_tax.publish.chapters import source_of

    cells = read_notebook(Path(request["input"]))["cells"]
    same = [number for number, cell in enumerate(cells, 1) if source_of(cell) == source]
    return same[0] if same else index + 1


def main(arguments: list[str]) -> int:
    """Entry point of the process that executes one chapter.

    Parameters
    ----------
    arguments : list of str
        Path of the request that :func:`execute` wrote.

    Returns
    -------
    int
        Exit status.
    """
    # The build stops its chapters by this signal; a build that a script started in the background
    # ignores it and would hand that down, leaving a kernel behind.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        failure = _run(request)
    except KeyboardInterrupt:
        return 130
    if failure:
        Path(request["result"]).write_text(json.dumps(vars(failure)), encoding="utf-8")
    return 1 if failure else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
