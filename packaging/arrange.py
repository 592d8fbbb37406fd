#!/usr/bin/env python3
"""Prints the linker script that lays what a program runs at rest next to each other: arrange.py PROGRAM RECORD... > start.ld

The kernel maps 64 KiB around each page of a program that is touched, so what is touched here and there costs nearly the whole program.
A record is what callgrind saw of PROGRAM, which has its symbols (master and agent alike; `make bench` measures what it brings):

    cargo build --release --config profile.release.strip=false -p coracle-master
    valgrind --tool=callgrind --demangle=no --callgrind-out-file=RECORD target/release/coracle-master ...

with an agent and a master that know each other, for a minute after the start. Names are kept without what changes with a compiler or a
version, so a list that is some months old still fits but for what is new; that is found by nobody but the bench.
"""

import re
import subprocess
import sys

# A generic function's forms share a name. Where the ones that did not run are larger than this for each that ran, a place far away is
# the smaller cost.
FORMS_BYTES_MAX = 64 * 1024


def pattern(symbol):
    symbol = re.sub(r"17h[0-9a-f]{16}E.*$", "17h", symbol)
    symbol = re.sub(r"\.llvm\.\d+$|\.\d+$", "", symbol)
    return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", symbol) + "*"


def functions(program):
    listed = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "tTwW"}


def ran(records):
    names = set()
    for record in records:
        with open(record) as lines:
            found = (re.match(r"c?fn=\(\d+\) (.+)", line) for line in lines)
            names |= {re.sub(r"'\d+$", "", match.group(1)) for match in found if match}
    return names


def main():
    sizes, names = functions(sys.argv[1]), ran(sys.argv[2:])
    idle, forms = {}, {}
    for symbol, size in sizes.items():
        at = pattern(symbol)
        if symbol in names:
            forms[at] = forms.get(at, 0) + 1
        else:
            idle[at] = idle.get(at, 0) + size
    wanted = sorted(at for at, count in forms.items() if idle.get(at, 0) <= count * FORMS_BYTES_MAX)
    print("/* What runs at rest, next to each other. Made by packaging/arrange.py, which says why. */")
    print("SECTIONS\n{\n  .text.start :\n  {\n    *(")
    print("\n".join(f"      .text.*{at}" for at in wanted))
    print("    )\n  }\n}\nINSERT BEFORE .text;")


main()
