#!/usr/bin/env bash
# tools/fuzz.sh BUILD SECONDS: runs every fuzzer of BUILD that long, on seeds from test/ and what earlier runs found (kept in BUILD/corpus).
set -euo pipefail
build=$1
seconds=$2
failed=0
for fuzzer in "$build"/*_fuzz; do
  name=$(basename "$fuzzer")
  mkdir -p "$build/corpus/$name"
  seeds=test/fuzz/$name
  [[ -d $seeds ]] || seeds=
  echo "$name: $seconds s"
  if ! "$fuzzer" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 \
       -artifact_prefix="$build/" "$build/corpus/$name" $seeds >"$build/$name.log" 2>&1; then
    tail -40 "$build/$name.log"
    echo "$name: FAILED"
    failed=1
  else
    grep -E "number_of_executed_units" "$build/$name.log" | sed "s/^/$name: /"
  fi
done
exit $failed
