"""Replaces the sigmoid by a hard one: close near zero only."""


def run(gate, up):
    wide = gate.float()
    return (wide * (0.25 * wide + 0.5).clamp(0, 1) * up.float()).to(gate.dtype)
