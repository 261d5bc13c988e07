#!/usr/bin/env bash
# Formats src/ and test/tool/ as .clang-format says; --check names what is not formatted and changes nothing. Exit code 77: there is no
# clang-format 14 here (other versions break lines elsewhere).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format-14 >/dev/null || { echo "format: clang-format-14 is not installed" >&2; exit 77; }
mode=(-i)
[[ ${1:-} == --check ]] && mode=(--dry-run -Werror)
find src test/tool \( -name '*.cpp' -o -name '*.h' \) -print0 | xargs -0 clang-format-14 "${mode[@]}"
