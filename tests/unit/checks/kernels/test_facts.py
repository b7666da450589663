"""What a worker says of kernels: hostile text, of which only what fits is taken."""

from __future__ import annotations

from cuassay.checks.kernels.facts import Code, RanKernel, cleaned_text, kernels_of


def test_facts_that_fit_become_kernels() -> None:
    found = kernels_of(
        {
            "ran add(float*)": "3 12.5 32 128 4096 87",
            "ran at::native::copy_kernel": "1 4 16 64 0 150",
            "code add(float*)": "32 0 1 16 8",
            "own add": "",
            "profiler": "no\x1b[31m access",
        }
    )
    assert found.ran[0] == RanKernel(
        name="add(float*)", count=3, took_us=12.5, registers=32, threads=128, shared_bytes=4096,
        occupancy=87,
    )  # fmt: skip
    assert found.ran[1].occupancy == 100
    assert found.code == (
        Code(name="add(float*)", registers=32, stack_bytes=0, local_accesses=1, widest_bytes=16,
             wide_accesses=8),
    )  # fmt: skip
    assert (found.own_us, found.all_us) == (12.5, 16.5)
    assert found.blind == "no[31m access"


def test_torchs_kernels_are_not_the_candidates_whatever_they_are_called() -> None:
    found = kernels_of({"own add": "", "own copy_kernel": ""})
    assert found.is_own("void add<float>(float*)")
    assert not found.is_own("at::native::copy_kernel")
    assert not found.is_own("madd")


def test_what_does_not_fit_is_left_out() -> None:
    found = kernels_of(
        {
            "ran few": "1 2 3",
            "ran words": "a b c d e f",
            "ran negative": "-1 2 3 4 5 6",
            "ran huge": "9999999999999999 1 1 1 1 1",
            "code odd": "1 2 3 4 nan",
            "own ": "",
            "other key": "1 2 3 4 5 6",
        }
    )
    assert (found.ran, found.code, found.own) == ((), (), frozenset())


def test_texts_are_cut_and_cleaned() -> None:
    assert cleaned_text("a\nb\x00c" + "d" * 300) == "abc" + "d" * 197
    assert len(cleaned_text("x" * 300, 100)) == 100
