"""Which optimizers can be reconciled: replayed shard by shard, undone, and with what error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from checkpoint_tax.reconcile.gate import Rollback, rollbacks
from checkpoint_tax.reconcile.optimizers.adam import Adam
from checkpoint_tax.reconcile.optimizers.adamw_post import AdamWPost
from checkpoint_tax.reconcile.optimizers.adamw_torch import AdamWTorch
from checkpoint_tax.reconcile.optimizers.lion import Lion
from checkpoint_tax.reconcile.optimizers.optimizer import Optimizer, state_arrays
from checkpoint_tax.reconcile.optimizers.sgd import SGD
from checkpoint_tax.reconcile.updates import Update


@dataclass(frozen=True)
class InverseError:
    """What undoing steps of one optimizer loses on a common stream of normal gradients.

    Attributes
    ----------
    steps_back : int
        Steps undone [steps].
    measured : dict of str to float
        Relative L2 error per array of the state.
    bounded : dict of str to float
        Relative L2 norm of the element-wise bounds: the error can never be larger.
    """

    steps_back: int
    measured: dict[str, float]
    bounded: dict[str, float]


@dataclass(frozen=True)
class OptimizerRow:
    """One row of the table.

    Attributes
    ----------
    name : str
        Optimizer.
    forward_exact : bool
        Whether a shard can be replayed from its own state and gradients, bit for bit.
    inverse_exists : bool
        Whether a shard's step can be undone from the same.
    inverse_error : tuple of InverseError
        Measured and bounded after 1 and 8 steps; empty where there is no inverse.
    why_not : str
        What stands in the way; empty where nothing does.
    """

    name: str
    forward_exact: bool
    inverse_exists: bool
    inverse_error: tuple[InverseError, ...]
    why_not: str


# Per optimizer the numbers of a usual run.
_SETTINGS: tuple[tuple[str, Optimizer[Any], dict[str, Any]], ...] = (
    ("AdamW, the post's form", AdamWPost(), {"weight_decay": 0.1}),
    ("AdamW, torch's form", AdamWTorch(), {"weight_decay": 0.1}),
    ("Adam", Adam(), {"weight_decay": 0.01}),
    ("SGD", SGD(), {"weight_decay": 0.01}),
    ("SGD with momentum", SGD(), {"momentum": 0.9, "weight_decay": 0.01}),
    ("SGD, Nesterov", SGD(), {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Lion", Lion(), {"betas": (0.9, 0.99), "weight_decay": 0.1}),
)

_NO: tuple[OptimizerRow, ...] = (
    OptimizerRow(
        "AdamW with amsgrad",
        True,
        False,
        (),
        "the running maximum of the second moment forgets the value that it replaced",
    ),
    OptimizerRow(
        "Muon",
        False,
        False,
        (),
        "the step is the orthogonal factor of the whole matrix of momenta, so a shard's replay"
        " needs the other shards' momenta at every version between, which they have left behind",
    ),
    OptimizerRow(
        "Shampoo",
        False,
        False,
        (),
        "the preconditioners sum over whole rows and columns, and their cached roots are a state"
        " that the statistics do not determine",
    ),
    OptimizerRow(
        "Adafactor",
        False,
        False,
        (),
        "row and column means of the squared gradient, and the clipping by the step's root mean"
        " square, take in the whole matrix",
    ),
    OptimizerRow(
        "8-bit Adam",
        True,
        False,
        (),
        "moments are rounded to 256 codes a block after each step, so many states lead to the same"
        " one; replay needs whole blocks",
    ),
)


def inverse_errors(
    optimizer: Optimizer[Any],
    settings: dict[str, Any],
    *,
    steps_back: tuple[int, ...] = (1, 8),
    warmup_steps: int = 30,
    size: int = 4096,
    seed: int = 0,
) -> tuple[InverseError, ...]:
    """Undo steps of an optimizer on normal gradients, against the true states.

    Parameters
    ----------
    optimizer : Optimizer
        One with an inverse.
    settings : dict
        Fields of `Update` other than gradient, step and lr.
    steps_back : tuple of int
        How far to go back [steps], at least 1 each and below ``warmup_steps``.
    warmup_steps : int
        Steps made before going back [steps].
    size : int
        Parameters.
    seed : int
        Of weights and gradients.

    Returns
    -------
    tuple of InverseError
        One per distance, in rising order.
    """
    rng = np.random.default_rng(seed)
    state = optimizer.init((0.02 * rng.standard_normal(size)).astype(np.float32))
    base = Update(np.zeros(size, dtype=np.float32), 1, 1e-3, **settings)
    truth, updates = [state], []
    for step in range(1, warmup_steps + 1):
        gradient = rng.standard_normal(size).astype(np.float32)
        updates.append(replace(base, gradient=gradient, step=step))
        state = optimizer.forward(state, updates[-1])
        truth.append(state)
    found: list[InverseError] = []
    undone = rollbacks(state, updates[::-1][: max(steps_back)], optimizer)
    for rollback in undone:
        if rollback.updates_undone in steps_back:
            true = truth[warmup_steps - rollback.updates_undone]
            found.append(_errors(rollback, true, optimizer))
    return tuple(found)


def _errors(rollback: Rollback[Any], true: Any, optimizer: Optimizer[Any]) -> InverseError:
    measured, bounded = {}, {}
    values = state_arrays(rollback.state)
    for name, exact in state_arrays(true).items():
        wide = exact.astype(np.float64)
        norm = float(np.linalg.norm(wide))
        if norm == 0:
            # A buffer that the optimizer does not use.
            continue
        measured[name] = float(np.linalg.norm(values[name].astype(np.float64) - wide)) / norm
        bounded[name] = float(np.linalg.norm(rollback.allowed_error[name])) / norm
    return InverseError(rollback.updates_undone, measured, bounded)


def optimizer_table() -> tuple[OptimizerRow, ...]:
    """The table of optimizers, with measured and bounded errors of each inverse.

    Returns
    -------
    tuple of OptimizerRow
        Those that can be reconciled first.
    """
    yes = tuple(
        OptimizerRow(name, True, True, inverse_errors(optimizer, settings), "")
        for name, optimizer, settings in _SETTINGS
    )
    return yes + _NO
