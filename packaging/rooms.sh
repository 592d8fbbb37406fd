#!/usr/bin/env bash
# rooms.sh [FOLDER...]: prints each source file below the folders with the first paragraph of its head.
set -euo pipefail
cd "$(dirname "$0")/.."

find "${@:-.}" -name '*.rs' -path '*/src/*' -not -path '*/target/*' -not -path '*/tests/*' -not -name tests.rs | sed 's:^\./::' | LC_ALL=C sort \
    | while read -r file; do
        awk -v file="$file" '
            /^\/\/! / && !over { sub(/^\/\/! /, ""); text = text " " $0; next }
            { over = 1 }
            END { printf "%-46s%s\n", file, text }' "$file"
    done
