"""Textures and surfaces: a table of what each handle means, and how a texel becomes a result.

A record of a texture says where its texels lie (in host memory, with a flag a byte), their type,
and how coordinates are taken. CUDA C++ Programming Guide, "Texture Fetching": linear filtering has
weights of 8 bits behind the point. Fetches are not watched for races.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import (
    load_f32,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_f32,
    store_u8,
    store_u32,
)
from ptxsan.runtime.reports import report

_FAR = 1 << 30


@native
def _record(thread: int, launch: int, handle: int, site: int) -> int:
    """Return the record of a handle; 0 where there is none, which is a finding."""
    table = load_u64(launch + L.TEXTURES)
    if table:
        for index in range(load_u32(table)):
            record = table + L.X_TABLE + index * L.X_RECORD
            if load_u64(record + L.X_HANDLE) == handle:
                return record
    report(launch, L.K_NO_TEXTURE, site, load_u32(thread + L.GID), handle)
    return 0


@native
def _floor(number: float) -> int:
    if not (-_FAR < number < _FAR):
        return _FAR if number >= _FAR else -_FAR
    below = int(number)
    return below - 1 if number < below else below


@native
def _place(index: int, size: int, mode: int) -> int:
    """Return the texel that an index means along an axis; -1 outside (border)."""
    if 0 <= index < size:
        return index
    if mode == L.X_WRAP:
        return index % size
    if mode == L.X_MIRROR:
        turned = index % (2 * size)
        return turned if turned < size else 2 * size - 1 - turned
    if mode == L.X_CLAMP:
        return 0 if index < 0 else size - 1
    return -1


@native
def _half(bits: int) -> float:
    """Return the value of a binary16 number."""
    sign = -1.0 if bits & 0x8000 else 1.0
    exponent, fraction = (bits >> 10) & 31, bits & 1023
    if exponent == 0:
        return sign * fraction * 2.0**-24
    if exponent == 31:
        return sign * (1e308 * 10) if fraction == 0 else (1e308 * 10) * 0.0
    scale = 2.0**-25
    for _ in range(exponent):
        scale *= 2.0
    return sign * (1024 + fraction) * scale


@native
def _raw(record: int, place: int) -> int:
    """Return a channel of a texel as an integer of 32 bits, extended by its sign if it has one."""
    bits, kind = load_u32(record + L.X_BITS), load_u32(record + L.X_KIND)
    if bits == 8:
        raw = load_u8(place)
        return raw - 256 if kind == L.X_SIGNED and raw & 0x80 else raw
    if bits == 16:
        raw = load_u16(place)
        return raw - 65536 if kind == L.X_SIGNED and raw & 0x8000 else raw
    return load_u32(place)


@native
def _number(record: int, place: int) -> float:
    """Return a channel of a texel as a float: integers as fractions of their largest value."""
    bits, kind = load_u32(record + L.X_BITS), load_u32(record + L.X_KIND)
    if kind == L.X_FLOAT:
        return load_f32(place) if bits == 32 else _half(load_u16(place))
    raw = _raw(record, place)
    most = (1 << (bits - (kind == L.X_SIGNED))) - 1
    found = raw / most
    return -1.0 if found < -1.0 else found


@native
def _texel(record: int, x: int, y: int, z: int) -> int:
    """Return the host address of a texel; 0 outside (border)."""
    x = _place(x, load_u32(record + L.X_WIDTH), load_u8(record + L.X_MODES))
    y = _place(y, load_u32(record + L.X_HEIGHT), load_u8(record + L.X_MODES + 1))
    z = _place(z, load_u32(record + L.X_DEPTH), load_u8(record + L.X_MODES + 2))
    if x < 0 or y < 0 or z < 0:
        return 0
    size = load_u32(record + L.X_CHANNELS) * load_u32(record + L.X_BITS) // 8
    row = z * load_u64(record + L.X_SLICE) + y * load_u32(record + L.X_PITCH)
    return load_u64(record + L.X_DATA) + row + x * size


@native
def _unwritten(record: int, texel: int) -> int:
    flags = load_u64(record + L.X_INIT)
    if flags == 0:
        return 0
    size = load_u32(record + L.X_CHANNELS) * load_u32(record + L.X_BITS) // 8
    place = flags + texel - load_u64(record + L.X_DATA)
    for index in range(size):
        if load_u8(place + index) & 1 == 0:
            return 1
    return 0


@native
def _nearest(record: int, x: int, y: int, z: int, out: int) -> int:
    """Write a texel's channels to `out`; return whether memory there is uninitialised."""
    texel = _texel(record, x, y, z)
    fractions = load_u32(record + L.X_FLAGS) & L.X_FRACTIONS != 0
    real = fractions or load_u32(record + L.X_KIND) == L.X_FLOAT
    for channel in range(4):
        place = out + 4 * channel
        if channel >= load_u32(record + L.X_CHANNELS):
            store_u32(place, 0)
        elif texel == 0:
            store_u32(place, load_u32(record + L.X_BORDER + 4 * channel))
        elif real:
            at = texel + channel * load_u32(record + L.X_BITS) // 8
            store_f32(place, _number(record, at))
        else:
            store_u32(place, _raw(record, texel + channel * load_u32(record + L.X_BITS) // 8))
    return 0 if texel == 0 else _unwritten(record, texel)


@native
def _weight(at: float, low: int) -> float:
    return _floor((at - low) * 256.0 + 0.5) / 256.0


@native
def _linear(record: int, dims: int, x: float, y: float, z: float, layer: int, out: int) -> int:
    """Write the weighted mean of the neighbours' channels to `out`."""
    low_x, low_y, low_z = _floor(x - 0.5), _floor(y - 0.5), _floor(z - 0.5)
    weight_x = _weight(x - 0.5, low_x)
    weight_y = _weight(y - 0.5, low_y) if dims > 1 else 0.0
    weight_z = _weight(z - 0.5, low_z) if dims > 2 else 0.0
    unwritten = 0
    for channel in range(4):
        total = 0.0
        if channel < load_u32(record + L.X_CHANNELS):
            for corner in range(1 << dims):
                right, down, back = corner & 1, (corner >> 1) & 1, corner >> 2
                weight = weight_x if right else 1.0 - weight_x
                weight *= weight_y if down else 1.0 - weight_y
                weight *= weight_z if back else 1.0 - weight_z
                if weight == 0.0:
                    continue
                row = low_y + down if dims > 1 else 0
                slice_ = low_z + back if dims > 2 else layer
                texel = _texel(record, low_x + right, row, slice_)
                if texel == 0:
                    total += weight * load_f32(record + L.X_BORDER + 4 * channel)
                    continue
                at = texel + channel * load_u32(record + L.X_BITS) // 8
                total += weight * _number(record, at)
                unwritten |= _unwritten(record, texel)
        store_f32(out + 4 * channel, total)
    return unwritten


@native
def _coordinate(record: int, bits: int, size: int, out: int) -> float:
    """Return a coordinate, whose bits are those of a float, in texels."""
    store_u32(out + 16, bits)
    at = load_f32(out + 16)
    return at * size if load_u32(record + L.X_FLAGS) & L.X_NORMALIZED else at


@export("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_texture(
    thread: int, launch: int, handle: int, info: int, x: int, y: int, z: int, out: int
) -> int:
    """Fetch from a texture; four words go to `out`. Returns 1 where memory is uninitialised.

    `info` packs dimensions (4 bits), whether coordinates are integers (1), whether z is a layer
    (1) and, from bit 24 on, the site.
    """
    record = _record(thread, launch, handle, info >> 24)
    dims = info & 15
    if record == 0:
        for channel in range(4):
            store_u32(out + 4 * channel, 0)
        return 0
    layer = z if info & L.X_LAYERED else 0
    if info & L.X_INTEGERS:
        return _nearest(record, x, y if dims > 1 else 0, z if dims > 2 else layer, out)
    at_x = _coordinate(record, x, load_u32(record + L.X_WIDTH), out)
    at_y = _coordinate(record, y, load_u32(record + L.X_HEIGHT), out) if dims > 1 else 0.0
    at_z = _coordinate(record, z, load_u32(record + L.X_DEPTH), out) if dims > 2 else 0.0
    if load_u32(record + L.X_FLAGS) & L.X_LINEAR:
        return _linear(record, dims, at_x, at_y, at_z, layer, out)
    row = _floor(at_y) if dims > 1 else 0
    return _nearest(record, _floor(at_x), row, _floor(at_z) if dims > 2 else layer, out)


@native
def _in_surface(thread: int, launch: int, record: int, info: int, x: int, y: int, z: int) -> int:
    """Return the host address of bytes of a surface; 0 outside, with a finding in .trap mode."""
    nbytes, mode = info & 0xFF, (info >> 12) & 3
    width = load_u32(record + L.X_WIDTH) * load_u32(record + L.X_CHANNELS)
    width = width * load_u32(record + L.X_BITS) // 8
    height, depth = load_u32(record + L.X_HEIGHT), load_u32(record + L.X_DEPTH)
    if mode == L.X_CLAMPED:
        x = min(max(x, 0), width - nbytes)
        y = min(max(y, 0), height - 1)
        z = min(max(z, 0), depth - 1)
    inside = x >= 0 and x + nbytes <= width and 0 <= y < height and 0 <= z < depth
    if not inside:
        if mode == L.X_TRAPS:
            report(launch, L.K_SURFACE, info >> 24, load_u32(thread + L.GID), x)
        return 0
    if x % nbytes:
        report(launch, L.K_SURFACE_ALIGNMENT, info >> 24, load_u32(thread + L.GID), x)
        return 0
    row = z * load_u64(record + L.X_SLICE) + y * load_u32(record + L.X_PITCH)
    return load_u64(record + L.X_DATA) + row + x


@export("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_surface_load(
    thread: int, launch: int, handle: int, info: int, x: int, y: int, z: int, out: int
) -> int:
    """Read bytes of a surface into `out`; returns 1 where they are uninitialised.

    `info` packs bytes (8 bits), what happens outside (2, from bit 12 on) and the site.
    """
    nbytes = info & 0xFF
    for index in range(nbytes):
        store_u8(out + index, 0)
    record = _record(thread, launch, handle, info >> 24)
    place = 0 if record == 0 else _in_surface(thread, launch, record, info, x, y, z)
    if place == 0:
        return 0
    flags = load_u64(record + L.X_INIT)
    unwritten = 0
    for index in range(nbytes):
        store_u8(out + index, load_u8(place + index))
        if flags and load_u8(flags + place - load_u64(record + L.X_DATA) + index) & 1 == 0:
            unwritten = 1
    return unwritten


@export("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_surface_store(
    thread: int, launch: int, handle: int, info: int, x: int, y: int, z: int, out: int
) -> None:
    """Write bytes from `out` to a surface; `info` as for reading."""
    record = _record(thread, launch, handle, info >> 24)
    place = 0 if record == 0 else _in_surface(thread, launch, record, info, x, y, z)
    if place == 0:
        return
    flags = load_u64(record + L.X_INIT)
    for index in range(info & 0xFF):
        store_u8(place + index, load_u8(out + index))
        if flags:
            store_u8(flags + place - load_u64(record + L.X_DATA) + index, 1)
