"""Attribution: which mechanism sets a GPU kernel's time, answered by controlled intervention.

Importing it touches no GPU, no environment and no disk, and loads no heavy library.
"""

from attribution.errors import AttrError, BuildError, DataError, InputError, MeasureError

__all__ = ["AttrError", "BuildError", "DataError", "InputError", "MeasureError"]
__version__ = "0.1.0"
