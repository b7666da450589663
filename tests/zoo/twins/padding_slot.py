"""Rows of the cache are written where a token has a slot."""


def run(rows, cache, slot_mapping):
    after = cache.clone()
    kept = slot_mapping >= 0
    after[slot_mapping[kept]] = rows[kept]
    return after
