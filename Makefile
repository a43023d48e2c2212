# SPDX-License-Identifier: Apache-2.0
# `make` or `make help` says what there is. Every target prepares what it needs, so each works on a fresh checkout.
.DEFAULT_GOAL := help
.PHONY: help setup demo install uninstall test asan asan-ext proof valgrind fuzz quick mutants coverage lint fmt bench bench-fit bench-files bench-ranks golden docs site wheels wheels-check platforms test-pythons test-spark release clean
SHELL := /bin/bash

# The Python that makes .venv: the one that made it before, or python3; `make PYTHON=python3.12 demo` takes another.
PYTHON := $(shell .venv/bin/python -c '' 2>/dev/null && echo .venv/bin/python || echo python3)
SETUP = command -v "$(PYTHON)" >/dev/null || { echo "make: there is no $(PYTHON); name a Python >= 3.11 that is" \
    "installed, as in make PYTHON=python3.12 demo" >&2; exit 1; }; "$(PYTHON)" tools/setup
VENV_PYTHON := .venv/bin/python
FUZZ_SECONDS := 60
FUZZ_RUNS := 1000
# Where `make install` puts lamina; DESTDIR goes before it.
PREFIX := /usr/local
DESTDIR :=
IN_VENV := PATH="$(CURDIR)/.venv/bin:$$PATH"
TESTS := -DLAMINA_TESTS=ON -DLAMINA_WERROR=ON -DCMAKE_BUILD_TYPE=Debug
C_FILES = $(shell git ls-files "*.c")
PY_FILES = python/lamina tests bench tools/check tools/setup tools/tally tools/proof tools/mutants tools/release tools/site \
    tools/wheels tools/platforms tools/test-pythons tools/test-spark

help: ## says what there is to make
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 21

setup: ## installs what is missing, builds lamina, puts it into .venv
	@$(SETUP)

demo: ## sets up, builds, and prints real models' tables
	@$(SETUP) demo
	@tools/demo

install: ## the native command, library, manual and completions under PREFIX (PREFIX=~/.local); needs no Python
	@tools/install add "$(PREFIX)" "$(DESTDIR)"

uninstall: ## removes from PREFIX exactly what make install put there
	@tools/install remove "$(PREFIX)" "$(DESTDIR)"

test: ## runs everything that is tested; the closing lines count it and say what was skipped and why
	@$(SETUP) test
	@tools/test

asan: ## the C tests alone, under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(SETUP) test
	@$(IN_VENV) cmake -G Ninja -S . -B build/asan $(TESTS) -DLAMINA_SANITIZE=ON
	@$(IN_VENV) cmake --build build/asan
	@$(IN_VENV) ctest --test-dir build/asan --output-on-failure -j $$(nproc)

asan-ext: ## all Python tests, with the extension under the same two
	@$(SETUP) test
	@tools/sanitize

proof: asan ## records over how many random shapes the C tests prove each rule; `make docs` prints it
	@tools/proof build/asan/proof

valgrind: ## the C tests under valgrind
	@$(SETUP) test
	@$(IN_VENV) cmake -G Ninja -S . -B build/valgrind $(TESTS)
	@$(IN_VENV) cmake --build build/valgrind
	@for test in build/valgrind/tests/c/{test,values}_*; do [ -x "$$test" ] && [ ! -d "$$test" ] || continue; \
	    echo "valgrind $$(basename $$test)"; \
	    LAMINA_ROUNDS=40 valgrind --quiet --leak-check=full --errors-for-leak-kinds=all --error-exitcode=9 "$$test" \
	    >/dev/null 2>build/valgrind.log || { cat build/valgrind.log; exit 1; }; done; echo "valgrind: clean"

fuzz: ## feeds made-up texts and damaged files to what reads them, FUZZ_SECONDS (60) each; FUZZ_RUNS (1000) a format
	@$(SETUP) fuzz
	@$(IN_VENV) cmake -G Ninja -S . -B build/fuzz -DLAMINA_FUZZ=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang
	@$(IN_VENV) cmake --build build/fuzz --target fuzzers
	@$(IN_VENV) tools/fuzz $(FUZZ_SECONDS) $(FUZZ_RUNS)

quick: ## the tests that see ROOM (make quick ROOM=analyse/field, python/ext/calls, python/lamina/_run), once
	@$(SETUP) test
	@$(IN_VENV) tools/mutants "$(or $(ROOM),base)" -n 0

mutants: ## changes one place of ROOM at a time (make mutants ROOM=base) and tells what no test notices
	@$(SETUP) test
	@$(IN_VENV) tools/mutants "$(or $(ROOM),base)"

coverage: ## branch coverage of src/ by the tests; fails under 90 %
	@$(SETUP) coverage
	@tools/coverage

lint: ## clang-format, clang-tidy, cppcheck, ruff, mypy --strict and the house rules
	@$(SETUP) lint
	@tools/lint $(C_FILES)

fmt: ## formats C and Python in place
	@$(SETUP) lint
	@clang-format -i $(C_FILES)
	@$(IN_VENV) ruff format -q $(PY_FILES)
	@$(IN_VENV) ruff check -q --fix $(PY_FILES)

bench: ## what a capture costs, beside other tools, with the bars to hold
	@$(SETUP) bench
	@OMP_NUM_THREADS=1 PYTHONPATH=tests/shim $(VENV_PYTHON) bench/bench.py

bench-fit: ## predicted peaks of memory against measured ones, with the bars to hold
	@$(SETUP) bench-fit
	@OMP_NUM_THREADS=1 PYTHONPATH=tests/shim:tests/py:.venv/fit $(VENV_PYTHON) bench/fit.py

bench-files: ## what the native command takes for files of models, beside other tools, with the bars to hold
	@$(SETUP) test
	@$(IN_VENV) $(VENV_PYTHON) bench/files.py

bench-ranks: ## what folders of runs cost, and whom the verdict names: of made-up runs, and of processes here, with the bars to hold
	@$(SETUP) test
	@$(IN_VENV) $(VENV_PYTHON) bench/folders.py
	@$(IN_VENV) $(VENV_PYTHON) bench/ranks.py

golden: ## rewrites the expected transcripts in tests/golden and docs; look at the diff before you keep it
	@$(SETUP) demo
	@LAMINA_REWRITE=1 $(VENV_PYTHON) -m pytest -q -p no:randomly tests/golden tests/docs

docs: ## prints docs/rules.md from the tables of rules, and draws docs/pictures
	@$(SETUP) demo
	@$(VENV_PYTHON) tools/rules_page > docs/rules.md.new && mv docs/rules.md.new docs/rules.md
	@$(VENV_PYTHON) tools/pictures docs/pictures

site: ## builds the pages of docs/ as a site in build/html, and checks its links
	@$(SETUP) site
	@$(VENV_PYTHON) tools/site

release: ## if asan and asan-ext pass, builds a release into dist/, checks it, and prints what is left to do by hand
	@$(SETUP) test
	@$(IN_VENV) tools/release --texts
	@$(MAKE) asan asan-ext
	@$(IN_VENV) tools/release

wheels: ## builds the wheels for Linux (or TARGETS=x86_64-gnu) and the source package, each twice, into dist/
	@"$(PYTHON)" tools/wheels --twice $(TARGETS)

wheels-check: ## installs and uses the wheel of dist/ for this machine, or FILES="dist/*manylinux* dist/*.tar.gz"
	@$(SETUP) $(if $(FILES),wheels,demo)
	@tools/wheels-check $(FILES)

platforms: ## compiles for macOS and Windows, by zig, what can run there
	@"$(PYTHON)" tools/platforms

test-pythons: ## the wheel with other versions of Python and torch: PAIRS="3.13:2.8 3.14:newest", or all
	@"$(PYTHON)" tools/test-pythons $(PAIRS)

test-spark: ## the questions of docs/scale.md and the SQL of the verdict in Spark, beside DuckDB; needs Java, installs pyspark
	@$(SETUP) spark
	@$(IN_VENV) tools/test-spark $(FOLDERS)

clean: ## removes what was built; .venv stays
	@rm -rf build coverage dist
