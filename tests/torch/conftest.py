"""Where PyTorch is not installed, nothing here is collected; ``make test-torch`` installs it."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


def pytest_report_header() -> str | None:
    """Say so."""
    if collect_ignore_glob:
        return "PyTorch is not installed: tests/torch is left out (make test-torch runs it)"
    return None
