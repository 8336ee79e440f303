"""`python -m attribution` is the same program as `attr`, whose name Debian's extended-attributes tool also has."""

from attribution.cli import main

main()
