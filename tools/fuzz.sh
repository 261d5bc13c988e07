#!/usr/bin/env bash
# tools/fuzz.sh BUILD SECONDS: runs every fuzzer of BUILD that long, one per core at a time, on seeds from test/ and what earlier runs found (kept in
# BUILD/corpus).
set -euo pipefail
export BUILD=$1 SECONDS_EACH=$2

run_one() {
  local name seeds
  name=$(basename "$1")
  mkdir -p "$BUILD/corpus/$name"
  seeds=test/fuzz/$name
  [[ -d $seeds ]] || seeds=
  if ! "$1" -max_total_time="$SECONDS_EACH" -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 \
       -artifact_prefix="$BUILD/" "$BUILD/corpus/$name" $seeds >"$BUILD/$name.log" 2>&1; then
    tail -40 "$BUILD/$name.log"
    echo "$name: FAILED"
    return 1
  fi
  grep -E "number_of_executed_units" "$BUILD/$name.log" | sed "s/^/$name, $SECONDS_EACH s: /"
}
export -f run_one

printf '%s\n' "$BUILD"/*_fuzz | xargs -P "$(nproc)" -n 1 bash -c 'run_one "$1"' run_one
