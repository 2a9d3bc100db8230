"""A QR code for a terminal."""

from __future__ import annotations


def qr_lines(text: str) -> list[str] | None:
    """Two rows of the code in each line of half blocks, light on dark; None where the library is not installed."""
    try:
        import segno
    except ImportError:
        return None
    code = segno.make(text, error="l", micro=False)
    # Readers want a quiet margin of four; two are enough on a dark terminal, and fit on small ones.
    rows = [list(row) for row in code.matrix_iter(border=2)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    # What is light in the code is drawn, what is dark is left: most terminals are dark.
    return [
        "".join(_HALVES[(not upper, not lower)] for upper, lower in zip(above, below, strict=True))
        for above, below in zip(rows[::2], rows[1::2], strict=True)
    ]


_HALVES = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
