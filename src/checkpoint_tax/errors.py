"""Errors that more than one room raises."""


class InputError(ValueError):
    """An input that the study refuses.

    The message is one sentence that a person can act on: the parameter, the value it was
    given, the unit and what is allowed. The command line prints it on one line of standard
    error and exits with status 2.
    """
