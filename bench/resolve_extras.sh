#!/usr/bin/env bash
# See whether llmchat[cuda12] and llmchat[cuda13] resolve on Linux x86_64, and write what they resolve to as
# constraints-cuda12.txt and constraints-cuda13.txt: what `make chat EXTRA=...` installs.
#
#   bench/resolve_extras.sh            uses uv from PATH, or installs it into a throwaway environment
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv=$(command -v uv || true)
if [ -z "$uv" ]; then
    "${PYTHON:-python3}" -m venv "$work/venv"
    "$work/venv/bin/python" -m pip install --quiet uv
    uv="$work/venv/bin/uv"
fi

resolve() { # resolve EXTRA PYTHON OUTPUT [uv's options]
    "$uv" pip compile pyproject.toml --extra "$1" --extra dev --python-version "$2" \
        --python-platform x86_64-manylinux_2_28 --only-binary :all: --quiet --no-header --no-annotate \
        --output-file "$3" "${@:4}" > /dev/null
}
shown() { grep -E '^(torch|rmm-cu1.|cuda-bindings|transformers|bitsandbytes)==' "$1" | paste -sd ' '; }

echo "Newest that resolve (Python 3.12):"
for extra in cuda12 cuda13; do
    resolve "$extra" 3.12 "$work/$extra.txt"
    echo "  $extra: $(shown "$work/$extra.txt")"
done

echo "As pinned (Python 3.11 and newer):"
grep -v '^torch==' constraints.txt > "$work/without-torch.txt"
resolve cuda12 3.11 "$work/pinned12.txt" --constraint "$work/without-torch.txt"
resolve cuda13 3.11 "$work/pinned13.txt" --constraint constraints.txt
for cuda in 12 13; do
    {
        echo "# What llmchat[cuda$cuda,dev] resolves to on Linux x86_64 with the pins of constraints.txt. Rewrite with: make resolve"
        cat "$work/pinned$cuda.txt"
    } > "constraints-cuda$cuda.txt"
    echo "  cuda$cuda: $(shown "constraints-cuda$cuda.txt")"
done
