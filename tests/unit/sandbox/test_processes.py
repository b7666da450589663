"""Process trees as /proc shows them: who descends from whom, what is counted, and ending them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cuassay.sandbox import processes
from cuassay.sandbox.processes import Process, descendants

# A child starts one of its own and says its id; both wait for the end of their stdin.
_PARENT = """
import subprocess, sys
below = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=0)
held = bytearray(b"x") * {held}
print(below.pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def _tree(held: int = 1) -> Iterator[tuple[int, int]]:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _PARENT.format(held=held)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        below = int(parent.stdout.readline())
        try:
            yield parent.pid, below
        finally:
            processes.kill_group(parent.pid)


def _process(pid: int, parent: int) -> Process:
    return Process(pid=pid, parent=parent, group=1, state="S")


def test_what_descends_is_found_in_any_order_and_once() -> None:
    table = {one.pid: one for one in (_process(4, 3), _process(2, 1), _process(3, 2))}
    assert descendants([2], table) == {2, 3, 4}
    assert descendants([4], table) == {4}
    assert descendants([9], table) == set()  # not in the table
    table[2] = _process(2, 4)  # a ring, as ids that are used again may show
    assert descendants([3], table) == {2, 3, 4}


def test_a_tree_has_the_process_and_what_it_started() -> None:
    with _tree() as (parent, below):
        found = processes.below(parent)
        assert found.keys() == {parent, below}
        assert (found[below].parent, found[below].group) == (parent, parent)
        assert processes.visible_processes().keys() >= {parent, below}
        assert set(processes.live(parent)) == {parent, below}
    assert parent not in processes.below(os.getpid())


def test_memory_of_a_tree_counts_what_it_holds() -> None:
    held = 64 << 20
    with _tree(held) as (parent, _):
        count, size = processes.tree_size(parent)
        assert count == 2
        assert size > held
        assert processes.tree_bytes(parent) > held
    with _tree() as (parent, _):
        assert processes.tree_bytes(parent) < held


def test_of_a_process_that_is_gone_nothing_is_held() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as gone:
        gone.wait()
    held = processes.holding(gone.pid, calls=3, objects=5)
    assert (held.calls, held.threads, held.processes, held.files, held.host_bytes) == (
        3,
        0,
        0,
        0,
        0,
    )
    assert held.objects == 5
    assert processes.tree_size(gone.pid) == (0, 0)
    assert processes.family_use(gone.pid) == (0, True)  # nothing is known of it
    processes.kill(gone.pid)  # no error
    processes.kill_group(gone.pid)


def test_what_a_process_holds_is_counted() -> None:
    with _tree() as (parent, _):
        held = processes.holding(parent, calls=1)
        assert (held.threads, held.processes) == (1, 1)
        assert held.files >= 3
        assert held.host_bytes > 0


def test_a_family_counts_what_its_parent_started() -> None:
    with _tree() as (parent, below):
        table = processes.below(parent)
        ticks, _ = processes.family_use(below)
        assert ticks >= sum(one.ticks for one in table.values())
