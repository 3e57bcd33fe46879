"""``eunomia`` and ``python -m eunomia``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it in one word, too."""
    try:
        from eunomia.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("eunomia: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
