"""Entry of the judge process. Torch's libraries load while it imports what needs none of them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from pathlib import Path


def open_libraries() -> None:
    """Let the system load torch's libraries, in a thread.

    That is a third of its import, and Python's own way to load them lets no other thread go on.
    What fails here fails there again.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        return
    library = str(Path(found.origin).parent / "lib" / "libtorch.so").encode()
    opened = ctypes.CDLL(None).dlopen
    threading.Thread(target=opened, args=(library, os.RTLD_NOW), daemon=True).start()


if __name__ == "__main__":
    open_libraries()
    from cuassay.judge.entry import main

    # Everything is closed by now; taking torch and CUDA apart would cost the user half a second.
    os._exit(main())
