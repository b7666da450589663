"""Runs built programs in forks of one process that has the machine loaded.

Tests run hundreds of programs. Each starts a Python of its own else, and nine tenths of its time go
to imports and to loading the machine's runtime.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any


class ProgramServer:
    """One process, forked for each program; `run` is what `ptxsan.host.program` asks for."""

    STDOUT, TimeoutExpired = subprocess.STDOUT, subprocess.TimeoutExpired

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def run(
        self,
        command: Sequence[str],
        *,
        stdout: IO[bytes],
        timeout: float,
        cwd: Path | None,
        env: Mapping[str, str],
        **ignored: object,
    ) -> SimpleNamespace:
        """Serve the request that the command names; as `subprocess.run`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wish = {
            "request": command[-1], "output": stdout.name, "cwd": str(cwd or Path.cwd()),
            "env": dict(env),
        }  # fmt: skip
        self._process.stdin.write(json.dumps(wish) + "\n")
        pid = int(self._process.stdout.readline())
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            os.kill(pid, 9)
            self._process.stdout.readline()
            raise subprocess.TimeoutExpired(command, timeout)
        return SimpleNamespace(returncode=int(self._process.stdout.readline()))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve() -> None:
    from ptxsan import compile as compiler
    from ptxsan.emit import registry
    from ptxsan.host import program
    from ptxsan.runtime import symbols

    symbols.warm()
    registry.load_families()
    compiler.prepare()
    for line in sys.stdin:
        wish: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid:
            sys.stdout.write(f"{pid}\n")
            sys.stdout.flush()
            sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
            sys.stdout.flush()
            continue
        status = 1
        try:
            output = os.open(wish["output"], os.O_WRONLY | os.O_APPEND)
            for target in (1, 2):
                os.dup2(output, target)
            os.chdir(wish["cwd"])
            os.environ.update(wish["env"])
            status = program._serve(Path(wish["request"])) & 0xFF
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)


if __name__ == "__main__":
    _serve()
