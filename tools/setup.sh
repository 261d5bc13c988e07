#!/usr/bin/env bash
# Sets up a fresh Debian or Ubuntu machine; run again, it finds what is there and is done in a blink.
#   tools/setup.sh build   what the build needs: system packages, .venv with the executorch wheel, regor's source (default)
#   tools/setup.sh test    and what the tests need: googletest, clang for fuzzing, Chromium for the report, and the peers
#                          they compare with: PyTorch, executorch with Vela and the TOSA reference model, pytest;
#                          scikit-learn for real data, scikit-build-core for the wheel
#   tools/setup.sh architectures   and what tools/architectures.py builds networks from: timm, torchvision, transformers
# SWOOP_CACHE (default ~/.cache/swoop) keeps regor, its source and its library, for all clones.
set -euo pipefail

readonly EXECUTORCH=1.5.1
readonly TORCH=2.13.0   # executorch 1.5.1 is built against it
readonly VELA=5.1.0     # what executorch 1.5.1 pins; cmake/dependencies.cmake names the same
readonly ARCHITECTURES=(torchvision==0.28.0 timm==1.0.30 transformers==5.22.2)  # torchvision 0.28 is built against torch 2.13
readonly VELA_SHA256=5f260e3aabfb54f5758311efbdd86f742b5e54aba27caffefcfc3175e301341a
readonly BUILD_PACKAGES=(cmake ninja-build g++ libsimdjson-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev libflatbuffers-dev flatbuffers-compiler libcli11-dev libleptonica-dev
                         libfmt-dev libeigen3-dev python3-venv ccache)
readonly TEST_PACKAGES=(libgtest-dev clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev chromium zsh fish)

root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venv
cache=${SWOOP_CACHE:-$HOME/.cache/swoop}
regor=$cache/regor-$VELA

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

system_packages() {
  command -v apt-get >/dev/null || { say "no apt-get here; install these yourself: $*"; return; }
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if (( ${#missing[@]} == 0 )); then say "system packages are there"; return; fi
  say "installing system packages: ${missing[*]}"
  local as_root=()
  if (( EUID != 0 )); then
    command -v sudo >/dev/null || fail "not root and no sudo; install these yourself: ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

# installed NAME VERSION: asks the file system, because asking pip takes a second. A local version such as 2.13.0+cpu
# counts.
installed() { compgen -G "$venv/lib/python3*/site-packages/$1-$2*.dist-info" >/dev/null; }

virtual_environment() {
  if [[ -x $venv/bin/python ]]; then say "virtual environment is there"; return; fi
  say "creating the virtual environment .venv"
  python3 -m venv "$venv"
}

pip_install() { "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@"; }

executorch_wheel() {
  if installed executorch $EXECUTORCH; then say "executorch $EXECUTORCH is there"; return; fi
  say "installing the executorch $EXECUTORCH wheel without its dependencies"
  pip_install --no-deps --no-compile "executorch==$EXECUTORCH"  # the build reads headers and libraries, no Python
}

peers() {
  if installed torch $TORCH; then say "torch $TORCH is there"; else
    say "installing torch $TORCH"
    pip_install "torch==$TORCH"
  fi
  if installed executorch $EXECUTORCH && installed ethos_u_vela $VELA && installed tosa_tools '' &&
     installed pytest '' && installed numpy '' && installed scikit_learn '' && installed scikit_build_core ''; then
    say "executorch with Vela $VELA, pytest, numpy, scikit-learn and scikit-build-core are there"
  else
    say "installing executorch $EXECUTORCH with Vela, the TOSA reference model, pytest, numpy, scikit-learn and scikit-build-core"
    pip_install "torch==$TORCH" "executorch[ethos-u]==$EXECUTORCH" pytest numpy scikit-learn scikit-build-core
  fi
}

architectures() {
  local package missing=()
  for package in "${ARCHITECTURES[@]}"; do installed "${package%%==*}" "${package##*==}" || missing+=("$package"); done
  if (( ${#missing[@]} == 0 )); then say "timm, torchvision and transformers are there"; return; fi
  say "installing ${missing[*]}"
  pip_install "torch==$TORCH" "${missing[@]}"
}

# Unpacked under a temporary name and renamed, so that half a tree is never taken for the source. The build makes the
# library from it (tools/regor.sh).
regor_source() (
  if [[ -d $regor/src/ethosu/regor ]]; then say "the source of regor $VELA is there"; return; fi
  say "downloading the source of regor (ethos-u-vela $VELA)"
  mkdir -p "$cache"
  local work
  work=$(mktemp -d "$regor.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  "$venv/bin/python" -m pip download -q --disable-pip-version-check --no-deps --no-binary ethos-u-vela -d "$work" \
    "ethos-u-vela==$VELA"
  local tarball=$work/ethos_u_vela-$VELA.tar.gz
  echo "$VELA_SHA256  $tarball" | sha256sum --check --quiet ||
    fail "$tarball is not the release this project was tested with"
  mkdir -p "$work/src" "$regor"
  tar -xzf "$tarball" -C "$work/src" --strip-components=1
  mv -T "$work/src" "$regor/src" 2>/dev/null || [[ -d $regor/src/ethosu/regor ]] || fail "cannot write $regor/src"
)

what=${1:-build}
packages=("${BUILD_PACKAGES[@]}")
case $what in
  build) ;;
  test | architectures) packages+=("${TEST_PACKAGES[@]}") ;;
  *) fail "unknown word '$what'; use: tools/setup.sh [build|test|architectures]" ;;
esac
system_packages "${packages[@]}"
virtual_environment
regor_source &  # each waits for a network
executorch_wheel
wait $!
if [[ $what != build ]]; then peers; fi
if [[ $what == architectures ]]; then architectures; fi
