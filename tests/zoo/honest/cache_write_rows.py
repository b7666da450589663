"""Rows that have a slot are picked first, then written."""


def run(rows, cache, slot_mapping):
    kept = slot_mapping >= 0
    after = cache.clone()
    after[slot_mapping[kept]] = rows[kept]
    return after
