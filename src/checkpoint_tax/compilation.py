"""How kernels are compiled: cached on disk where a folder can be written, in memory elsewhere.

Numba looks for a place beside the source file, then in the user's cache folder, and raises at
decoration time when neither can be written (a read-only install run by a user without a home).
A library must not fail at import for want of a cache, so that case falls back to a folder of the
user's in the system's temporary directory, and to no cache at all when even that is refused.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config

__all__ = ["kernel"]


def _fallback_folder() -> Path | None:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    folder = Path(tempfile.gettempdir()) / f"checkpoint-tax-numba-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        owned = folder.stat().st_uid == os.getuid() if hasattr(os, "getuid") else True
    except OSError:
        return None
    # Compiled code is executed when loaded: a folder someone else made is not ours to trust.
    return folder if owned and os.access(folder, os.W_OK) else None


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel: no Python objects, no GIL, cached on disk when that is possible.

    Floating point keeps IEEE order (no ``fastmath``), so a kernel gives the same bits whatever
    vector width the machine has; ``error_model="numpy"`` only drops the zero-division check.

    Parameters
    ----------
    function : callable
        A function in Numba's nopython subset.

    Returns
    -------
    callable
        The compiled dispatcher.
    """
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        pass
    folder = _fallback_folder()
    if folder is not None:
        config.CACHE_DIR = str(folder)
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:
            pass
    return numba.njit(**options)(function)
