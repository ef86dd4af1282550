"""The command line: one file per command, options in, a call, words out.

Heavy libraries are imported inside the commands, so that `folt --help` answers at once.
"""

from folt.cli.application import app, main, run

__all__ = ["app", "main", "run"]
