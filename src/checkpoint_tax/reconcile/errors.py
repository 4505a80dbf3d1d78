"""Why a reconciliation can be refused, one named error per reason."""

from checkpoint_tax.errors import InputError


class ReconcileError(InputError):
    """A capture window, or a way through it, that cannot be reconciled as asked."""


class BadUpdate(ReconcileError):
    """An update record whose numbers are out of range or of the wrong kind."""


class BadWindow(ReconcileError):
    """A window whose parts do not fit together: shapes, types, versions or sizes."""


class MissingUpdate(ReconcileError):
    """A gradient slice that the way to the target needs is not in the window."""


class StepMismatch(ReconcileError):
    """The step count kept in the state is not the one the update was made at."""


class AcrossFirstStep(ReconcileError):
    """A rollback past the first update: the state before it is the initial one."""


class NonFiniteState(ReconcileError):
    """An infinity or NaN in a captured state, in a shipped gradient or in a result."""


class SecondMomentLost(ReconcileError):
    """The second moment is negative, or cancels to nothing or less when rolled back."""


class NoInverse(ReconcileError):
    """The update is not one-to-one: hyper-parameters or a variant destroy the earlier state."""


class RollbackRefused(ReconcileError):
    """The error that a rollback can promise is larger than the tolerance asked for."""


class NoTarget(ReconcileError):
    """No version of the window can be reached by every shard."""
