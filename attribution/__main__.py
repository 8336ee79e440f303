"""`python -m attribution` is the same program as `attr`, whose name Debian's extended-attributes tool also has."""

import sys


def main() -> None:
    """Entry point of both: Ctrl-C ends it with 130 and without a traceback, also while the command line is being loaded."""
    try:
        from attribution.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
