"""The runtime compiled by several processes: every function once, and no save torn by another."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import caching

from ptxsan.runtime import warming


def test_every_name_is_taken_once_by_some_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, helpers = warming._forked, list[int]()

    def forked(work: Callable[[], None]) -> int:
        helpers.append(fork(work))
        return helpers[-1]

    monkeypatch.setattr(warming, "_forked", forked)
    names = [f"n{number}" for number in range(60)]

    def compiled(name: str) -> None:
        with (tmp_path / str(os.getpid())).open("a") as file:
            file.write(f"{name}\n")

    warming.together(names, compiled, count=3)
    done = [line for file in tmp_path.iterdir() for line in file.read_text().split()]
    assert sorted(done) == sorted(names)
    assert len(helpers) == 2
    for helper in helpers:  # none is left
        with pytest.raises(ChildProcessError):
            os.waitpid(helper, os.WNOHANG)


def test_a_helper_that_fails_ends_and_the_caller_goes_on(tmp_path: Path) -> None:
    own = os.getpid()

    def compiled(name: str) -> None:
        if os.getpid() != own:
            os._exit(1)
        (tmp_path / name).touch()

    warming.together(["a", "b", "c"], compiled, count=3)
    assert len(list(tmp_path.iterdir())) <= 3


def _index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
    with warming.saving_in_turn():
        function: Any = numba.njit(cache=True)(lambda x: x)
    assert caching.IndexDataCacheFile is warming._Index
    return function._cache._cache_file


def test_signatures_saved_by_several_processes_keep_their_own_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = _index(tmp_path, monkeypatch)
    keys = [f"k{number}" for number in range(40)]
    warming.together(keys, lambda key: index.save(key, f"data of {key}"), count=3)
    assert [index.load(key) for key in keys] == [f"data of {key}" for key in keys]


def test_a_lock_that_cannot_be_had_costs_the_cache_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "_LOCK_S", 0.05)
    index = _index(tmp_path, monkeypatch)
    index.save("first", 1)
    (lock,) = tmp_path.rglob(".lock")
    holder = os.open(lock, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    index.save("second", 2)
    os.close(holder)
    assert (index.load("first"), index.load("second")) == (1, None)
