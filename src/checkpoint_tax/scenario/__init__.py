"""Validated parameters of a job, the files they come from, and its save cycle."""

from checkpoint_tax.scenario.files import (
    ParameterFile,
    load_scenario,
    parse_parameters,
    read_parameters,
)
from checkpoint_tax.scenario.job import (
    PARAMETERS,
    Scenario,
    drain_tax_from_throughput_loss,
    scenario_from_mapping,
)
from checkpoint_tax.scenario.parameters import KINDS, Kind, Parameter
from checkpoint_tax.scenario.saves import SaveCycle, save_cycle
from checkpoint_tax.scenario.world import WORLD_PARAMETERS, Spread, World

__all__ = [
    "KINDS",
    "PARAMETERS",
    "WORLD_PARAMETERS",
    "Kind",
    "Parameter",
    "ParameterFile",
    "SaveCycle",
    "Scenario",
    "Spread",
    "World",
    "drain_tax_from_throughput_loss",
    "load_scenario",
    "parse_parameters",
    "read_parameters",
    "save_cycle",
    "scenario_from_mapping",
]
