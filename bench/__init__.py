"""Benchmarks of Dragoman, side by side with its peers, in one run: `python -m bench`, or `make bench`.

A bench shows, it does not judge: it prints which bars are met and which are missed, and ends with 0
either way. It ends with 1 when something could not be measured.
"""
