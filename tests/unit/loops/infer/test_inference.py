"""Decoding: the paged cache is right, planted bugs are seen, twins are not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cuassay.errors import UsageError
from cuassay.model.device import CPU
from cuassay.model.loop import LoopSettings
from cuassay.model.verdict import Decision
from cuassay_loops import sites
from cuassay_loops.infer import lengthening
from cuassay_loops.infer.decoding import LogitTally, forced, same_bits
from cuassay_loops.infer.inference import infer
from cuassay_loops.infer.paged import exact_logits, prefill
from cuassay_loops.kernels import Kernel, KernelFault
from cuassay_loops.report import infer_page, infer_words
from cuassay_loops.results import InferReport
from cuassay_loops.train import trained
from tests.support import loops


@pytest.fixture(autouse=True)
def _untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixed weights spare the training of a checkpoint."""
    monkeypatch.setattr(trained, "weights", lambda *given, **more: loops.micro().state_dict())


def _infer(site: str, kernel: Kernel, *, tokens: int = 40, longest: int = 128) -> InferReport:
    return infer(
        LoopSettings(site=site, sequences=3, tokens=tokens, longest=longest),
        site=sites.find_site(site),
        kernel=kernel,
        preset=loops.MICRO,
        device=CPU,
        digest="",
        seed=4,
        say=lambda text: None,
    )


def _sequences() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(0, 300, (length,), generator=generator) for length in (37, 20, 33)]


def test_decode_and_prefill_give_what_float64_gives() -> None:
    model = loops.micro("fp32")
    sequences = _sequences()
    met = 0
    for step in forced({"it": model}, sequences, poison=1e30, seed=1):
        for index, (row, at) in enumerate(zip(step.rows, step.positions, strict=True)):
            exact = exact_logits(model, sequences[row])
            torch.testing.assert_close(
                step.logits["it"][index].double(), exact[at], rtol=1e-4, atol=1e-4
            )
            met += 1
    assert met == sum(map(len, sequences))
    whole = prefill(model, sequences[0]).double()
    torch.testing.assert_close(whole, exact_logits(model, sequences[0]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("attention_decode", "page_off_by_one"),
        ("rope_neox", "position_offset_ignored"),
        ("attention", "attention_stale_max"),
    ],
)
def test_bugs_are_rejected_and_twins_accepted(site: str, name: str) -> None:
    found = _infer(site, loops.zoo_kernel(site, name), tokens=72)
    assert found.decision is Decision.REJECTED, found.reason
    twin = _infer(site, loops.zoo_kernel(site, name, folder="twins"))
    assert twin.decision is Decision.ACCEPTED, twin.reason
    assert twin.quality["kernel"].kl < 1e-3
    assert all(told.agreed for told in twin.generations)


def test_state_that_leaks_between_sequences_is_seen() -> None:
    """A kernel whose answers change once it was called often."""
    plain = loops.zoo_kernel("attention_decode", "page_off_by_one", folder="twins")
    calls: list[int] = []

    def kernel(values: object) -> tuple[torch.Tensor, ...]:
        calls.append(1)
        (out,) = plain(values)  # type: ignore[arg-type]
        return (out * (1.0 + 2**-5 * (len(calls) > 60)),)

    found = _infer("attention_decode", kernel)
    assert found.decision is Decision.REJECTED
    assert "decoded again" in found.reason


def test_a_kernel_that_fails_while_decoding_is_rejected() -> None:
    def kernel(values: object) -> tuple[torch.Tensor, ...]:
        raise KernelFault("it died of SIGSEGV")

    found = _infer("attention_decode", kernel)
    assert (found.decision, found.failure) == (Decision.REJECTED, "it died of SIGSEGV")


def test_long_contexts_show_what_short_ones_do_not() -> None:
    plain = loops.zoo_kernel("attention_decode", "page_off_by_one", folder="twins")

    def kernel(values: object) -> tuple[torch.Tensor, ...]:
        (out,) = plain(values)  # type: ignore[arg-type]
        table = values[3]  # type: ignore[index]
        return (out * (1.0 if table.shape[1] < 8 else 1.05),)

    ops = loops.micro("bf16").ops
    sizes = {"kv_heads": 1, "group": 2, "dim": 8, "seed": 3}
    short = lengthening.measure_lengths(kernel, ops, longest=64, **sizes)
    assert short.wrong == []
    longer = lengthening.measure_lengths(kernel, ops, longest=256, **sizes)
    assert "over 128 tokens and more" in longer.wrong[0]
    assert longer.slope is not None
    assert longer.slope_trusted is not None
    assert longer.slope > longer.slope_trusted + 0.3


@pytest.mark.parametrize(
    ("job", "site", "message"),
    [
        (
            LoopSettings(site=""),
            "rmsnorm_backward",
            "use `cuassay loop train --site rmsnorm_backward`",
        ),
        (LoopSettings(site="", sequences=1), "rmsnorm", "--sequences 1 is out of range"),
        (LoopSettings(site="", tokens=5000), "rmsnorm", "--tokens 5000 is out of range"),
    ],
)
def test_mistakes_are_said(job: LoopSettings, site: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        infer(
            job,
            site=sites.find_site(site),
            kernel=loops.zoo_kernel("rmsnorm", "eps_outside_root", folder="twins"),
            preset=loops.MICRO,
            device=CPU,
            digest="",
            seed=4,
            say=lambda text: None,
        )


def test_the_report_is_told_in_every_form(tmp_path: Path) -> None:
    found = _infer("rmsnorm", loops.zoo_kernel("rmsnorm", "eps_outside_root", folder="twins"))
    document = infer_words.document(found)
    assert document["schema"] == "cuassay/infer/1"
    assert set(document["quality"]) >= {"trusted prefill", "trusted", "twin", "kernel"}
    assert any("generation" in line for line in infer_words.lines(found))
    assert infer_words.markdown(found).startswith("# ACCEPTED")
    page = infer_page.page(found)
    assert page.count("<svg") == 1
    assert "<script>" not in page


def test_equal_logits_have_no_divergence_and_nan_equals_nan() -> None:
    tally = LogitTally()
    logits = torch.randn(20, dtype=torch.float64)
    assert tally.add(logits, logits, 3) == pytest.approx(0.0, abs=1e-12)
    assert (tally.quality().top1, tally.quality().top5) == (1.0, 1.0)
    nan = [torch.tensor([float("nan"), 1.0])]
    assert same_bits(nan, [nan[0].clone()])
    assert not same_bits(nan, [torch.zeros(2)])
