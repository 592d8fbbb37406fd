#!/usr/bin/env python3
"""Prints the linker script that lays what a program runs at rest next to each other: arrange.py PROGRAM RECORD... > start.ld

The kernel maps 64 KiB around each page of a program that is touched, so what is touched here and there costs nearly the whole program.
A RECORD is what callgrind saw of PROGRAM, which has its symbols; packaging/arrange.sh makes both. The first record is of a rest: what only
the others saw lies behind it, and costs nothing until it runs.

Names are kept without what changes with a compiler or a version, so a list that is some months old still fits but for what is new; that
is found by nobody but the bench. They tell a generic function's forms apart only where packaging/build.sh built the program.
"""

import re
import subprocess
import sys

# What runs and no record has: callgrind's processor lacks instructions that others have, and its kernel a call.
UNSEEN = re.compile("x86_sha|pclmulqdq|pidfd")


def pattern(symbol):
    symbol = re.sub(r"\.llvm\.\d+$", "*", symbol)
    symbol = re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", symbol)
    # The place of an impl in its file, and how far back a name stood.
    symbol = re.sub(r"([MX])(s[0-9A-Za-z]*_)?(?=N|Cs)", r"\1*", symbol)
    return re.sub(r"B[0-9A-Za-z]*_", "B*_", symbol)


def functions(program):
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {row[2] for row in rows if len(row) == 3 and row[1] in "tTwW"}


def ran(record):
    with open(record) as lines:
        found = (re.match(r"c?fn=\(\d+\) (.+)", line) for line in lines)
        # A function that calls itself is told apart by its depth.
        return {re.sub(r"'\d+$", "", match.group(1)) for match in found if match}


def group(symbols):
    return "    *(\n" + "".join(f"      .text.*{at}\n" for at in sorted(set(map(pattern, symbols)))) + "    )"


def main():
    program = functions(sys.argv[1])
    records = [ran(record) & program for record in sys.argv[2:]]
    rest = records[0] | {symbol for symbol in program if UNSEEN.search(symbol)}
    more = set().union(*records[1:]) - rest
    print("/* What runs at rest, next to each other. Made by packaging/arrange.py, which says why. */")
    print("SECTIONS\n{\n  .text.start :\n  {\n    *crt1.o(.text)")
    print(group(rest), group(more), sep="\n")
    print("  }\n}\nINSERT BEFORE .text;")


main()
