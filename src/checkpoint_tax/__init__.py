"""How a large training job should save its state, and what failing costs it."""

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import (
    PARAMETERS,
    SaveCycle,
    Scenario,
    load_scenario,
    save_cycle,
    scenario_from_mapping,
)

__all__ = [
    "PARAMETERS",
    "InputError",
    "SaveCycle",
    "Scenario",
    "__version__",
    "load_scenario",
    "save_cycle",
    "scenario_from_mapping",
]


def __getattr__(name: str) -> str:
    # Looked up on demand: importlib.metadata costs more than the rest of this import.
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("checkpoint-tax")
    except PackageNotFoundError:  # imported from a source tree that nobody installed
        return "0+unknown"
