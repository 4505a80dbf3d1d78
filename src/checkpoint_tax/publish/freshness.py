"""When a result is still true: fingerprints of everything that a chapter or the site is made of.

Contents are hashed, never times: a file restored with its old time stamp must not revive an old
result. A fingerprint is kept part by part, so that a build can say why it does something.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checkpoint_tax.publish.chapters import Chapter, Project, source_of

Fingerprint = dict[str, Any]

_NOT_SOURCE = {".pyc", ".nbi", ".nbc"}


def digest(*parts: bytes) -> str:
    """Short SHA-256 of some bytes.

    Parameters
    ----------
    *parts : bytes

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()[:32]


def file_digest(path: Path) -> str:
    """Digest of a file's content, or of the names in a folder; "absent" if neither exists.

    Parameters
    ----------
    path : pathlib.Path

    Returns
    -------
    str
    """
    if path.is_dir():
        return digest(*(entry.name.encode() for entry in sorted(path.iterdir())))
    try:
        return digest(path.read_bytes())
    except FileNotFoundError:
        return "absent"


def tree_digest(folder: Path, *, leave_out: Iterable[Path] = ()) -> str:
    """Digest of every file below a folder, names and contents.

    Parameters
    ----------
    folder : pathlib.Path
        May be missing, which is the same as empty.
    leave_out : iterable of pathlib.Path
        Folders below it that do not count.

    Returns
    -------
    str
    """
    skipped = tuple(leave_out)
    parts: list[bytes] = []
    for path in sorted(folder.rglob("*")):
        hidden = any(piece in {"__pycache__", ".ipynb_checkpoints"} for piece in path.parts)
        if hidden or path.suffix in _NOT_SOURCE or any(map(path.is_relative_to, skipped)):
            continue
        if path.is_file():
            parts += [str(path.relative_to(folder)).encode(), path.read_bytes()]
    return digest(*parts)


def notebook_digest(notebook: Mapping[str, Any]) -> str:
    """Digest of what a notebook asks for, without what it answered.

    Parameters
    ----------
    notebook : mapping

    Returns
    -------
    str
        Unchanged by outputs, execution counts and cell identifiers.
    """
    cells = [
        [
            cell["cell_type"],
            source_of(cell),
            cell.get("metadata", {}),
            cell.get("attachments", {}),
        ]
        for cell in notebook["cells"]
    ]
    return digest(json.dumps(cells, sort_keys=True).encode())


def surroundings(project: Project) -> Fingerprint:
    """The part of a fingerprint that all chapters share.

    Parameters
    ----------
    project : Project

    Returns
    -------
    dict
        Digests of the package, the data and the environment.
    """
    return {
        "package": tree_digest(project.package),
        "data": tree_digest(project.data),
        "environment": digest(
            file_digest(project.lock).encode(), platform.python_version().encode()
        ),
    }


def chapter_fingerprint(
    chapter: Chapter, parameters: Mapping[str, object], shared: Fingerprint
) -> Fingerprint:
    """Everything that a chapter's result depends on, known before it runs.

    Parameters
    ----------
    chapter : Chapter
    parameters : mapping
        The values that will be injected, and no others.
    shared : dict
        From :func:`surroundings`.

    Returns
    -------
    dict
        Plain JSON.
    """
    return {
        "notebook": notebook_digest(chapter.notebook),
        "parameters": {name: repr(value) for name, value in sorted(parameters.items())},
        **shared,
    }


def differences(old: Fingerprint | None, new: Fingerprint) -> str:
    """Why a result with one fingerprint does not serve for another, in words.

    Parameters
    ----------
    old : dict or None
        None where there is no result.
    new : dict

    Returns
    -------
    str
        Empty if the two are the same.
    """
    if old is None:
        return "never executed"
    reasons = []
    for part in sorted({*old, *new}):
        before, after = old.get(part), new.get(part)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            names = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
            reasons.append(", ".join(names) + " changed")
        else:
            reasons.append(f"{part} changed")
    return "; ".join(reasons)
