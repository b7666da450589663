"""GRPO on kernels with TRL: the reward is cuassay's verdict.

    pip install 'cuassay[cpu]' trl
    python examples/reward_trl.py Qwen/Qwen2.5-Coder-0.5B-Instruct

Each sample names its problem in the column `problem`. The policy hears one number a completion: the
stage that its kernel reached, never an input, a seed or a limit.
"""

from __future__ import annotations

import sys
from typing import Any

from cuassay.adapters.reward import KernelReward
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

PROMPT = (
    "Write kernel.py for the operator {problem}: a function run(x, weight, eps) that returns "
    "x * rsqrt(mean(x * x, last axis) + eps) * weight. Answer with one fenced block."
)


def trainer(model: Any, reward: KernelReward, **options: Any) -> GRPOTrainer:
    """Return a trainer of `model` on one problem; `options` are those of GRPOConfig."""
    names = ["rmsnorm"] * 8
    samples = [{"prompt": PROMPT.format(problem=name), "problem": name} for name in names]
    tokenizer = options.pop("processing_class", None)
    return GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=[reward],
        train_dataset=Dataset.from_list(samples),
        args=GRPOConfig(**options),
    )


if __name__ == "__main__":
    with KernelReward(shaped=True) as judged:
        trainer(sys.argv[1], judged, output_dir="out", num_generations=8).train()
