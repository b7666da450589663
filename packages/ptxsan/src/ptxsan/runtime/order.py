"""What a thread knows of others: happens-before by barriers, warps, fences, strong accesses.

A release appends to the log of its variable (the address of the strong access): the time up to
which the whole block is covered, and the lanes of one warp beyond that. A strong read remembers how
far the log had come, and a fence behind it (or its own `.acquire`) up to where that counts as
acquired. Logs only grow, so what was acquired stays as it was.

Functions that say whether something is known return NOT, YES, or UNFENCED: a strong read saw the
release, but no fence of wide enough scope stands behind that read.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import entry_of, seen, seen_block, snapshot
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import (
    add_u32,
    copy_bytes,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

_NOBODY = 0xFFFFFFFF
_STEPS = 1 << 14
NOT, YES, UNFENCED = 0, 1, 2


@native
def knows(thread: int, block: int, launch: int, gid: int, clock: int) -> int:
    """Whether this thread knows what thread `gid` did at its time `clock`."""
    if gid == load_u32(thread + L.GID):
        return YES
    index = gid - load_u32(block + L.FIRST_GID)
    if 0 <= index < load_u32(block + L.BLOCK_THREADS):
        if clock < load_u32(thread + L.BASE):
            return YES
        own = load_u32(thread + L.TID)
        if index >> 5 == own >> 5 and load_u32(thread + L.KNOWN + 4 * (index & 31)) >= clock:
            return YES
    if seen(thread, block, launch, gid, clock):
        return YES
    return int(_acquired(thread, block, launch, gid, clock, 1))


@native
def knows_block(thread: int, block: int, launch: int, gid: int, clock: int) -> int:
    """Whether this thread knows everything of the block of `gid` up to time `clock`."""
    index = gid - load_u32(block + L.FIRST_GID)
    if 0 <= index < load_u32(block + L.BLOCK_THREADS) and clock < load_u32(thread + L.BASE):
        return YES
    if seen_block(thread, block, launch, gid, clock):
        return YES
    return int(_acquired(thread, block, launch, gid, clock, 0))


@native
def _acquired(thread: int, block: int, launch: int, gid: int, clock: int, lanes: int) -> int:
    """Whether a release that this thread saw covers an access."""
    if load_u32(block + L.KNOWS_ALL):
        return YES
    best = NOT
    for index in range(4 + load_u32(block + L.BLOCK_FAR)):
        place, fenced = thread + L.FAR + 8 * index, thread + L.FAR_FENCED + 8 * index
        if index >= 4:
            place = block + L.FAR_LIST + 8 * (index - 4)
            fenced = block + L.FAR_LIST_FENCED + 8 * (index - 4)
        if load_u32(place + 4) == 0:
            continue
        found = _through(block, launch, place, fenced, gid, clock, lanes)
        if found == YES:
            return YES
        best = max(best, found)
    return best


@native
def _through(
    block: int, launch: int, place: int, fenced: int, gid: int, clock: int, lanes: int
) -> int:
    """Whether what was seen of one variable covers an access."""
    version, counts = load_u32(place + 4), load_u32(fenced)
    first = load_u32(block + L.FIRST_GID)
    if first <= gid < first + load_u32(block + L.BLOCK_THREADS):
        counts = max(counts, load_u32(fenced + 4))
    found = NOT
    if counts != 0 and _covered(launch, block, counts, gid, clock, lanes, 0) > 0:
        found = YES
    elif counts != version and _covered(launch, block, version, gid, clock, lanes, 0) > 0:
        found = UNFENCED
    if found != NOT:
        slot = load_u64(launch + L.VARIABLES) + 16 * (load_u32(place) - 1)
        if load_u32(slot + 12):
            store_u32(launch + L.CHOSEN, 1)
    return found


@native
def _entry_covers(entry: int, owner: int, index: int, clock: int, lanes: int) -> bool:
    if load_u32(entry + L.E_BLOCK) != owner:
        return False
    if clock < load_u32(entry + L.E_BASE):
        return True
    if lanes == 0 or load_u32(entry + L.E_WARP) != index >> 5:
        return False
    return load_u32(entry + L.E_CLOCKS + 4 * (index & 31)) >= clock


@native
def _in_snapshot(entry: int, launch: int, threads: int, gid: int, clock: int) -> bool:
    """Whether the vector clock of a release covers an access by one thread or agent."""
    place = load_u64(entry + L.E_SNAPSHOT)
    if place == 1:
        return True
    index = entry_of(launch, threads, load_u32(entry + L.E_BLOCK), gid)
    return index >= 0 and load_u32(place + 4 * index) >= clock


@native
def _covered(
    launch: int, block: int, version: int, gid: int, clock: int, lanes: int, depth: int
) -> int:
    """Walk the log from a version backwards, and into the logs that its entries had acquired."""
    log = load_u64(launch + L.LOG)
    threads = load_u32(block + L.BLOCK_THREADS)
    owner, index = gid // threads, gid % threads
    outside = owner != load_u32(block + L.BLOCK_LINEAR)
    stack_0, stack_1, stack_2, stack_3 = version, 0, 0, 0
    lost = 0
    for _ in range(_STEPS):
        if stack_0 == 0:
            if stack_1 == 0:
                return lost
            stack_0, stack_1, stack_2, stack_3 = stack_1, stack_2, stack_3, 0
        entry = log + stack_0 * L.E_RECORD
        narrow = outside and load_u32(entry + L.E_SCOPE) == L.SCOPE_CTA
        if not narrow and _entry_covers(entry, owner, index, clock, lanes):
            return 1
        if load_u64(entry + L.E_SNAPSHOT) and _in_snapshot(entry, launch, threads, gid, clock):
            return 1
        for link in range(load_u32(entry + L.E_LINKS)):
            target = load_u32(entry + L.E_LINK + 4 * link)
            if target != 0 and target not in (stack_1, stack_2, stack_3):
                lost |= 1 if stack_3 != 0 else 0
                stack_3, stack_2, stack_1 = stack_2, stack_1, target
        if lost:
            store_u32(launch + L.LENIENT, 1)
        stack_0 = load_u32(entry + L.E_PREVIOUS)
    store_u32(launch + L.LENIENT, 1)  # too long a history to follow: no alarm without proof
    return 1


# ---- variables and their logs


@native
def _hash(key: int) -> int:
    """Spread a key; no product leaves 63 bits, since overflow of signed numbers is undefined."""
    folded = (key ^ (key >> 31)) & 0xFFFFFFFF
    return (folded * 0x45D9F3B) >> 13


@native
def slot_of(launch: int, key: int) -> int:
    """Return the record of a variable, made on first use; 0 if the table is full."""
    slots = load_u32(launch + L.VARIABLE_SLOTS)
    table = load_u64(launch + L.VARIABLES)
    place = _hash(key) & (slots - 1)
    for _ in range(slots):
        slot = table + 16 * place
        found = load_u64(slot)
        if found == key:
            return slot
        if found == 0:
            store_u64(slot, key)
            return slot
        place = (place + 1) & (slots - 1)
    store_u32(launch + L.OVERFLOW, 1)
    return 0


@native
def find_slot(launch: int, key: int) -> int:
    """Return the record of a synchronisation variable, or 0 where nobody released to it."""
    slots = load_u32(launch + L.VARIABLE_SLOTS)
    table = load_u64(launch + L.VARIABLES)
    place = _hash(key) & (slots - 1)
    while True:
        slot = table + 16 * place
        found = load_u64(slot)
        if found == key:
            return slot
        if found == 0:
            return 0
        place = (place + 1) & (slots - 1)


@native
def key_of(block: int, address: int) -> int:
    """Return the key of an address: shared memory is told apart by block."""
    if (address >> 56) & 255 == 1:
        return address ^ (load_u32(block + L.BLOCK_LINEAR) + 1) << 32
    return address


@native
def append(
    thread: int, block: int, launch: int, slot: int, base: int, clocks: int, follows: int,
    scope: int,
) -> None:  # fmt: skip
    """Append a release: the block up to `base`, and a warp's lanes as at address `clocks`.

    Variables whose logs say the same share their entries: the sums of a block, for example.
    """
    previous = load_u32(slot + 8) if follows else 0
    alike = clocks == 0 and scope != L.SCOPE_CTA and _acquired_nothing(thread, block)
    shared = _same_release(block, launch, previous, base) if alike else 0
    if shared:
        store_u32(slot + 8, shared)
        return
    number = add_u32(launch + L.LOG_COUNT, 1) + 1
    if number >= load_u32(launch + L.LOG_LIMIT):
        store_u32(launch + L.OVERFLOW, 1)
        return
    entry = load_u64(launch + L.LOG) + number * L.E_RECORD
    store_u32(entry + L.E_PREVIOUS, previous)
    store_u32(entry + L.E_BLOCK, load_u32(block + L.BLOCK_LINEAR))
    store_u32(entry + L.E_BASE, base)
    store_u32(entry + L.E_SCOPE, scope)
    store_u32(entry + L.E_WARP, _NOBODY)
    if clocks != 0:
        store_u32(entry + L.E_WARP, load_u32(thread + L.TID) >> 5)
        for lane in range(32):
            store_u32(entry + L.E_CLOCKS + 4 * lane, load_u32(clocks + 4 * lane))
    store_u64(entry + L.E_SNAPSHOT, snapshot(thread, block, launch))
    _link(thread, block, entry, load_u32(slot + 8))
    store_u32(slot + 8, number)
    if alike:
        store_u32(block + L.LAST_RELEASE, number)
        store_u32(block + L.LAST_RELEASE + 4, previous)


@native
def _acquired_nothing(thread: int, block: int) -> bool:
    """Whether a release of this thread would tell of its own block alone."""
    found = load_u64(thread + L.CLOCKS) != 0 or load_u32(block + L.BLOCK_FAR) != 0
    for index in range(4):
        found = found or load_u32(thread + L.FAR + 8 * index + 4) != 0
    return not found


@native
def _same_release(block: int, launch: int, previous: int, base: int) -> int:
    """Return the entry that says the same behind `previous`, or 0: that one, or the block's last.

    An entry of the same block up to the same BASE adds nothing behind another one.
    """
    last = block + L.LAST_RELEASE
    for number in (previous, load_u32(last)):
        entry = load_u64(launch + L.LOG) + number * L.E_RECORD
        if number != previous and load_u32(last + 4) != previous:
            return 0
        if (
            number != 0
            and load_u32(entry + L.E_BLOCK) == load_u32(block + L.BLOCK_LINEAR)
            and load_u32(entry + L.E_BASE) == base
            and load_u32(entry + L.E_WARP) == _NOBODY
            and load_u32(entry + L.E_SCOPE) != L.SCOPE_CTA
            and load_u32(entry + L.E_LINKS) == 0
            and load_u64(entry + L.E_SNAPSHOT) == 0
        ):
            return number
    return 0


@native
def _link(thread: int, block: int, entry: int, own: int) -> None:
    """Note in a release what the releasing thread had acquired itself."""
    count = 0
    for index in range(4):
        version = load_u32(thread + L.FAR + 8 * index + 4)
        if version != 0 and version != own:
            store_u32(entry + L.E_LINK + 4 * count, version)
            count += 1
    for index in range(min(load_u32(block + L.BLOCK_FAR), L.E_MOST_LINKS - count)):
        version = load_u32(block + L.FAR_LIST + 8 * index + 4)
        if version != 0 and version != own:
            store_u32(entry + L.E_LINK + 4 * count, version)
            count += 1
    store_u32(entry + L.E_LINKS, count)


@native
def release(
    thread: int, block: int, launch: int, key: int, full: int, follows: int, scope: int
) -> None:
    """Publish what this thread knows (`full`), or knew at its last fence, at a variable."""
    lane = load_u32(thread + L.TID) & 31
    if full:
        clock = load_u32(thread + L.CLOCK)
        store_u32(thread + L.KNOWN + 4 * lane, clock)
        slot = slot_of(launch, key)
        if slot:
            base = load_u32(thread + L.BASE)
            append(thread, block, launch, slot, base, thread + L.KNOWN, follows, scope)
        store_u32(thread + L.CLOCK, clock + 1)
        return
    _release_fenced(thread, block, launch, key, follows, scope)


@native
def _release_fenced(
    thread: int, block: int, launch: int, key: int, follows: int, scope: int
) -> None:
    fence, published = load_u32(thread + L.FENCE_BASE), load_u32(block + L.PUBLISHED)
    narrow = load_u32(thread + L.CTA_BASE)
    if (key >> 56) & 255 == 1 and load_u64(block + L.BLOCK_PEERS) == 0:
        published = 0  # shared memory: who can acquire there has passed the same barriers
    if fence == 0 and published == 0 and narrow == 0:
        if not follows:  # a store that publishes nothing ends what others had released here
            slot = find_slot(launch, key)
            if slot:
                store_u32(slot + 8, 0)
        return
    slot = slot_of(launch, key)
    if slot == 0:
        return
    if fence != 0 or published != 0:
        clocks = thread + L.FENCED if fence != 0 else 0
        base = max(fence, published)
        append(thread, block, launch, slot, base, clocks, follows, scope)
        follows = 1
    if narrow != 0:
        clocks = thread + L.CTA_FENCED
        append(thread, block, launch, slot, narrow, clocks, follows, L.SCOPE_CTA)


@native
def acquire(
    thread: int, block: int, launch: int, key: int, wide: int, narrow: int, updates: int
) -> None:
    """See what was released at a variable so far.

    `wide`, `narrow`: the access acquires by itself, from anybody or from its own block. `updates`:
    an atomic, so that who came first decided what it read.
    """
    store_u32(thread + L.PROXY_FRESH, 0)
    slot = find_slot(launch, key)
    if slot == 0:
        return
    version = load_u32(slot + 8)
    if version == 0:
        return
    if updates:
        store_u32(slot + 12, 1)
    name = (slot - load_u64(launch + L.VARIABLES)) // 16 + 1
    learn_in_thread(
        thread, block, launch, name, version, version if wide else 0, version if narrow else 0
    )


@native
def learn_in_thread(
    thread: int, block: int, launch: int, name: int, version: int, wide: int, narrow: int
) -> None:
    """Keep what a thread saw of a variable, and up to where fences have followed."""
    index = 0
    while index < 4 and load_u32(thread + L.FAR + 8 * index) not in (0, name):
        index += 1
    if index == 4:
        learn_in_block(block, launch, name, version, wide, narrow)
        return
    place = thread + L.FAR + 8 * index
    store_u32(place, name)
    _raise_far(place, thread + L.FAR_FENCED + 8 * index, version, wide, narrow)


@native
def _raise_far(place: int, fenced: int, version: int, wide: int, narrow: int) -> None:
    store_u32(place + 4, max(version, load_u32(place + 4)))
    store_u32(fenced, max(wide, load_u32(fenced)))
    store_u32(fenced + 4, max(narrow, load_u32(fenced + 4)))


@native
def learn_in_block(
    block: int, launch: int, name: int, version: int, wide: int, narrow: int
) -> None:
    """Give every thread of the block what one of them saw."""
    count = load_u32(block + L.BLOCK_FAR)
    for index in range(count):
        place = block + L.FAR_LIST + 8 * index
        if load_u32(place) == name:
            fenced = block + L.FAR_LIST_FENCED + 8 * index
            _raise_far(place, fenced, version, wide, narrow)
            return
    if count >= L.MOST_FAR:
        store_u32(block + L.KNOWS_ALL, 1)
        store_u32(launch + L.LENIENT, 1)
        return
    store_u32(block + L.FAR_LIST + 8 * count, name)
    store_u32(block + L.FAR_LIST + 8 * count + 4, version)
    store_u32(block + L.FAR_LIST_FENCED + 8 * count, wide)
    store_u32(block + L.FAR_LIST_FENCED + 8 * count + 4, narrow)
    store_u32(block + L.BLOCK_FAR, count + 1)


@native
def _fence_what_was_seen(thread: int, block: int, wide: int) -> None:
    """Let what strong reads of this thread, or its block's before a barrier, saw be acquired."""
    for index in range(4 + load_u32(block + L.BLOCK_FAR)):
        place, fenced = thread + L.FAR + 8 * index, thread + L.FAR_FENCED + 8 * index
        if index >= 4:
            place = block + L.FAR_LIST + 8 * (index - 4)
            fenced = block + L.FAR_LIST_FENCED + 8 * (index - 4)
        version = load_u32(place + 4)
        if version != 0:
            store_u32(fenced + 4, version)
            if wide:
                store_u32(fenced, version)


@export("void(int64, int64, int64, int64, int64)")
def rt_synchronise(thread: int, block: int, launch: int, address: int, flags: int) -> None:
    """Take part in synchronisation through a strong access.

    `flags`: 1 reads, 2 releases, 4 releases by its own semantics (else by a fence before), 8 a
    store, 16 acquires by its own semantics (else by a fence behind), 32 an atomic; scope << 8.
    """
    key = key_of(block, address)
    if flags & 2:
        follows = 1 - ((flags >> 3) & 1)
        release(thread, block, launch, key, (flags >> 2) & 1, follows, (flags >> 8) & 3)
    if flags & 1:
        narrow = flags & 16
        wide = narrow if (flags >> 8) & 3 != L.SCOPE_CTA else 0
        acquire(thread, block, launch, key, wide, narrow, flags & 32)


@export("void(int64, int64, int64)")
def rt_fence(thread: int, block: int, scope: int) -> None:
    """Remember what is known now: later strong accesses publish it."""
    _fence_what_was_seen(thread, block, 1 if scope >= L.SCOPE_GPU else 0)
    lane = load_u32(thread + L.TID) & 31
    clock = load_u32(thread + L.CLOCK)
    store_u32(thread + L.KNOWN + 4 * lane, clock)
    store_u32(thread + L.CLOCK, clock + 1)
    if scope >= L.SCOPE_GPU:
        copy_bytes(thread + L.FENCED, thread + L.KNOWN, 128)
        store_u32(thread + L.FENCE_BASE, load_u32(thread + L.BASE))
        store_u32(thread + L.UNFENCED, 0)
        store_u32(thread + L.CTA_BASE, 0)
    else:
        copy_bytes(thread + L.CTA_FENCED, thread + L.KNOWN, 128)
        store_u32(thread + L.CTA_BASE, load_u32(thread + L.BASE))
