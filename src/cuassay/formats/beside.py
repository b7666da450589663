"""Writes the problem and the candidate of a file that holds a kernel and its reference.

    python -m cuassay.formats.beside FILE KERNEL REFERENCE INPUTS

A process of its own, since it imports the file and with it torch. The last line of stdout is a
JSON object with the places of `problem` and `candidate`; a mistake is one line on stderr and exit
code 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from cuassay.errors import CuassayError
from cuassay.formats.calls import prepare
from cuassay.formats.modules import import_file


def main(arguments: Sequence[str]) -> int:
    """Write both and print their places; return the exit code."""
    file, kernel, reference, inputs = arguments
    try:
        module = vars(import_file(Path(file).expanduser()))
        problem, candidate = prepare(module[kernel], module[reference], module[inputs])
    except CuassayError as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        return 2
    sys.stdout.write("\n" + json.dumps({"problem": problem, "candidate": candidate}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
