"""The build of the book as a graph of tasks: chapters first, two at a time, then the site.

doit decides nothing about freshness here beyond asking: each task compares fingerprints of
contents (:mod:`checkpoint_tax.publish.freshness`) with those kept inside its own result, so
there is no separate record that could disagree with the files it speaks of.
"""

import contextlib
import fcntl
import functools
import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkpoint_tax.errors import InputError
from checkpoint_tax.publish import execution, static_site
from checkpoint_tax.publish.chapters import (
    SOURCES,
    BuildFailed,
    Chapter,
    Project,
    book_name,
    read_chapters,
    read_notebook,
    write_notebook,
)
from checkpoint_tax.publish.freshness import (
    Fingerprint,
    chapter_fingerprint,
    differences,
    digest,
    file_digest,
    surroundings,
    tree_digest,
)
from checkpoint_tax.publish.picture import PICTURE, PICTURED_CHAPTER, first_chart, picture
from checkpoint_tax.scenario import read_parameters

RECORD_KEY = "checkpoint_tax"
_SITE_RECORD = ".built-from.json"
_CHAPTERS_AT_A_TIME = 2

Executor = Callable[..., tuple[str, ...] | None]
SiteBuilder = Callable[[Project, tuple[Chapter, ...], str], None]


@dataclass(frozen=True)
class Request:
    """What a build was asked for.

    Attributes
    ----------
    project : Project
    values : mapping
        Parameter values to inject; empty for the default book.
    sources : mapping
        Their provenance, by parameter name.
    label : str
        What the book is for, as its first page says.
    """

    project: Project
    values: Mapping[str, object]
    sources: Mapping[str, Mapping[str, str]]
    label: str

    def injected(self, chapter: Chapter) -> dict[str, object]:
        """Values for one chapter: those it declares, so that no other can make it stale.

        Parameters
        ----------
        chapter : Chapter

        Returns
        -------
        dict
        """
        declared = [name for name in chapter.declared if name in self.values]
        injected: dict[str, object] = {name: self.values[name] for name in declared}
        known = {name: dict(self.sources[name]) for name in declared if name in self.sources}
        return {**injected, SOURCES: known} if known else injected


def read_request(project: Project, parameters: str | None) -> Request:
    """Find out what to build.

    Parameters
    ----------
    project : Project
    parameters : str or None
        A parameter file or a preset's name; None for the default book.

    Returns
    -------
    Request

    Raises
    ------
    InputError
        For a file that is missing, wrong or badly named, before anything is executed.
    """
    if parameters is None:
        return Request(project, {}, {}, "the parameters written in the chapters")
    named = replace(project, name=book_name(parameters))
    try:
        content = read_parameters(parameters)
        content.scenario()
    except InputError:
        retire_site(named)  # it shows values that the file no longer holds
        raise
    return Request(named, content.values, content.sources, Path(parameters).name)


class Build:
    """One build of one book: fingerprints, tasks and the processes it started.

    Parameters
    ----------
    request : Request
    force : bool
        Execute everything, however fresh.
    executor : callable
        As :func:`checkpoint_tax.publish.execution.execute`.
    site_builder : callable
        Given project, chapters and label; leaves the site in ``project.html``.
    """

    def __init__(
        self,
        request: Request,
        *,
        force: bool,
        executor: Executor,
        site_builder: SiteBuilder,
    ) -> None:
        self.request = request
        self.project = request.project
        self.force = force
        self.executor = executor
        self.site_builder = site_builder
        self.chapters = read_chapters(self.project)
        self.shared = surroundings(self.project)
        self.failures: list[str] = []
        self.worked = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopping = False
        self._guard = threading.Lock()

    # Chapters

    def executed_path(self, chapter: Chapter) -> Path:
        """Where the executed chapter lies.

        Parameters
        ----------
        chapter : Chapter

        Returns
        -------
        pathlib.Path
        """
        return self.project.executed / f"{chapter.name}.ipynb"

    def fingerprint(self, chapter: Chapter) -> Fingerprint:
        """What the chapter's result must have been made from.

        Parameters
        ----------
        chapter : Chapter

        Returns
        -------
        dict
        """
        return chapter_fingerprint(chapter, self.request.injected(chapter), self.shared)

    def why_stale(self, chapter: Chapter) -> str:
        """Why the chapter has to be executed.

        Parameters
        ----------
        chapter : Chapter

        Returns
        -------
        str
            Empty if its executed notebook is fresh.
        """
        if self.force:
            return "forced"
        record = _record_of(self.executed_path(chapter))
        if record is None:
            return differences(None, {})
        reasons = [differences(record["inputs"], self.fingerprint(chapter))]
        reasons += [
            f"{path} changed"
            for path, known in record["reads"].items()
            if file_digest(self.project.root / path) != known
        ]
        return "; ".join(reason for reason in reasons if reason)

    def execute(self, chapter: Chapter) -> None:
        """Execute a chapter and keep the result only if it is complete and still true.

        Parameters
        ----------
        chapter : Chapter

        Raises
        ------
        ChapterFailed
            If it raises, or if something it depends on was edited meanwhile.
        """
        self._begin()
        reason = self.why_stale(chapter)
        print(f"{chapter.name}: executing ({reason})", flush=True)
        before = time.monotonic()
        fingerprint = self.fingerprint(chapter)
        attempt = self.project.state / f"{chapter.name}.unfinished.ipynb"
        reads = self.executor(
            self.project,
            chapter,
            self.request.injected(chapter),
            attempt,
            started=self._remember,
        )
        current = Chapter(chapter.name, chapter.path, read_notebook(chapter.path))
        after = chapter_fingerprint(
            current, self.request.injected(current), surroundings(self.project)
        )
        if after != fingerprint:
            changed = differences(fingerprint, after)
            raise execution.ChapterFailed(
                execution.Failure(chapter.name, f"{changed} while it was executed; build again")
            )
        notebook = read_notebook(attempt)
        notebook["metadata"][RECORD_KEY] = {
            "inputs": fingerprint,
            "reads": self._read_digests(reads),
        }
        target = self.executed_path(chapter)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_notebook(notebook, target)
        attempt.unlink()
        print(f"{chapter.name}: done in {time.monotonic() - before:.1f} s", flush=True)

    def _read_digests(self, reads: tuple[str, ...] | None) -> dict[str, str]:
        presets = self.project.presets
        paths = (
            [presets, *presets.glob("*.yaml")] if reads is None else [Path(path) for path in reads]
        )
        return {self.project.shown(path): file_digest(path) for path in sorted(paths)}

    # Site

    def site_fingerprint(self) -> Fingerprint:
        """What the site must have been made from.

        Returns
        -------
        dict
        """
        return {
            "pages": tree_digest(
                self.project.book, leave_out=[self.project.book / "_build", self.project.presets]
            ),
            "chapters": digest(
                *(file_digest(self.executed_path(chapter)).encode() for chapter in self.chapters)
            ),
            "label": self.request.label,
            **self.shared,
        }

    def site_is_fresh(self) -> bool:
        """Whether the site shows exactly the present chapters and pages.

        Returns
        -------
        bool
        """
        record = self.project.html / _SITE_RECORD
        if self.force or not (self.project.html / "index.html").is_file() or not record.is_file():
            return False
        return bool(json.loads(record.read_text(encoding="utf-8")) == self.site_fingerprint())

    def build_site(self) -> None:
        """Build the site from the executed chapters.

        Raises
        ------
        BuildFailed
            If jupyter-book refuses a page.
        """
        self._begin()
        before = time.monotonic()
        print("site: building", flush=True)
        fingerprint = self.site_fingerprint()
        self.site_builder(self.project, self.chapters, self.request.label)
        record = self.project.html / _SITE_RECORD
        record.write_text(json.dumps(fingerprint), encoding="utf-8")
        shutil.rmtree(self.project.outdated, ignore_errors=True)
        print(f"site: done in {time.monotonic() - before:.1f} s", flush=True)

    # Tasks

    def tasks(self) -> Iterator[dict[str, Any]]:
        """The graph, in doit's terms.

        Yields
        ------
        dict
            One task per chapter, then the site.
        """
        for chapter in self.chapters:
            yield {
                "basename": f"chapter {chapter.name}",
                "actions": [(self._attempt, [functools.partial(self.execute, chapter)])],
                "uptodate": [functools.partial(self._chapter_is_fresh, chapter)],
                "io": {"capture": False},  # doit would swap sys.stdout under both threads
            }
        yield {
            "basename": "site",
            "actions": [(self._attempt, [self.build_site])],
            "uptodate": [self._site_is_fresh],
            "task_dep": [f"chapter {chapter.name}" for chapter in self.chapters],
            "io": {"capture": False},
        }

    def _chapter_is_fresh(self, chapter: Chapter) -> bool:
        return not self.why_stale(chapter)

    def _site_is_fresh(self) -> bool:
        return self.site_is_fresh()

    def _attempt(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except (execution.ChapterFailed, BuildFailed, InputError) as error:
            if not self._stopping:
                self.failures.append(str(error))
                print(str(error).splitlines()[0], flush=True)
            return False
        return True

    def _begin(self) -> None:
        with self._guard:
            self.worked = True
            retire_site(self.project)

    def _remember(self, process: subprocess.Popen[bytes]) -> None:
        with self._guard:
            self._processes.append(process)
            stopping = self._stopping
        if stopping:
            process.terminate()

    def stop(self) -> None:
        """End what still runs: an interrupted build leaves no kernel behind."""
        with self._guard:
            self._stopping = True
            running = [process for process in self._processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGINT)  # lets papermill shut its kernel down
        for process in running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()


def _record_of(executed: Path) -> dict[str, Any] | None:
    try:
        record = read_notebook(executed)["metadata"].get(RECORD_KEY)
    except InputError:
        return None  # missing or cut short: as good as never executed
    return record if isinstance(record, dict) else None


def retire_site(project: Project) -> None:
    """Move the present site out of the way, so that nobody takes it for the new one.

    Parameters
    ----------
    project : Project
    """
    if project.html.exists():
        shutil.rmtree(project.outdated, ignore_errors=True)
        project.html.rename(project.outdated)


@contextlib.contextmanager
def _only_build(project: Project) -> Iterator[None]:
    """Two builds in one checkout would overwrite each other's files: the second waits."""
    top = project.book / "_build"
    top.mkdir(parents=True, exist_ok=True)
    with (top / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another build in this checkout to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run_tasks(build: Build, *, only_chapters: bool = False) -> int:
    from doit.cmd_base import ModuleTaskLoader
    from doit.doit_cmd import DoitMain
    from doit.exceptions import TaskFailed, UnmetDependency
    from doit.reporter import ZeroReporter

    class TasksSpeak(ZeroReporter):
        """doit's reporter: the tasks speak for themselves, in the book's words."""

        def add_failure(self, task: Any, fail: Any) -> None:
            if not isinstance(fail, TaskFailed | UnmetDependency):
                build.failures.append(f"{task.name}: {fail.get_msg()}")

        def runtime_error(self, message: str) -> None:
            build.failures.append(message)

    build.project.state.mkdir(parents=True, exist_ok=True)
    settings = {
        "reporter": TasksSpeak,
        "backend": "json",
        "dep_file": str(build.project.state / "tasks.json"),
        "continue": True,
        "num_process": _CHAPTERS_AT_A_TIME,
        "par_type": "thread",
    }
    loader = ModuleTaskLoader({"DOIT_CONFIG": settings, "task_book": build.tasks})
    chapters = [task["basename"] for task in build.tasks() if task["basename"] != "site"]
    selected = chapters if only_chapters else ["site"]
    return int(DoitMain(loader, config_filenames=()).run(["run", *selected])) if selected else 0


def build(
    project: Project,
    parameters: str | None = None,
    *,
    force: bool = False,
    executor: Executor = execution.execute,
    site_builder: SiteBuilder | None = None,
) -> Path:
    """Build a book, doing only what is not fresh.

    Parameters
    ----------
    project : Project
    parameters : str, optional
        Parameter file or preset; the book then goes into a folder of the file's name.
    force : bool, optional
        Execute and build everything.
    executor, site_builder : callable, optional
        What executes a chapter and builds the site.

    Returns
    -------
    pathlib.Path
        The first page of the site.

    Raises
    ------
    InputError
        For a refused parameter file.
    BuildFailed
        If a chapter raises or a page is refused; no site is left that could be taken for the
        present one.
    """
    if site_builder is None:
        site_builder = static_site.build_site
    with _only_build(project):
        request = read_request(project, parameters)
        work = Build(request, force=force, executor=executor, site_builder=site_builder)
        try:
            status = _run_tasks(work)
        except BaseException:
            work.stop()
            retire_site(work.project)
            raise
        if status or work.failures:
            retire_site(work.project)
            messages = work.failures or [f"the build ended with status {status}"]
            raise BuildFailed("\n".join(messages))
        if not work.worked:
            print("Nothing to do: the book is up to date.", flush=True)
    return work.project.html / "index.html"


def refresh(project: Project) -> tuple[Path, ...]:
    """Write the outputs of fresh executions into the committed notebooks.

    Parameters
    ----------
    project : Project

    Returns
    -------
    tuple of pathlib.Path
        The files that changed: notebooks, and the picture of the README. Cells, metadata and
        identifiers stay as they are; no time of execution is stored.

    Raises
    ------
    BuildFailed
        If a chapter raises; then no notebook is touched.
    """
    with _only_build(project):
        work = Build(
            read_request(project, None),
            force=False,
            executor=execution.execute,
            site_builder=lambda *_: None,
        )
        _run_tasks(work, only_chapters=True)
        if work.failures:
            raise BuildFailed("\n".join(work.failures))
        changed = []
        for chapter in work.chapters:
            refreshed = with_outputs(chapter.notebook, read_notebook(work.executed_path(chapter)))
            if refreshed != chapter.notebook:
                write_notebook(refreshed, chapter.path)
                changed.append(chapter.path)
            if chapter.name == PICTURED_CHAPTER:
                shown = picture(first_chart(refreshed))
                target = project.root / PICTURE
                if not target.exists() or target.read_text("utf-8") != shown:
                    target.write_text(shown, "utf-8")
                    changed.append(target)
    return tuple(changed)


def with_outputs(notebook: Mapping[str, Any], executed: Mapping[str, Any]) -> dict[str, Any]:
    """A notebook with the outputs of its execution and nothing else of it.

    Parameters
    ----------
    notebook, executed : mapping
        The same chapter, as committed and as executed without injected parameters.

    Returns
    -------
    dict
    """
    cells = []
    for cell, ran in zip(notebook["cells"], executed["cells"], strict=True):
        if cell["cell_type"] == "code":
            cell = {**cell, "outputs": ran["outputs"], "execution_count": ran["execution_count"]}
        cells.append(cell)
    return {**notebook, "cells": cells}
