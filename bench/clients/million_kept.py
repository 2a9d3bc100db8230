"""The baseline for the memory of `million`: the same chunk texts in a plain list, and nothing else."""

from __future__ import annotations

from bench.clients.memory import peak, resident
from bench.clients.report import arguments, report


def main() -> None:
    options = arguments()
    before = resident()
    texts = [f"word {number:08d} " for number in range(options.count)]
    report(growth=peak() - before, text_bytes=sum(map(len, texts)))


if __name__ == "__main__":
    main()
