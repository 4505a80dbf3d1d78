"""Sphinx extension: keeps the pages from asking other hosts for scripts.

jupyter-book always loads ``sphinx_thebe``, whose script comes from a content delivery network
and raises an error on each page without it. Its handlers are dropped before any of them runs;
taking its scripts out of the finished pages does not work, since later handlers put them back.
"""

from typing import Any

from sphinx.application import Sphinx

_UNWANTED = "sphinx_thebe"


def drop_thebe(app: Sphinx) -> None:
    """Disconnect every handler of the unwanted extension.

    Parameters
    ----------
    app : sphinx.application.Sphinx
    """
    for listeners in list(app.events.listeners.values()):
        for listener in list(listeners):
            if str(listener.handler.__module__).partition(".")[0] == _UNWANTED:
                app.disconnect(listener.id)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension.

    Parameters
    ----------
    app : sphinx.application.Sphinx

    Returns
    -------
    dict
    """
    app.connect("builder-inited", drop_thebe, priority=0)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
