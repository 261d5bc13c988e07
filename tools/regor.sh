#!/usr/bin/env bash
# tools/regor.sh SOURCE LIBRARY: builds regor's static library, which the build runs beside its own files. Built under a temporary
# name and renamed, so that a broken build is never taken for a library; one builder at a time, because clones share LIBRARY.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source=$1
library=$2
folder=$(dirname "$library")

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
[[ -s $library ]] && exit 0
work=$(mktemp -d "$folder/build.XXXXXX")
trap 'rm -rf "$work"' EXIT

cmake=cmake
[[ -x /usr/bin/cmake ]] && cmake=/usr/bin/cmake  # Debian's, which is new enough, before whatever else is in PATH
# regor's own Release is -O3 with link-time optimisation and warnings as errors. -O2 compiles faster and writes the same programs as
# fast. Ten files at a time read the headers they share once. The bindings, and with them Python, are not needed. Some inner loops
# are ours: the header declares them, and whoever links the library brings them (src/npu).
if ! { "$cmake" -S "$source" -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" \
         -DCMAKE_CXX_FLAGS="-include $root/src/npu/regor_parts.h" \
         -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10 -DCMAKE_PROJECT_regor_INCLUDE="$root/cmake/regor_unity.cmake" \
         -DREGOR_ENABLE_TESTING=OFF -DREGOR_ENABLE_LTO=OFF -DREGOR_ENABLE_WERROR=OFF -DREGOR_ENABLE_CCACHE=OFF \
         -DPython3_FOUND=TRUE && "$cmake" --build "$work" -j "$(nproc)" -t regor-static; } >"$work/build.log" 2>&1; then
  tail -n 40 "$work/build.log" >&2
  echo "regor did not build" >&2
  exit 1
fi
mv "$(find "$work" -name libregor.a -print -quit)" "$library"
