"""The `folt` command and `python -m folt`: Ctrl-C is answered while the rest is imported, too."""

import os


def main() -> None:
    """Run the command line."""
    try:
        from folt.cli import main as run

        run()
    except KeyboardInterrupt:
        os.write(2, b"folt: interrupted, nothing was left half-written\n")
        os._exit(130)


if __name__ == "__main__":
    main()
