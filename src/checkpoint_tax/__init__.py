"""How a large training job should save its state, and what failing costs it."""

from importlib.metadata import PackageNotFoundError, version

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import (
    PARAMETERS,
    SaveCycle,
    Scenario,
    load_scenario,
    save_cycle,
    scenario_from_mapping,
)

try:
    __version__ = version("checkpoint-tax")
except PackageNotFoundError:  # imported from a source tree that nobody installed
    __version__ = "0+unknown"

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
