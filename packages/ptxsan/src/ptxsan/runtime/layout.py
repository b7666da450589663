"""Byte offsets of the records that compiled kernels and the runtime share.

All fields are little-endian. A thread's record is followed by its exchange area (arguments and
results of warp collectives) and its spilled registers; a block's record points to its memory.
"""

from __future__ import annotations

# thread record
RESUME = 0  # u32: where to go on; 0 is the start
STATUS = 4  # u32: one of the READY... below
TID = 8  # u32: linear index in the block
TID_X = 12  # u32 x 3
GID = 24  # u32: linear index in the grid
CLOCK = 28  # u32: local time, ticks at each synchronisation
BASE = 32  # u32: every access of the block before this time is known to this thread
WAIT_MASK = 36  # u32: lanes of a collective
WAIT_KEY = 40  # u32: which collective or barrier
WAIT_SITE = 44  # u32: instruction that waits
WAIT_COUNT = 48  # u32: threads of a counted barrier; 0: all
WAIT_VALUE = 52  # u32: operand of bar.red; result afterwards
LAST_BLOCK = 56  # u32: last basic block before the end, other than a bare `ret`
UNFENCED = 60  # u32: 1: wrote to global memory since its last fence of its GPU; 2: of the system
COUNT = 64  # u64: instructions executed
FENCE_BASE = 72  # u32: BASE at the last fence; 0: no fence yet
FENCE_CLOCK = 76  # u32: CLOCK at the last fence
BARRIERS = 80  # u32: block barriers passed
GROUPS = 84  # u32: cp.async groups committed
RANK = 92  # u32: order in the schedule
FAR = 96  # 4 x (u32 variable, u32 version)
KNOWN = 128  # u32 x 32: times of the warp's lanes that this thread knows
FENCED = 256  # u32 x 32: KNOWN at the last fence
COPIES = 384  # 2 x u32: first pending copy and the one after the last, counted from the start
WAIT_OP = 392  # u32: barrier operation, one of the OP_... below
CTA_FENCED = 448  # u32 x 32: KNOWN at the last fence of any scope
CTA_BASE = 576  # u32: BASE at the last fence of any scope; 0: no fence yet
ARRIVED_AT = 580  # u32: barriers whose open phase this thread has arrived at
STRONG_AT = 584  # u64: address of the last strong access to global or shared memory
STRONG_SITE = 592  # u32: its instruction
STRONG_SPACE = 596  # u32: 1 + its space; 0: none so far
COPY_WAIT = 600  # u32: 1 + the instruction of the last wait for cp.async; 0: none so far
CLUSTER_TIMES = 608  # 2 x (u32 1 + a phase of the cluster's barrier arrived at, u32 CLOCK by then)
CLUSTER_SEEN = 624  # u32: 1 + the last phase of that barrier waited for; 0: none
CLOCKS = 640  # u64: this thread's vector clock (clocks.py), 0: none is kept
CLOCK_WORDS = 648  # u32: entries of a vector clock
CLOCK_AT = 652  # u32: the own entry
CLOCK_FIRST = 656  # u32: the first entry of the own block
WAIT_OBJECT = 664  # u64: mbarrier that is waited for
WAIT_PHASE = 672  # u32: its phase, or that of the cluster's barrier
TIMED_OUT = 676  # u32: 1: mbarrier.try_wait gives up
BULK_GROUPS = 680  # u32: bulk groups committed
PROXY_FRESH = 688  # u32: 1: fenced since anything was learnt of others
CLUSTER_CAME = 692  # u32: 1 + the phase of the cluster's barrier arrived at; 0: none
TILE_AT = 704  # i32 x 5: coordinates of a tensor copy
TILE_OFFSETS = 724  # u32 x 3: im2col offsets of it
MEETINGS = 736  # u32: collectives that every lane of the warp took part in
TENSOR_FRESH = 740  # u32: 1: tcgen05.fence::after_thread_sync since it learned anything
PROXY_FENCES = 744  # u32 x 6: CLOCK at the last fences fence.proxy.async, the newest first
FAR_FENCED = 768  # 4 x (u32 version that a fence has followed, u32 one that any fence has)
MET = 800  # u64: the record that an access meets
SYS_FENCED = 832  # u32 x 32: KNOWN at the last fence of the system
SYS_BASE = 960  # u32: BASE at the last fence of the system; 0: no such fence yet
FAR_SYS = 964  # 4 x u32: the version of FAR that a fence of the system has followed
EXCHANGE = 1024  # slots of collectives, then local memory, then spilled registers

SLOT = 32  # bytes of one exchange slot: u64 bits, f64 x 2 shadow, u32 poison, u32 unused

LAST_TIME = (1 << 20) - 64  # race records have 20 bits for a thread's time
MOST_THREADS = 1 << 25  # and 25 for the thread

# thread states
READY, COLLECTIVE, BARRIER, EXITED, ARRIVED, MBARRIER, CLUSTER, MEETING = 0, 1, 2, 3, 4, 5, 6, 7

# why a kernel returns to the scheduler
REASON_EXIT, REASON_COLLECTIVE, REASON_BARRIER, REASON_YIELD, REASON_TRAP = 0, 1, 2, 3, 4
REASON_MBARRIER, REASON_CLUSTER, REASON_MEETING = 5, 6, 7

# barrier operations
OP_SYNC, OP_ARRIVE, OP_POPC, OP_AND, OP_OR = 0, 1, 2, 3, 4

MOST_MBARRIERS = 64  # in a block
MOST_PIPES = 8  # threads of a block that start operations of its tensor core
# What completes on each mbarrier, and each pipe, is an agent with an entry in vector clocks.
MOST_AGENTS = MOST_MBARRIERS + MOST_PIPES

# tensor memory: cells of 32 bits by lane and column, a flag for each, records for 16 lanes of a
# column (last write, three reads); of 32 columns u32 state, first unit, units, site; of each pipe
# u32 thread + 1, u32 operations; u32 whether the permit to allocate is given up; u64 for each
# register of an access; for each warp u32 count and what it has not waited for (u32 address, shape,
# site, where 16x32bx2 goes on); for each thread u32 address + 1 of loads, by their number
TM_LANES, TM_COLUMNS, TM_UNIT, TM_READERS = 128, 512, 32, 3
TM_DATA = 0
TM_INIT = TM_DATA + 4 * TM_LANES * TM_COLUMNS
TM_META = TM_INIT + TM_LANES * TM_COLUMNS
TM_RECORD = 8 + 8 * TM_READERS
TM_UNITS = TM_META + TM_RECORD * (TM_LANES // 16) * TM_COLUMNS
TM_PIPES = TM_UNITS + 16 * (TM_COLUMNS // TM_UNIT)
TM_PERMIT = TM_PIPES + 8 * MOST_PIPES
# Behind the permit: u32 how many allocations the other block of a pair has made for this one, u32
# how many of these it has come for, then up to eight of them (u32: first unit << 16, units).
TM_GIVEN, MOST_GIVEN = TM_PERMIT + 8, 8
TM_ROOM = TM_PERMIT + 64
TM_WARPS = TM_ROOM + 8 * 128
TM_STARTED, TM_WARP = 128, 16 + 16 * 128  # operations of a warp that it has not waited for
TM_LOADS = TM_WARPS + 32 * TM_WARP
TM_SITES = 64  # loads of a kernel

# record of a collective, 32 bytes: u64 handler, u32 inputs, u32 outputs, i64 immediate, u64 orders
C_HANDLER, C_INPUTS, C_OUTPUTS, C_IMMEDIATE, C_ORDERS, C_RECORD = 0, 8, 12, 16, 24, 32

# block record
BLOCK_LINEAR = 0  # u32
BLOCK_X = 4  # u32 x 3
BLOCK_THREADS = 16  # u32
BLOCK_STRIDE = 20  # u32: bytes of a thread's record
BLOCK_THREAD0 = 24  # u64: address of the first thread's record
SHARED_DATA = 32  # u64
SHARED_INIT = 40  # u64
SHARED_SHADOW = 48  # u64: float32 a cell of two bytes
SHARED_META = 56  # u64: race records
FIRST_GID = 64  # u32
BLOCK_TIME = 68  # u32: BASE of all threads
PUBLISHED = 72  # u32: accesses before this time were fenced by every thread
LIVE = 76  # u32: threads that have not exited
BLOCK_FAR = 80  # u32: number of entries in FAR_LIST
CLUSTER_RANK = 84  # u32
BARRIER_SITE = 88  # u32
BLOCK_STATE = 92  # u32: 0 running, 1 done, 2 stuck
FAR_LIST = 96  # 64 x (u32 variable, u32 version)
BLOCK_PEERS = 608  # u64: table of the block records of the cluster
MBARRIERS = 616  # u64: mbarrier records, 0: the kernel uses none and copies nothing in bulk
RANDOM = 624  # u64: state of the block's random numbers
IN_USE = 632  # u32
CHANGES = 636  # u32: stores that others may see, and atomics that changed memory
KNOWS_ALL = 776  # u32: 1: acquired more than is kept, see LENIENT
ARRIVALS = 640  # 16 x (u32 arrived, u32 expected)
BLOCK_STATS = 768  # u64: 16 doubles an instruction, one table for each worker
BLOCK_CLOCKS = 784  # u64: vector clocks of the threads, 0: none
BLOCK_WORDS = 792  # u32: entries of each
CLOCKS_NEW = 796  # u32: 1: a thread learnt something since the last barrier of the whole block
NAMED_CLOCKS = 800  # u64: a vector clock for each numbered barrier
CLUSTER_CLOCKS = (
    808  # u64: of the cluster's barrier, twice: arriving and complete (rank 0's counts)
)
CLUSTER_ARRIVED = 816  # u32: threads at the cluster's barrier (rank 0's counts)
CLUSTER_PHASE = 820  # u32
TIMEOUTS = 824  # u32: how often in a row waits gave up
TIMEOUT_CHANGES = 828  # u32: CHANGES of the cluster by then
REMOTE = 832  # u64: for each entry of a vector clock, u32 time and u32 site of the last remote use
PROXY_BASE = 840  # u32: before this time everything was fenced by fence.proxy.async
ASYNC = 848  # u64: table of asynchronous operations in flight
ASYNC_COUNT = 856  # u32
ASYNC_NEXT = 860  # u32: number of the next one
DEFERRED = 864  # u64: table of updates that wait for the blocks before, 0: they are done at once
BOOK = 872  # u64: the tables of a host thread (deferred.py)
ASYNC_TOP = 880  # u32: entries of that table from here on are free
LAST_RELEASE = 884  # u32 x 2: entry of the log that says the least, the one before it (order.py)
FAR_LIST_FENCED = 896  # 64 x (u32, u32): FAR_FENCED of FAR_LIST
STATES = (
    1408  # 16 x u64: what the block was when it last gave way, each with all memory (waiting.py)
)
STATE_TURN = 1536  # u32: which of STATES is the oldest
PATIENCE = 1540  # u32: rounds, and iterations of a thread's loop, after which the block gives way
WAITS_SINCE = 1544  # u64: 1 + changes of memory when the block was found to wait; 0: it does not
DEVICE = 1552  # u32: the device that runs the block
PART = 1556  # u32: which of the launches that run at once
DENIED = 1560  # u32: bits of A_FLAGS that close an allocation to the block; 0 for one launch
PUBLISHED_SYS = 1564  # u32: PUBLISHED by fences of the system
FAR_LIST_SYS = 1568  # 64 x u32: FAR_SYS of FAR_LIST
KNOWN_BEFORE = 1824  # u32: how many of FAR_LIST tell of the launches before
NONE_LEFT = 1828  # u32: 1: a thread saw that no cluster was left to take over
TENSOR = 1856  # u64: tensor memory (tensor_memory.py), 0: the kernel has none
BLOCK_BYTES = 1920
MOST_STATES = 16

# mbarrier record
M_PLACE, M_EXPECTED, M_PENDING, M_TX, M_PHASE, M_SITE = 0, 4, 8, 12, 16, 20
M_ISSUER, M_CLOCK, M_FLIGHT, M_INDEX, M_OPEN, M_DONE, M_BLOCK = 24, 28, 32, 36, 40, 48, 56
M_COPIES, M_RECORD = 64, 72  # arrivals that wait for cp.async
RANK_UNIT = 1 << 27  # shared addresses of block r of a cluster begin at (r + 1) times this
MOST_TX = (1 << 20) - 1
MOST_COUNT = (1 << 20) - 1

# flags beside "written" (1) and "born by a strong write" (2) of a byte of memory
OBJECT, LANDING, LEAVING = 4, 8, 16  # an mbarrier; being written, being read by an async copy
REDUCING = 32  # asynchronous reductions are under way to it: only atomics may touch it
SYNC_OPERATION = 1 << 23  # in `info` of an access: by an instruction on mbarriers

# launch record
ALLOCATIONS = 0  # u64: table of allocation records
ALLOCATION_COUNT = 8  # u32
FUEL = 12  # u32
PARAMS = 16  # u64: bytes of the parameters
PARAM_BYTES = 24  # u32
BLOCK_DIM = 28  # u32 x 3
GRID_DIM = 40  # u32 x 3
CLUSTER_DIM = 52  # u32 x 3
SHARED_COUNT = 64  # u32: shared variables
LOCAL_COUNT = 68  # u32: local variables
SHARED_TABLE = 72  # u64: variable records
LOCAL_TABLE = 80  # u64
FINDINGS = 88  # u64: finding records
FINDING_LIMIT = 96  # u32
FINDING_COUNT = 100  # u32
STATS = 104  # u64: 16 doubles an instruction
COVERED = 112  # u64: a byte a basic block
SCRATCH = 120  # u64: memory that accesses at fault are sent to
VARIABLES = 128  # u64: table of synchronisation variables
VARIABLE_SLOTS = 136  # u32: a power of two
LOG = 144  # u64: releases
LOG_LIMIT = 152  # u32
LOG_COUNT = 156  # u32
LOCK = 160  # u32: guards findings and the log
RACES = 164  # u32: 1: look for races
SHARED_SHIFT = 168  # u32: log2 of the shared granule
STOP = 172  # u32: 1: a limit was reached or a kernel trapped
WATCH = 176  # u64: table of watched granules, 0: none
SEED = 184  # u64
SCHEDULE = 192  # u32: 0 forward, 1 reverse, 2 random
BLOCKS_DONE = 196  # u32
REACH = 200  # u64: for each barrier site a bitmap of blocks behind it
OVERFLOW = 208  # u32: 1: a table was full; others in run.py
TOO_MANY_WAIT = 10  # of OVERFLOW: blocks wait for blocks that have not begun, and no more fit
TOO_MANY_STARTED = (
    11  # of OVERFLOW: loads and stores of tensor memory that a warp has not waited for
)
BAD_DESCRIPTOR = 12  # and the first code of what a descriptor asks for and nobody models
UNKNOWN_MAP = 17  # of OVERFLOW: a tensor map in hardware's form that is not known
TURN = 212  # u32: clusters whose deferred updates are done
APART = 216  # u32: 1: nobody may see what is updated
COLLECTIVES = 232  # u64: addresses of handlers, by key
BLOCK_LENGTHS = 240  # u64
CLOCK_AHEAD = 248  # u64: how far clocks are ahead of the instructions that ran
PRINT = 256  # u64: printf records
PRINT_LIMIT = 264  # u32
PRINT_COUNT = 268  # u32
EXTRA = 272  # u64 x 7: for handlers
RESIDUES = 328  # u64: table of residues, 0: no algebra
DYNAMIC_BYTES = 336  # u32
EXCHANGE_BYTES = 340  # u32
LOCAL_OFFSET = 344  # u32: of local memory in a thread's record
LOCAL_BYTES = 348  # u32
SHARED_BYTES = 356  # u32
EXECUTED = 360  # u64: instructions of blocks that have ended
NEXT = 368  # u32: next cluster to start
REACH_WIDTH = 372  # u32
REACH_ROWS = 376  # u64: row of REACH for each instruction
SITE_SHIFT = 352  # u32: instructions are recorded as index >> this
COPY_OFFSET = 384  # u32: of the ring of pending copies in a thread's record
THREAD_BYTES = 388  # u32
COPY_SLOTS = 392  # u32: entries of that ring, a power of two
OBSERVE = 400  # u64: addresses of the first warp's accesses, 0: not wanted
LENIENT = 408  # u32: 1: a block acquired more than is kept; it counts as knowing all others
TOTAL_THREADS = 412  # u32: of the grid
SNAPSHOTS = 416  # u64: vector clocks of releases
SNAPSHOT_LIMIT = 424  # u32: how many
SNAPSHOT_COUNT = 428  # u32
ENDING = 432  # u64: address of what ends a block, 0: nothing is left in flight by any
CARRY_OUT = 440  # u64: address of what does a deferred update
BLIND = 448  # u64: loads whose values are taken away (blind.py), 0: none
ROLES = 456  # u64: what each strong access is for (roles.py), 0: not asked
CHOSEN = 464  # u32: 1: accesses are ordered by who came first at an atomic (order.py)
HEAP = 472  # u64: heap record (heap.py), 0: none
TEXTURES = 480  # u64: table of textures and surfaces (textures.py), 0: none
MOST_FUEL = 488  # u32: the most that FUEL may be
GIVES_WAY = 492  # u32: 1: blocks may wait for others, so that all of them give way (waiting.py)
IDLE_ROUNDS = 496  # u32: rounds without any progress after which there will never be any
PAUSES = 500  # u32: blocks' turns after which somebody outside has one, 0: nobody is there
READS_CLOCKS = 504  # u32: 1: a loop may end because time passes
BLOCK_GIDS = 508  # u32: numbers of threads that each block has for itself
WALK = 512  # u64: room for the walks through the log, WALK_LIMIT words of 64 bits
WALKS = 520  # u32: how many there were
PART_COUNT = 524  # u32: launches that run at once; 0: this is one launch
PARTS = 528  # u64: their records
DEVICES = 536  # u64: the device of each block (u8), 0: one device
HELD = 544  # u32: devices whose blocks wait until nobody else gets on
KERNEL = 548  # u32: which of the kernels that are one program
ORDER = 552  # u64: the clusters in the order in which they begin
UNITS = 560  # u32: how many there are
OWN_COUNT = 564  # u32: buffers with an address in the process
OWN_PLACES = 568  # u64: the addresses of their first bytes, there and in the machine (u64)
LAUNCH_BYTES = 576
OBSERVED = 4  # executions of each instruction that are observed

# pending cp.async: 128 bytes of scratch, then entries of u64 target, u64 source bytes, flags and
# shadows, u32 group, u16 size, u16 bytes given, u32 instruction, u32 where the target lies in the
# block's shared memory
COPY_RECORD, COPY_SCRATCH = 48, 128
LEAST_COPIES, MOST_COPIES = 128, 2048

# entry of the log of releases, 256 bytes
E_PREVIOUS, E_BLOCK, E_BASE, E_WARP, E_LINKS, E_SCOPE = 0, 4, 8, 12, 16, 20
E_CLOCKS, E_LINK = 32, 160
E_SNAPSHOT = 24  # u64: a vector clock, 0: none, 1: everything
E_VISIT = 280  # u32: the last walk that came here
E_RECORD, E_MOST_LINKS = 288, 30
WALK_LIMIT = 1 << 14

# record of one of several launches that run at once: the fields of the launch record from PARAMS
# to LOCAL_TABLE and DYNAMIC_BYTES as they are for it; its blocks, its device, the launches before
R_FIELDS, R_FIELDS_BYTES, R_DYNAMIC = 0, 72, 72
R_FIRST, R_BLOCKS, R_NEXT, R_DONE, R_DEVICE = 76, 80, 84, 88, 92  # u32 each
R_AFTER, R_AFTER_COUNT, R_FREES = 96, 104, 108  # u64 (u32 each), u32, u32: 1 + an allocation
R_KERNEL = 112  # u32
R_RECORD = 120
MOST_FAR = 64  # entries of FAR_LIST

# watched granules: u32 slots, u32 nodes, u32 limit, u32 accesses so far, u64 nodes, then slots of
# (granule, first node)
W_SLOTS, W_COUNT, W_LIMIT, W_ORDER, W_NODES, W_TABLE, W_NODE = 0, 4, 8, 12, 16, 32, 32

# allocation record (global memory), 80 bytes
A_BASE, A_BYTES, A_DATA, A_INIT, A_SHADOW, A_META, A_FLAGS, A_SHIFT = 0, 8, 16, 24, 32, 40, 48, 52
A_SEEN, A_UPDATED = 56, 60  # u32 each: 1: read or written; updated by atomics
A_WRITERS = 64  # u64: who writes each granule (blind.py), 0: not asked
A_GIVEN = 72  # u64: what blind loads of this allocation see, 0: B_GARBAGE
A_RECORD = 80
REGION_SHIFT = 38  # each allocation has 256 GiB of addresses for itself, its bytes in the middle
FIRST_REGION = 513  # of allocation 0; lower numbers are the process's own addresses (places.py)

A_FREED = 4  # of A_FLAGS: beside 1, read-only
A_CLOSED = 256  # of A_FLAGS: to device 0; the next bits are for the next devices
MOST_DEVICES = 16

# the heap of device malloc: u64 allocation records, u32 how many, u32 at most, u64 bytes used and
# in all, u64 bytes that are not free and how many CUDA grants, u64 bytes, flags, shadows, race
# records (0: none), u32 log2 of the granule
H_TABLE, H_COUNT, H_LIMIT, H_USED, H_BYTES, H_LIVE, H_MOST = 0, 8, 12, 16, 24, 32, 40
H_DATA, H_INIT, H_SHADOW, H_META, H_SHIFT = 48, 56, 64, 72, 80
H_RECORD = 88
HEAP_FIRST = 1 << 16  # the number of its first region of addresses

# textures and surfaces: u32 how many, then records of u64 handle, u64 texels and their flags (0:
# all written), u32 width, height, depth (layers), pitch in bytes, u64 bytes of a slice, u32
# channels, bits and kind of one, flags, u8 x 3 address modes, f32 x 4 border
X_TABLE, X_RECORD = 8, 96
X_HANDLE, X_DATA, X_INIT, X_WIDTH, X_HEIGHT, X_DEPTH, X_PITCH = 0, 8, 16, 24, 28, 32, 36
X_SLICE, X_CHANNELS, X_BITS, X_KIND, X_FLAGS, X_MODES, X_BORDER = 40, 48, 52, 56, 60, 64, 68
X_NORMALIZED, X_LINEAR, X_FRACTIONS = 1, 2, 4  # flags: coordinates, filter, integers as floats
X_SIGNED, X_UNSIGNED, X_FLOAT = 0, 1, 2  # enum cudaChannelFormatKind
X_WRAP, X_CLAMP, X_MIRROR, X_OUTSIDE = 0, 1, 2, 3  # enum cudaTextureAddressMode
X_INTEGERS, X_LAYERED = 16, 32  # in `info` of a fetch
X_TRAPS, X_ZERO, X_CLAMPED = 0, 1, 2  # in `info` of a surface access

# blind loads: 64 bytes of garbage, 64 flags that say unwritten, then a byte an instruction
B_GARBAGE, B_UNWRITTEN, B_SITES = 0, 64, 128

# writers of a granule: two of (u32 thread + 1, u32 least BASE, u32 latest CLOCK, u32 least
# MEETINGS), then u32 whether there are more
N_GID, N_BASE, N_CLOCK, N_MEETINGS, N_WRITER = 0, 4, 8, 12, 16
N_WRITERS, N_MORE, N_RECORD = 2, 32, 40

# variable record (shared or local symbol), 32 bytes
V_ADDRESS, V_BYTES, V_DATA = 0, 4, 8  # u32, u32, u32 offset of its bytes
V_RECORD = 16

# finding record
F_KIND, F_SITE, F_OTHER_SITE, F_GID, F_OTHER_GID, F_COUNT = 0, 4, 8, 12, 16, 20
F_ADDRESS, F_ALLOCATION, F_SPACE, F_BYTES, F_WHAT, F_OTHER_WHAT = 24, 32, 36, 40, 44, 48
F_EXTRA, F_GRANULE = 52, 56
F_COPY_WAIT = 64  # COPY_WAIT of the thread at fault; bit 31: its copies are pending
F_RECORD = 72

# deferred updates: a book for each host thread, u32 number of its oldest and newest table, then
# tables, one a cluster: u32 how many, u32 place in the order, then a record for each update: u64
# addresses of bytes, flags and shadows, u32 thread, u32 instruction, u64 bits, f64 x 2, u32 poison
U_OLDEST, U_NEWEST, U_HEADER, U_TABLES = 0, 4, 64, 8
U_COUNT, U_NUMBER, U_ENTRIES, U_RECORD, U_MOST = 0, 4, 64, 64, 1 << 13
U_BYTES = U_ENTRIES + U_MOST * U_RECORD
U_DATA, U_INIT, U_SHADOW = 0, 8, 16
U_GID, U_CASE, U_BITS, U_LANES, U_POISON = GID, 28, 32, 40, 56  # stands for its thread in reports

# record of a printf or assert, 256 bytes; `bytes` is P_ASSERTED for an assertion
P_GID, P_SITE, P_BYTES, P_TEXT, P_DATA = 0, 4, 8, 16, 24
P_RECORD, P_MOST, P_ASSERTED = 256, 232, 1 << 16

# table of residues (machine.residues), words of 64 bits
T_NEXT, T_FIRST, T_LIMIT, T_SEED = 0, 4, 1, 2

# roles of strong accesses
CARRIES, POLLED, STORES, UPDATES, LOADS = 1, 2, 4, 8, 16

# kinds of access
READ, WRITE, ATOMIC, STRONG_READ, STRONG_WRITE = 0, 1, 2, 3, 4
# scopes
SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS = 0, 1, 2, 3

# finding kinds as numbers
K_BOUNDS, K_MISALIGNED, K_READ_ONLY, K_UNINIT, K_RACE, K_SAME_VALUE = 1, 2, 3, 4, 5, 6
K_DIVERGENT_BARRIER, K_DIVERGENT_COLLECTIVE, K_DEADLOCK, K_TRAP, K_ASSERT = 7, 8, 9, 10, 11
K_COUNTS, K_TWICE, K_SPIN, K_MAYBE_UNINIT = 17, 18, 19, 20
K_NO_OBJECT, K_TWO_OBJECTS, K_OBJECT_TOUCHED, K_ARRIVALS, K_TX_RANGE = 21, 22, 23, 24, 25
K_OBJECT_WAIT, K_IN_FLIGHT, K_LEFT_BEHIND, K_PROXY, K_BULK_SHAPE = 26, 27, 28, 29, 30
K_OBJECT_BUSY, K_LEFT_READING, K_TENSOR_MAP, K_NO_COMPLETE = 31, 32, 33, 34
K_CLUSTER_ORDER, K_OUTLIVED = 35, 36
K_UNORDERED, K_ACQUIRE = 37, 38
K_FREED, K_BAD_FREE, K_FREED_TWICE = 39, 40, 41
K_NO_TEXTURE, K_SURFACE, K_SURFACE_ALIGNMENT = 42, 43, 44
K_ENDED_BEFORE = 45
K_PEER = 46
K_TENSOR_LANES, K_TENSOR_OUTSIDE, K_TENSOR_RACE, K_TENSOR_LEFT, K_TENSOR_ALLOC = 47, 48, 49, 50, 51
K_TENSOR_FENCE, K_TENSOR_SHAPE = 52, 53
K_NONE_LEFT, K_TENSOR_WAIT, K_OBJECT_EARLY = 54, 55, 56
K_EXITED_SHARED, K_POISON_BRANCH, K_POISON_ADDRESS, K_POISON_STORE, K_SUSPECT = 12, 13, 14, 15, 16

INSIDE = 256  # added to the kind of a race in global memory between threads of one block

# spaces as numbers
S_GLOBAL, S_SHARED, S_LOCAL, S_PARAM = 0, 1, 2, 3

# a tensor map, 128 bytes of which the first 64 are used: see tensor_maps.py
T_BASE, T_SIZES, T_STRIDES, T_TOPS, T_BOX, T_STEPS = 0, 8, 28, 44, 48, 54
T_RANK, T_TYPE, T_INTERLEAVE, T_SWIZZLE, T_FILL, T_USED, T_BYTES = 59, 60, 61, 62, 63, 64, 128
# in im2col mode, which a bit of T_RANK says, instead of a box: channels, pixels, corners
T_IM2COL, T_CHANNELS, T_PIXELS, T_LOWER, T_UPPER = 8, 48, 49, 51, 53
T_OWN = 128  # a bit of T_RANK: this form, not hardware's
