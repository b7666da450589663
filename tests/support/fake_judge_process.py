"""What `fake_judge` starts: Python alone, nothing of cuassay, ready in a hundredth of a second.

Arguments: what a judge says for each ending (see `fake_judge`) as JSON, and the descriptor that
it says it on. Jobs come on standard input, a line each; it takes the next one after a verdict. A
verdict notes the id of its process.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time


def _end_with_driver() -> None:
    driver = int(os.environ.get("CUASSAY_DRIVER", "0"))

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.05)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Answer jobs on the descriptor named by the last argument."""
    _end_with_driver()
    for text in sys.stdin:
        if not _answer(text):
            return
        os.write(int(sys.argv[-1]), b"\n")


def _answer(text: str) -> bool:
    """Answer a job; return whether that was a verdict."""
    says, job = json.loads(sys.argv[1]), json.loads(text)
    with open(job["candidate"], "rb") as file:
        candidate = file.read()
    first = candidate.decode().partition("\n")[0]
    stem = os.path.splitext(os.path.basename(job["candidate"]))[0]
    run = os.path.basename(job.get("run_dir", ""))

    def emit(event: object) -> None:
        os.write(int(sys.argv[-1]), json.dumps(event).encode() + b"\n")

    if job["type"] == "BuildJob":
        place = os.path.join(os.path.dirname(job["candidate"]), f"{stem}.built")
        with open(place, "w", encoding="utf-8") as built:
            built.write(os.environ["CUDA_VISIBLE_DEVICES"])
        emit(says["built"])
        return False
    common = {"profile": job["profile"], "seed": job["seed"] or 0, "run": run}
    emit(
        says["started"]
        | common
        | {
            "problem": job["problem"],
            "candidate": job["candidate"],
            "device": job["device"] or "cpu",
        }
    )
    if "# wait" in first:
        time.sleep(float(first.split()[2]))
    while "# until" in first and not os.path.exists(first.split()[2]):
        time.sleep(0.02)
    if "# die" in first:
        os.kill(os.getpid(), signal.SIGKILL)
    if "# unreadable" in first or "# stop" in first:
        emit(says["unreadable" if "# unreadable" in first else "stop"])
        return False
    said = says["rejected" if b"# reject" in candidate else "accepted"]
    said["verdict"] |= common | {
        "problem": os.path.basename(job["problem"]),
        "candidate": stem,
        "digest": hashlib.sha256(candidate).hexdigest(),
    }
    said["verdict"]["benchmark_rule"]["accepted"] = b"theirs" in candidate
    said["verdict"]["notes"] = [str(os.getpid())]
    emit(said)
    return True


if __name__ == "__main__":
    main()
