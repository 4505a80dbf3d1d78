"""Every public function says what it takes, gives and refuses, in numpydoc's form."""

import ast
import re
from pathlib import Path

import pytest
from numpydoc.validate import validate

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "src" / "checkpoint_tax"

# Summary, its form, parameters and what comes back. Left out: examples, "see also", extended
# summaries, and the order of words in a summary, which are for a person to judge.
CHECKS = {
    "GL03",  # blank lines
    "GL05",  # tabs
    "GL07",  # order of sections
    "GL08",  # no docstring
    "PR01",  # undocumented parameters
    "PR02",  # unknown parameters
    "PR03",  # wrong order of parameters
    "PR04",  # parameter without a type
    "RT01",  # nothing said of what is returned
    "YD01",  # nothing said of what is yielded
    "SS01",  # no summary
    "SS03",  # summary without a full stop
    "SS04",  # spaces before the summary
}


SUMMARY = {code for code in CHECKS if code[:2] in {"GL", "SS"}}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        name = ".".join(part for part in parts if part != "__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def is_public(node, kind):
    return isinstance(node, kind) and not node.name.startswith("_")


def is_internal(module):
    """Whether only the facade beside it calls the module: its functions are described there."""
    return module.endswith((".kernels", "_kernels"))


def is_command(node):
    """Whether typer makes a command of it: its options say themselves what they mean."""
    return any(
        isinstance(d, ast.Call) and isinstance(d.func, ast.Attribute) and d.func.attr == "command"
        for d in node.decorator_list
    )


def public_functions():
    """Dotted name and the checks that apply, for each public function and class."""
    found = []
    for module, tree in modules():
        for node in tree.body:
            if is_public(node, ast.FunctionDef):
                brief = is_command(node) or is_internal(module)
                found.append((f"{module}.{node.name}", SUMMARY if brief else CHECKS))
            if is_public(node, ast.ClassDef):
                found.append((f"{module}.{node.name}", SUMMARY))
                found += [
                    (f"{module}.{node.name}.{method.name}", CHECKS)
                    for method in node.body
                    if is_public(method, ast.FunctionDef)
                ]
    return found


def public_fields():
    """Dotted name of each data class and its fields."""
    return [
        (f"{module}.{node.name}", node)
        for module, tree in modules()
        for node in tree.body
        if is_public(node, ast.ClassDef)
        and any("dataclass" in ast.dump(decorator) for decorator in node.decorator_list)
    ]


def test_every_module_says_what_it_is_for():
    silent = [
        path.relative_to(CHECKOUT).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent


@pytest.mark.parametrize(
    ("name", "checks"), [pytest.param(*case, id=case[0]) for case in public_functions()]
)
def test_a_public_function_has_a_complete_docstring(name, checks):
    problems = [f"{code}: {text}" for code, text in validate(name)["errors"] if code in checks]
    assert not problems


@pytest.mark.parametrize(
    ("name", "node"), [pytest.param(*case, id=case[0]) for case in public_fields()]
)
def test_every_field_of_a_data_class_is_described(name, node):
    text = ast.get_docstring(node) or ""
    fields = [
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]
    missing = [f for f in fields if not f.startswith("_") and not re.search(rf"\b{f}\b", text)]
    assert not missing
