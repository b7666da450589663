"""Adds three terms from the other end."""


def run(x):
    return x.float().flip(-1).cumsum(-1)[:, -1].to(x.dtype)
