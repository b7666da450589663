"""Parts of a module's state that its constructor leaves unwritten."""

from __future__ import annotations

from typing import Any

import torch

from cuassay.formats.kernelbench.unset import filled_memory, holds_nothing, unset_state


class _Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.unwritten = torch.nn.Parameter(torch.empty(4))
        self.written = torch.nn.Parameter(torch.empty(4).fill_(2.0))
        self.register_buffer("counts", torch.empty(3, dtype=torch.int64))
        half: Any = torch.empty(2)
        half[0] = 1.0
        self.register_buffer("partly", half)
        self.register_buffer("none", torch.empty(0))


def test_what_nobody_wrote_is_named_and_half_of_a_tensor_counts() -> None:
    assert unset_state(_Module, "torch.empty(4)") == ("unwritten", "counts", "partly")


def test_a_file_that_does_not_speak_of_empty_memory_builds_nothing() -> None:
    def build() -> object:
        raise AssertionError("not built")

    assert unset_state(build, "torch.zeros(4)") == ()


def test_settings_are_as_they_were_even_after_an_error() -> None:
    settings: Any = torch.utils.deterministic
    before = torch.get_deterministic_debug_mode(), settings.fill_uninitialized_memory
    try:
        with filled_memory():
            assert holds_nothing(torch.empty(8))
            assert holds_nothing(torch.empty(8, dtype=torch.int32))
            raise KeyError
    except KeyError:
        pass
    assert (torch.get_deterministic_debug_mode(), settings.fill_uninitialized_memory) == before


def test_written_numbers_are_no_filling() -> None:
    assert not holds_nothing(torch.tensor([float("nan"), 1.0]))
    assert not holds_nothing(torch.zeros(2, dtype=torch.bool))
    assert not holds_nothing(torch.tensor([1, 2]))
