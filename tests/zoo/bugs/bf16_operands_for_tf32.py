"""Rounds the operands to bfloat16, eight times as coarse as TF32."""


def run(a, b):
    return a.bfloat16().float() @ b.bfloat16().float()
