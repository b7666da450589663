"""Makes a fork of `apart` look like a process that a user started, for calls as in production.

All other processes of a candidate have few variables, one null device as standard input and
flags of a program that is given as text. A kernel that is right where it finds those, and wrong
elsewhere, is wrong here. Imported in that fork alone, and forgotten before anything is loaded.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys

import torch

from cuassay.sandbox import syscalls as kernel

_PLACES = ("/srv", "/mnt", "/media")  # which every Linux has for what a system serves or attaches
_OURS = ("PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "GLIBC_TUNABLES")
_FLAGS: dict[str, object] = {"safe_path": False, "dont_write_bytecode": 0, "utf8_mode": 0}
_PROGRAM = "main.py"
_LEAST_THREADS = 2


def move(folder: str) -> str:
    """Return where this process finds a folder that lies among temporary files: elsewhere.

    Needs a mount namespace of its own. What stays, where no standard place is empty.
    """
    for place in _PLACES:
        try:
            if os.listdir(place):
                continue
            kernel.cover(place)
            own = os.path.join(place, "app")
            os.mkdir(own)
            kernel.bind(folder, own)
        except OSError:
            continue
        return own
    return folder


def put_on(folder: str) -> None:
    """Change what tells this process from one that runs a program in `folder` from a shell."""
    for name in _OURS:
        os.environ.pop(name, None)
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container without an entry for its user
        user = "user"
    own = {"USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "TERM": "xterm-256color"}
    own |= {"LANG": "C.UTF-8", "SHLVL": "1", "_": sys.orig_argv[0]} | dict(os.environ)
    os.environ.update(own | {"PWD": folder})
    program = os.path.join(folder, _PROGRAM)
    sys.argv[:] = [program]
    sys.orig_argv[1:] = [program]
    sys.modules["__main__"].__file__ = program
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = False
    names = type(sys.flags).__match_args__
    for name, value in _FLAGS.items():
        if name in names:  # safe_path since Python 3.11
            python = ctypes.pythonapi
            python.Py_IncRef(ctypes.py_object(value))  # which the next call takes
            python.PyStructSequence_SetItem(
                ctypes.py_object(sys.flags),
                ctypes.c_ssize_t(names.index(name)),
                ctypes.py_object(value),
            )
    torch.set_num_threads(max(_LEAST_THREADS, torch.get_num_threads()))
