"""The command `lockstep`: that of the wheel, of the installation or of the checkout's build."""

from __future__ import annotations

import os
import sys


def command() -> str | None:
    """The path of the command that came with this package."""
    here = os.path.dirname(os.path.abspath(__file__))
    above = os.path.join(here, "..", "..", "..")
    for path in (
        os.path.join(here, "bin", "lockstep"),
        os.path.join(above, "build", "lockstep"),
        os.path.join(above, "..", "bin", "lockstep"),
    ):
        if os.access(path, os.X_OK):
            return os.path.normpath(path)
    return None


def main() -> None:
    path = command()
    if path is None:
        sys.exit("lockstep: this package came without the command; install it from a wheel")
    os.execv(path, ["lockstep", *sys.argv[1:]])


if __name__ == "__main__":
    main()
