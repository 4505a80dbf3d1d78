"""The commands that build the book; the command line mounts them as ``checkpoint-tax book``."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from checkpoint_tax.errors import InputError
from checkpoint_tax.publish.chapters import BuildFailed, find_project
from checkpoint_tax.publish.pipeline import build, refresh

app = typer.Typer(
    name="book",
    help="Build the book.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_INTERRUPTED = 130

_Root = Annotated[
    Path | None, typer.Option("--root", help="Checkout to build in; found by itself if left out.")
]


_INTERRUPTED = 130


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn the ways a build can end into a sentence and an exit status."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except BuildFailed as error:
        print(f"\nThe book was not built.\n{error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        print("\nInterrupted; what was not finished counts as never done.", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None


@app.command("build")
def build_command(
    parameters: Annotated[
        str | None,
        typer.Option(
            help="Parameter file, or a preset's name; its book goes to book/_build/NAME/html."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Execute every chapter, however fresh.")
    ] = False,
    root: _Root = None,
) -> None:
    """Execute the chapters that are not fresh and build the static site."""
    with _explained():
        project = find_project(root)
        first_page = build(project, parameters or None, force=force)
        print(f"The book is at {project.shown(first_page)}")
        print(f"Open {first_page.as_uri()}")


@app.command("refresh")
def refresh_command(root: _Root = None) -> None:
    """Write fresh outputs into the committed notebooks, at the parameters they declare."""
    with _explained():
        project = find_project(root)
        for path in refresh(project):
            print(f"{project.shown(path)}: outputs written")


def main() -> int:
    """Run the commands with one line for a refused input.

    Returns
    -------
    int
        Exit status: 0, 1 for a failed build, 2 for a refused input, 130 if interrupted.
    """
    try:
        return int(app(standalone_mode=False) or 0)
    except InputError as error:
        print(f"checkpoint-tax: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is None:
            raise
        if usage():  # empty where typer has printed its help
            print(f"checkpoint-tax book: {usage()}", file=sys.stderr)
        return 2
