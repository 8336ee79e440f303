"""The errors a user may see. Each message says what, the value seen, what is allowed, and what to do next.

They are caught once, in `attribution.cli.main`, and printed without a traceback.  `assert` is for our own mistakes only.
"""


class AttrError(Exception):
    """Base of all errors that this package raises on purpose; `exit_code` is the process's."""

    exit_code = 1


class InputError(AttrError):
    """What the user asked for is not possible: a variant, flag, shape, knob or option (exit 2)."""

    exit_code = 2


class BuildError(AttrError):
    """A kernel source did not compile, or its build has a fact that makes it unusable."""


class MeasureError(AttrError):
    """A measurement could not be made, or its output was wrong."""


class DataError(AttrError):
    """A recording or a profiler file cannot be trusted: damaged, incomplete, inconsistent or of an unknown kind."""
