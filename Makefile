# make run | test | bench | build. Each sets up what it needs and is quick the second time.
BUILD := build/release
SWOOP := $(BUILD)/swoop
PYTHON := .venv/bin/python
LAUNCHER := $(shell command -v ccache >/dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
FUZZ_SECONDS ?= 60
# Compiled files are shared between clones and build folders.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: run test bench build setup test-setup unit peers sanitized fuzz models docs format clean

run: build
	$(SWOOP) compile test/models/resnet8_int8.pt2 --target ethos-u55-128 -o resnet8.pte

build: setup
	@cmake --preset release $(LAUNCHER) >/dev/null
	@cmake --build --preset release

# Everything: unit tests, the peers (PyTorch, the TOSA reference model, Vela, ExecuTorch), hostile files under sanitizers, fuzzing.
test: test-setup build unit peers sanitized fuzz

unit:
	ctest --test-dir $(BUILD) --output-on-failure

peers:
	SWOOP_BUILD=$(BUILD) $(PYTHON) -m pytest -q test

sanitized:
	@cmake --preset asan $(LAUNCHER) >/dev/null
	@cmake --build --preset asan
	ctest --test-dir build/asan --output-on-failure

fuzz:
	@cmake --preset fuzz $(LAUNCHER) >/dev/null
	@cmake --build --preset fuzz --target fuzzers
	tools/fuzz.sh build/fuzz $(FUZZ_SECONDS)

bench: test-setup build
	SWOOP_BUILD=$(BUILD) $(PYTHON) bench/bench.py

models: test-setup
	$(PYTHON) test/models/make_models.py

# The pages that the program prints itself; test/test_docs.py compares them.
docs: build
	$(SWOOP) ops --markdown >docs/SUPPORT.md.part && mv docs/SUPPORT.md.part docs/SUPPORT.md
	tools/readme.py $(BUILD)

format:
	tools/format.sh

setup:
	@tools/setup.sh build

test-setup:
	@tools/setup.sh test

clean:
	rm -rf build
