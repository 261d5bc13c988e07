# make run | test | bench | build | install PREFIX=FOLDER | wheel. Each sets up what it needs and is quick the second time.
BUILD := build/release
SWOOP := $(BUILD)/swoop
PYTHON := .venv/bin/python
FUZZ_SECONDS ?= 10
PREFIX ?= /usr/local

COVERED ?= test/test_cli.py test/test_tooling.py test/test_tosa_model.py
TIDY ?= $(filter-out %_test.cpp %_fuzz.cpp,$(wildcard src/*/*.cpp))

.PHONY: run test bench build install wheel tests setup test-setup unit peers sanitized fuzz coverage tidy models docs site format clean

run: build
	$(SWOOP) compile test/models/resnet8_int8.pt2 --target ethos-u55-128 -o resnet8.pte --report report.html

# The program and the library that runs files, without the tests.
build: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target swoop

# The folder can be moved later: nothing in it points elsewhere.
install: build
	@cmake --install $(BUILD) --prefix $(abspath $(PREFIX))

# The Python package, made of the same build.
wheel: build
	$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps -w build/wheel .

tests: test-setup
	@cmake --preset release -DSWOOP_TESTS=ON >/dev/null
	@MAKEFLAGS= cmake --build --preset release

# Everything: unit tests, the peers (PyTorch, the TOSA reference model, Vela, ExecuTorch), hostile files under sanitizers, fuzzing.
# The peers leave half of the machine idle: the sanitizers' build goes on beside them.
test: unit
	@$(MAKE) --no-print-directory -j2 peers sanitized
	@$(MAKE) --no-print-directory fuzz

unit: tests
	ctest --test-dir $(BUILD) --output-on-failure

peers: tests
	SWOOP_BUILD=$(BUILD) $(PYTHON) -m pytest -q test

sanitized: test-setup
	@cmake --preset sanitize >/dev/null
	@MAKEFLAGS= nice -n 10 cmake --build --preset sanitize
	ctest --test-dir build/sanitize --output-on-failure -j2

fuzz: test-setup
	@cmake --preset sanitize >/dev/null
	@cmake --build --preset sanitize --target fuzzers
	tools/fuzz.sh build/sanitize $(FUZZ_SECONDS)

# Which lines the unit tests and the Python tests in COVERED run: the figures, and each file in build/coverage/report.
coverage: test-setup
	@$(PYTHON) -m pip install -q --disable-pip-version-check gcovr
	@cmake --preset coverage >/dev/null
	@cmake --build --preset coverage
	ctest --test-dir build/coverage --output-on-failure
	SWOOP_BUILD=build/coverage $(PYTHON) -m pytest -q $(COVERED)
	@mkdir -p build/coverage/report
	$(PYTHON) -m gcovr -r . --gcov-ignore-parse-errors=negative_hits.warn_once_per_file -f 'src/' -e '.*_test\.cpp' -s --html-details build/coverage/report/index.html build/coverage

# clang-tidy with the checks of .clang-tidy, which are errors; TIDY names the files.
tidy: test-setup
	@cmake --preset tidy >/dev/null
	@cmake --build build/tidy --target generated
	printf '%s\n' $(TIDY) | xargs -P $(shell nproc) -n 1 clang-tidy-14 -p build/tidy --quiet

bench: tests
	SWOOP_BUILD=$(BUILD) $(PYTHON) bench/bench.py
	SWOOP_BUILD=$(BUILD) $(PYTHON) bench/compare.py

models: test-setup
	$(PYTHON) test/models/make_models.py

# The pages that the program prints itself; test/test_docs.py compares them.
docs: build
	$(SWOOP) ops --markdown >docs/SUPPORT.md.part && mv docs/SUPPORT.md.part docs/SUPPORT.md
	$(SWOOP) options --markdown >docs/OPTIONS.md.part && mv docs/OPTIONS.md.part docs/OPTIONS.md
	tools/readme.py $(BUILD)

# docs/ as a site in build/site. A broken link is an error.
site: setup
	@$(PYTHON) -m pip install -q --disable-pip-version-check mkdocs
	$(PYTHON) -m mkdocs build -q --strict

format:
	tools/format.sh

setup:
	@tools/setup.sh build

test-setup:
	@tools/setup.sh test

clean:
	rm -rf build
