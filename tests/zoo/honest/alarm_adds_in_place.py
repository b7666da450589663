"""Adds in place and returns its input, exactly as the reference does."""


def run(x, residual):
    x.copy_(x.float() + residual.float())
    return x
