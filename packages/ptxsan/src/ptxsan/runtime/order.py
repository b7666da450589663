"""What a thread knows of others: happens-before by barriers, warps, fences, strong accesses.

A release appends to the log of its variable (the address of the strong access): the time up to
which the whole block is covered, and the lanes of one warp beyond that. A strong read remembers how
far the log had come, and a fence behind it (or its own `.acquire`) up to where that counts as
acquired. Logs only grow, so what was acquired stays as it was.

A release and what acquires it count where their scopes include each other: the block, its GPU, or
the system where blocks of several devices run at once. What a releasing block had acquired itself
comes with it, each part by its own scope.

Functions that say whether something is known return NOT, YES, or UNFENCED: a strong read saw the
release, but no fence of wide enough scope stands behind that read.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.clocks import block_of, entry_of, seen, seen_block, snapshot
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import (
    add_u32,
    copy_bytes,
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

_NOBODY = 0xFFFFFFFF
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
def _far_release(thread: int, block: int, index: int) -> tuple[int, int, int]:
    """Return where a far release stands, its fenced versions, and that of the whole system.

    The first four are the thread's, the others its block's.
    """
    if index < 4:
        return (
            thread + L.FAR + 8 * index,
            thread + L.FAR_FENCED + 8 * index,
            thread + L.FAR_SYS + 4 * index,
        )
    return (
        block + L.FAR_LIST + 8 * (index - 4),
        block + L.FAR_LIST_FENCED + 8 * (index - 4),
        block + L.FAR_LIST_SYS + 4 * (index - 4),
    )


@native
def _acquired(thread: int, block: int, launch: int, gid: int, clock: int, lanes: int) -> int:
    """Whether a release that this thread saw covers an access."""
    if load_u32(block + L.KNOWS_ALL):
        return YES
    best = NOT
    for index in range(4 + load_u32(block + L.BLOCK_FAR)):
        place, fenced, system = _far_release(thread, block, index)
        if load_u32(place + 4) == 0:
            continue
        version, wide, narrow = load_u32(place + 4), load_u32(fenced), load_u32(fenced + 4)
        far = load_u32(system) if load_u64(launch + L.DEVICES) else wide
        found = NOT
        if max(narrow, wide) and _covered(launch, block, narrow, wide, far, gid, clock, lanes):
            found = YES
        elif version != far and _covered(
            launch, block, version, version, version, gid, clock, lanes
        ):
            found = UNFENCED
        if found != NOT:
            slot = load_u64(launch + L.VARIABLES) + 16 * (load_u32(place) - 1)
            if load_u32(slot + 12):
                store_u32(launch + L.CHOSEN, 1)
        if found == YES:
            return YES
        best = max(best, found)
    return best


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
def device_of(launch: int, linear: int) -> int:
    """Return the device that runs a block."""
    table = load_u64(launch + L.DEVICES)
    return load_u8(table + linear) if table else 0


@native
def scope_between(launch: int, linear: int, other: int) -> int:
    """Return the least scope that includes two blocks."""
    if linear == other:
        return L.SCOPE_CTA
    same = device_of(launch, linear) == device_of(launch, other)
    return L.SCOPE_CLUSTER if same else L.SCOPE_SYS


@native
def scope_to(launch: int, block: int, gid: int) -> int:
    """Return the least scope that includes a block and a thread, or an agent of a block."""
    first = load_u32(block + L.FIRST_GID)
    if first <= gid < first + load_u32(block + L.BLOCK_THREADS):
        return L.SCOPE_CTA
    if load_u64(launch + L.DEVICES) == 0:
        return L.SCOPE_CLUSTER
    other = block_of(launch, load_u32(launch + L.BLOCK_GIDS), gid)
    return max(L.SCOPE_CLUSTER, scope_between(launch, load_u32(block + L.BLOCK_LINEAR), other))


@native
def _covered(
    launch: int, block: int, narrow: int, wide: int, far: int, gid: int, clock: int, lanes: int
) -> bool:  # fmt: skip
    """Walk the log from a version backwards, and into the logs that its entries had acquired.

    Versions up to `narrow` count where this block released them, up to `wide` where another one
    of its device did, up to `far` where another device did. The walk keeps, of each entry to come,
    its number and who acquired it: 0 for this block itself, else 1 plus the block.
    """
    log, walk = load_u64(launch + L.LOG), load_u64(launch + L.WALK)
    gids, own = load_u32(launch + L.BLOCK_GIDS), load_u32(block + L.BLOCK_LINEAR)
    owner, index = gid // gids, gid % gids
    mark = (load_u32(launch + L.WALKS) + 1) & 0xFFFFFFFF
    store_u32(launch + L.WALKS, mark)
    store_u64(walk, max(narrow, wide, far))
    count = 1
    for _ in range(L.WALK_LIMIT):
        if count == 0:
            return False
        count -= 1
        item = load_u64(walk + 8 * count)
        number, by = item & 0xFFFFFFFF, item >> 32
        entry = log + number * L.E_RECORD
        if number == 0 or load_u32(entry + L.E_VISIT) == mark:
            continue
        releaser = load_u32(entry + L.E_BLOCK)
        needed = scope_between(launch, releaser, own if by == 0 else by - 1)
        counts = load_u32(entry + L.E_SCOPE) >= needed
        if by == 0:
            limit = far
            if needed == L.SCOPE_CTA:
                limit = max(narrow, wide)
            elif needed == L.SCOPE_CLUSTER:
                limit = wide
            counts = counts and number <= limit
        if counts:
            store_u32(entry + L.E_VISIT, mark)
            if _entry_covers(entry, owner, index, clock, lanes):
                return True
            if load_u64(entry + L.E_SNAPSHOT) and _in_snapshot(entry, launch, gids, gid, clock):
                return True
            links = load_u32(entry + L.E_LINKS)
            if count + links + 1 >= L.WALK_LIMIT:
                break
            for link in range(links):
                target = load_u32(entry + L.E_LINK + 4 * link)
                store_u64(walk + 8 * count, target | (1 + releaser) << 32)
                count += 1
        store_u64(walk + 8 * count, load_u32(entry + L.E_PREVIOUS) | by << 32)
        count += 1
    store_u32(launch + L.LENIENT, 1)  # too long a history to follow: no alarm without proof
    return True


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
    shared = _same_release(block, launch, previous, base, scope) if alike else 0
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
    # Note in a release what the releasing thread had acquired itself. One that had acquired
    # more than there is room for counts as knowing everything.
    own = load_u32(slot + 8)
    count = 0
    for index in range(4):
        version = load_u32(thread + L.FAR + 8 * index + 4)
        if version != 0 and version != own:
            store_u32(entry + L.E_LINK + 4 * count, version)
            count += 1
    if load_u32(block + L.BLOCK_FAR) > L.E_MOST_LINKS - count:
        store_u64(entry + L.E_SNAPSHOT, 1)
        store_u32(launch + L.LENIENT, 1)
        store_u32(entry + L.E_LINKS, count)
    else:
        for index in range(load_u32(block + L.BLOCK_FAR)):
            version = load_u32(block + L.FAR_LIST + 8 * index + 4)
            if version != 0 and version != own:
                store_u32(entry + L.E_LINK + 4 * count, version)
                count += 1
        store_u32(entry + L.E_LINKS, count)
    store_u32(slot + 8, number)
    if alike:
        store_u32(block + L.LAST_RELEASE, number)
        store_u32(block + L.LAST_RELEASE + 4, previous)


@native
def _acquired_nothing(thread: int, block: int) -> bool:
    """Whether a release of this thread would tell of its own block alone."""
    found = load_u64(thread + L.CLOCKS) != 0 or load_u32(block + L.BLOCK_FAR) != 0
    found = found or load_u32(block + L.KNOWN_BEFORE) != 0
    for index in range(4):
        found = found or load_u32(thread + L.FAR + 8 * index + 4) != 0
    return not found


@native
def _same_release(block: int, launch: int, previous: int, base: int, scope: int) -> int:
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
            and load_u32(entry + L.E_SCOPE) == scope
            and load_u32(entry + L.E_LINKS) == 0
            and load_u64(entry + L.E_SNAPSHOT) == 0
        ):
            return number
    return 0


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
    """Publish what fences stand behind, each part by the scope of its fence and of the access."""
    fence, published = load_u32(thread + L.FENCE_BASE), load_u32(block + L.PUBLISHED)
    narrow, far = load_u32(thread + L.CTA_BASE), load_u32(thread + L.SYS_BASE)
    everywhere = load_u32(block + L.PUBLISHED_SYS)
    if (key >> 56) & 255 == 1 and load_u64(block + L.BLOCK_PEERS) == 0:
        published = everywhere = 0  # who can acquire there has passed the same barriers
    if load_u64(launch + L.DEVICES) == 0:
        far = everywhere = 0
    before = load_u32(block + L.KNOWN_BEFORE)
    if fence == 0 and published == 0 and narrow == 0 and before != 0:
        slot = slot_of(launch, key)
        if slot:
            append(thread, block, launch, slot, 1, 0, follows, scope)
            # Let a release without a fence tell of the launches before alone: they ended
            # with one
            entry = load_u64(launch + L.LOG) + load_u32(slot + 8) * L.E_RECORD
            count = load_u32(block + L.KNOWN_BEFORE)
            for index in range(min(count, L.E_MOST_LINKS)):
                store_u32(
                    entry + L.E_LINK + 4 * index, load_u32(block + L.FAR_LIST + 8 * index + 4)
                )
            store_u32(entry + L.E_LINKS, min(count, L.E_MOST_LINKS))
        return
    if fence == 0 and published == 0 and narrow == 0:
        if not follows:  # a store that publishes nothing ends what others had released here
            slot = find_slot(launch, key)
            if slot:
                store_u32(slot + 8, 0)
        return
    slot = slot_of(launch, key)
    if slot == 0:
        return
    if scope == L.SCOPE_SYS and (far != 0 or everywhere != 0):
        clocks = thread + L.SYS_FENCED if far != 0 else 0
        append(thread, block, launch, slot, max(far, everywhere), clocks, follows, scope)
        follows = 1
    if (fence != 0 or published != 0) and (
        follows == 0 or not _as_far(thread, fence, published, far, everywhere, scope)
    ):
        clocks = thread + L.FENCED if fence != 0 else 0
        near = min(scope, L.SCOPE_GPU)
        append(thread, block, launch, slot, max(fence, published), clocks, follows, near)
        follows = 1
    if narrow != 0:
        clocks = thread + L.CTA_FENCED
        append(thread, block, launch, slot, narrow, clocks, follows, L.SCOPE_CTA)


@native
def _as_far(
    thread: int, fence: int, published: int, far: int, everywhere: int, scope: int
) -> bool:  # fmt: skip
    """Whether the system's fences stand behind all that those of the GPU do."""
    if scope != L.SCOPE_SYS or far == 0 or fence != far or published > max(far, everywhere):
        return False
    for lane in range(32):
        if load_u32(thread + L.FENCED + 4 * lane) != load_u32(thread + L.SYS_FENCED + 4 * lane):
            return False
    return True


@native
def acquire(
    thread: int, block: int, launch: int, key: int, acquires: int, scope: int, updates: int
) -> None:
    """See what was released at a variable so far.

    `acquires`: the access acquires by itself, from those in its scope. `updates`: an atomic, so
    that who came first decided what it read.
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
    narrow = version if acquires else 0
    wide = narrow if scope != L.SCOPE_CTA else 0
    system = narrow if scope == L.SCOPE_SYS else 0
    learn_in_thread(thread, block, launch, name, version, wide, narrow, system)


@native
def learn_in_thread(
    thread: int, block: int, launch: int, name: int, version: int, wide: int, narrow: int,
    system: int,
) -> None:  # fmt: skip
    """Keep what a thread saw of a variable, and up to where fences have followed."""
    index = 0
    while index < 4 and load_u32(thread + L.FAR + 8 * index) not in (0, name):
        index += 1
    if index == 4:
        learn_in_block(block, launch, name, version, wide, narrow, system)
        return
    place = thread + L.FAR + 8 * index
    store_u32(place, name)
    _raise_far(place, thread + L.FAR_FENCED + 8 * index, version, wide, narrow)
    _raise(thread + L.FAR_SYS + 4 * index, system)


@native
def _raise(cell: int, value: int) -> None:
    store_u32(cell, max(value, load_u32(cell)))


@native
def _raise_far(place: int, fenced: int, version: int, wide: int, narrow: int) -> None:
    _raise(place + 4, version)
    _raise(fenced, wide)
    _raise(fenced + 4, narrow)


@native
def learn_in_block(
    block: int, launch: int, name: int, version: int, wide: int, narrow: int, system: int
) -> None:
    """Give every thread of the block what one of them saw."""
    count = load_u32(block + L.BLOCK_FAR)
    for index in range(count):
        place = block + L.FAR_LIST + 8 * index
        if load_u32(place) == name:
            fenced = block + L.FAR_LIST_FENCED + 8 * index
            _raise_far(place, fenced, version, wide, narrow)
            _raise(block + L.FAR_LIST_SYS + 4 * index, system)
            return
    if count >= L.MOST_FAR:
        store_u32(block + L.KNOWS_ALL, 1)
        store_u32(launch + L.LENIENT, 1)
        return
    store_u32(block + L.FAR_LIST + 8 * count, name)
    store_u32(block + L.FAR_LIST + 8 * count + 4, version)
    store_u32(block + L.FAR_LIST_FENCED + 8 * count, wide)
    store_u32(block + L.FAR_LIST_FENCED + 8 * count + 4, narrow)
    store_u32(block + L.FAR_LIST_SYS + 4 * count, system)
    store_u32(block + L.BLOCK_FAR, count + 1)


@native
def share_with_block(thread: int, block: int, launch: int) -> None:
    """Give every thread of the block what one thread has seen so far of all variables."""
    for index in range(4):
        far, fenced = thread + L.FAR + 8 * index, thread + L.FAR_FENCED + 8 * index
        if load_u32(far) != 0:
            learn_in_block(
                block, launch, load_u32(far), load_u32(far + 4), load_u32(fenced),
                load_u32(fenced + 4), load_u32(thread + L.FAR_SYS + 4 * index),
            )  # fmt: skip


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
        acquire(thread, block, launch, key, flags & 16, (flags >> 8) & 3, flags & 32)


@export("void(int64, int64, int64)")
def rt_fence(thread: int, block: int, scope: int) -> None:
    """Remember what is known now: later strong accesses publish it."""
    for index in range(4 + load_u32(block + L.BLOCK_FAR)):
        place, fenced, system = _far_release(thread, block, index)
        version = load_u32(place + 4)
        if version != 0:
            store_u32(fenced + 4, version)
            if scope >= L.SCOPE_GPU:
                store_u32(fenced, version)
            if scope == L.SCOPE_SYS:
                store_u32(system, version)
    lane = load_u32(thread + L.TID) & 31
    clock = load_u32(thread + L.CLOCK)
    store_u32(thread + L.KNOWN + 4 * lane, clock)
    store_u32(thread + L.CLOCK, clock + 1)
    if scope >= L.SCOPE_GPU:
        copy_bytes(thread + L.FENCED, thread + L.KNOWN, 128)
        store_u32(thread + L.FENCE_BASE, load_u32(thread + L.BASE))
        unfenced = load_u32(thread + L.UNFENCED)
        store_u32(thread + L.UNFENCED, unfenced & 2 if scope == L.SCOPE_GPU else 0)
        store_u32(thread + L.CTA_BASE, 0)
    else:
        copy_bytes(thread + L.CTA_FENCED, thread + L.KNOWN, 128)
        store_u32(thread + L.CTA_BASE, load_u32(thread + L.BASE))
    if scope == L.SCOPE_SYS:
        copy_bytes(thread + L.SYS_FENCED, thread + L.KNOWN, 128)
        store_u32(thread + L.SYS_BASE, load_u32(thread + L.BASE))
