#!/bin/sh
# build.sh CARGO OPTION...: builds programs as they are released. Their symbols say which form of a generic function they are, so that
# start.ld names the one that runs at rest; built plainly, a program does the same and keeps 2 MB more.
exec cargo build --release --config 'build.rustflags=["-Csymbol-mangling-version=v0"]' "$@"
