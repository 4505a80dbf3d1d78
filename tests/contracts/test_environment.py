"""The three descriptions of the environment agree, and the lock names no place to download from."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")


EXTRAS = PROJECT["optional-dependencies"]
OUTSIDE = "torch"
"""The extra that is too large for everyone: it has an environment of its own."""


def declared() -> dict[str, SpecifierSet]:
    lists = [PROJECT["dependencies"], *(EXTRAS[name] for name in EXTRAS if name != OUTSIDE)]
    requirements = [Requirement(text) for entries in lists for text in entries]
    names = [canonicalize_name(requirement.name) for requirement in requirements]
    assert len(names) == len(set(names)), "a package is declared twice"
    return {canonicalize_name(r.name): r.specifier for r in requirements}


def locked() -> list[Requirement]:
    return [
        Requirement(line.rstrip("\\").strip())
        for line in LOCK.splitlines()
        if line and not line.startswith((" ", "#"))
    ]


def test_environment_yml_asks_for_what_pyproject_asks_for():
    environment = yaml.safe_load((CHECKOUT / "environment.yml").read_text(encoding="utf-8"))
    entries = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pip[-1] == "-e ."
    found = {
        canonicalize_name(r.name): r.specifier for r in map(Requirement, [*entries, *pip[:-1]])
    }
    assert found.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert found.pop("pip") == SpecifierSet()
    assert found == declared()
    assert environment["channels"] == ["conda-forge"]


def test_the_lock_pins_everything_declared_within_its_range():
    pins = {}
    for requirement in locked():
        pins.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    for name, specifier in declared().items():
        assert name in pins, f"{name} is declared but not locked"
        for pin in pins[name]:
            (version,) = (s.version for s in pin.specifier if s.operator == "==")
            assert version in specifier, (
                f"{name} is locked at {version}, but {specifier} is declared"
            )


def test_only_who_asks_for_pytorch_gets_it():
    (requirement,) = map(Requirement, EXTRAS[OUTSIDE])
    (pin,) = requirement.specifier
    assert (requirement.name, pin.operator) == ("torch", "==")
    names = {canonicalize_name(r.name) for r in locked()}
    heavy = {name for name in names if re.match(r"torch|nvidia|cuda|triton", name)}
    assert heavy == set()
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    assert "\n$(TORCH_STAMP): $(STAMP)\n" in makefile
    assert '-e ".[torch]"' in makefile
    assert str(pin) not in makefile


def test_every_locked_package_is_one_version_with_hashes():
    blocks = re.split(r"\n(?=\S)", LOCK.strip())
    packages = [block for block in blocks if not block.startswith("#")]
    assert len(packages) == len(locked()) > 100
    for block in packages:
        head = block.splitlines()[0]
        assert re.match(r"[A-Za-z0-9._-]+==\S+", head), head
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", block), head


def test_the_lock_holds_for_every_python_that_the_project_allows():
    allowed = SpecifierSet(PROJECT["requires-python"])
    minors = [f"3.{minor}" for minor in range(8, 20) if f"3.{minor}.5" in allowed]
    assert minors == ["3.11", "3.12", "3.13"]
    for minor in minors:
        environment = {
            **default_environment(),
            "python_version": minor,
            "python_full_version": f"{minor}.5",
        }
        names = [
            canonicalize_name(r.name)
            for r in locked()
            if r.marker is None or r.marker.evaluate(environment)
        ]
        assert len(names) == len(set(names)), f"two versions of a package on Python {minor}"
        assert set(declared()) <= set(names)


def test_no_file_of_the_environment_names_a_host():
    for name in ("requirements.lock", "pyproject.toml", "environment.yml", "Makefile", ".ci/run"):
        text = (CHECKOUT / name).read_text(encoding="utf-8")
        assert "://" not in text.replace('"preset://"', ""), f"{name} holds an address"
        assert not re.search(r"index-url|find-links|file:/|@ ?/", text), f"{name} holds a place"
        hosts = re.findall(r"\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev)\b", text)
        ours = {"papermill.io"}  # an entry point group, not a host
        assert set(hosts) <= ours, f"{name} names {hosts}"


def test_the_setup_stamp_depends_on_the_lock_and_the_project():
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    assert "\n$(STAMP): requirements.lock pyproject.toml\n" in makefile
