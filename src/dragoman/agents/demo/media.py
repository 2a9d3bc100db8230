"""A small image and a short sound as base64 text, computed so that the package needs no media files."""

from __future__ import annotations

import binascii
import math
import struct
import zlib

PNG = "image/png"
WAV = "audio/wav"

SAMPLES_PER_S = 8000


def picture(side: int = 48) -> str:
    """A square PNG: a sun over a sea, each pixel computed."""
    rows = b"".join(b"\0" + b"".join(_pixel(x, y, side) for x in range(side)) for y in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)  # 8 bits a channel, red green blue
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    return _base64(b"\x89PNG\r\n\x1a\n" + chunks)


def _pixel(x: int, y: int, side: int) -> bytes:
    if y > side * 2 // 3:
        return bytes((20, 70 + 100 * (side - y) // side, 140))
    if (x - side // 2) ** 2 + (y - side // 2) ** 2 < (side // 4) ** 2:
        return bytes((255, 205, 70))
    return bytes((250 - 70 * y // side, 150 + 60 * y // side, 190))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def sound(seconds: float = 0.2, pitch: float = 660.0) -> str:
    """A beep as WAV: one channel, 8 bits."""
    count = int(SAMPLES_PER_S * seconds)
    samples = bytes(int(128 + 90 * math.sin(2 * math.pi * pitch * i / SAMPLES_PER_S)) for i in range(count))
    layout = struct.pack("<IHHIIHH", 16, 1, 1, SAMPLES_PER_S, SAMPLES_PER_S, 1, 8)
    body = b"WAVEfmt " + layout + b"data" + struct.pack("<I", count) + samples
    return _base64(b"RIFF" + struct.pack("<I", len(body)) + body)


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def base64_size(text: str) -> int:
    """Return the number of bytes that a base64 text encodes: three for four characters, minus its `=` signs."""
    return len(text) * 3 // 4 - text[-2:].count("=")
