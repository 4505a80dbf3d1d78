"""The rooms of the package: who may import whom, held by import-linter and by reading the code."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "src" / "checkpoint_tax"
SETTINGS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
SOURCES = sorted(PACKAGE.rglob("*.py"))
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "misc", "common"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def users_of(library: str) -> set[str]:
    return {
        room(path) for path in SOURCES if any(i.split(".")[0] == library for i in imports(path))
    }


def test_every_import_goes_down(tmp_path):
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_stands_in_the_layers():
    (layers,) = [
        contract["layers"]
        for contract in SETTINGS["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    named = {name.strip(" ()") for layer in layers for name in layer.replace("|", ":").split(":")}
    rooms = {room(path) for path in SOURCES} - {"__init__", "__main__"}
    assert rooms <= named


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("numba", {"compilation", "reconcile"}),
        ("altair", {"report", "studies"}),
        ("papermill", {"publish"}),
        ("doit", {"publish"}),
        ("sphinx", {"publish"}),
    ],
)
def test_a_library_is_known_to_its_room_only(library, allowed):
    assert users_of(library) <= allowed


def test_only_report_styles_frames():
    styled = {
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"style", "Styler"}
    }
    assert {Path(name).parts[0] for name in styled} <= {"report"}, styled


def test_names_say_what_a_module_holds():
    vague = [path for path in SOURCES if path.stem in FORBIDDEN_NAMES]
    assert not vague


def test_asking_for_help_imports_nothing_slow():
    """A build with nothing to do and ``--help`` must answer at once."""
    code = (
        "import sys, checkpoint_tax.publish.pipeline, checkpoint_tax.publish.commands;"
        "print([m for m in ('numba', 'pandas', 'altair', 'papermill', 'sphinx', 'nbformat',"
        " 'vl_convert') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
