# Every verb sets up what it needs on a fresh clone. No GPU is needed; with one, more runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench power wheels docs install release clean

help: ## list the verbs
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

install: $(STAMP) ## a virtual environment in .venv with everything that development needs

# torch by itself, so that an index with a CPU build serves that one. Elsewhere set TORCH_INDEX to
# an index that has CPU builds, or let pip fetch the CUDA build. Unpacking it keeps one processor
# busy: it goes on beside all that needs no torch, the PTX machine and the compilation of its runtime
# (half a minute of two processors). It comes without what it needs itself, so that no two processes
# install the same files. No hook: an editable install compiles nothing, but would fetch numba twice.
# The demo waits for no tool of development.
# `BEAT` says every ten seconds that its line still runs.
BEAT = ( trap 'kill $$pause 2>/dev/null; exit' TERM; n=0; while :; do sleep 10 & pause=$$!; wait $$pause; n=$$((n + 10)); \
  echo "make: $(1), $$n s"; done ) & beat=$$!; trap 'kill $$beat' EXIT;

$(READY): pyproject.toml packages/ptxsan/pyproject.toml
	@echo "make: installs torch, Triton and the PTX machine into $(VENV); about two minutes of two cores"
	$(PYTHON) -m venv $(VENV)
	@$(call BEAT,installs what the demo needs) \
	  $(BIN)/python -m pip install -q --no-deps $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0 & torch=$$!; \
	  HATCH_BUILD_NO_HOOKS=true $(BIN)/python -m pip install -q -e packages/ptxsan || exit 1; \
	  $(BIN)/python -m ptxsan.runtime.prebuilt & runtime=$$!; \
	  wait $$torch && $(BIN)/python -m pip install -q -e '.[demo]' && wait $$runtime
	touch $(READY)

# cuassay comes first: pip then takes the cuassay that the other distributions need from here.
$(STAMP): $(READY) $(wildcard packages/*/pyproject.toml)
	@$(call BEAT,installs the tools of development) $(BIN)/python -m pip install -q -e '.[dev]' -e packages/cuassay-guard -e packages/cuassay-loops -e packages/cuassay-adapters -e packages/cuassay-attest
	touch $(STAMP)

demo: $(READY) ## judge a wrong, a right and a second wrong kernel, with reports to look at
	$(BIN)/python examples/demo.py

# One seed for the zoo, so that a failure is a change of ours; `make power` draws fresh ones. Bytecode is kept: without it
# collecting the tests alone takes twice as long (15 s of processor time a process instead of 8).
# Tests wait for processes of their own: one worker more than there are cores keeps all of them busy.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 8 ? n + 1 : 9)))
PYTEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --ignore tests/gpu --dist loadfile --no-loadscope-reorder
test: $(STAMP) ## tests of every promise that needs no GPU; AREA=oracle runs those of src/cuassay/oracle alone
	CUASSAY_ZOO_SEED=$${CUASSAY_ZOO_SEED:-20261121} $(PYTEST) -m 'not gpu and not thorough' $(if $(AREA),tests/unit/$(AREA))

lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check src packages tests benchmarks examples
	$(BIN)/ruff format --check src packages tests benchmarks examples
	@$(call BEAT,mypy) $(BIN)/mypy

bench: $(STAMP) ## the benchmarks that run on this machine
	$(BIN)/python benchmarks/run.py

# What `make test` holds on fewer inputs, then every planted bug and its correct twin through the gate: class x (caught,
# missed, false alarm).
power: $(STAMP) ## thorough tests, then every planted bug and twin of the zoo through all checks, under fresh seeds
	$(PYTEST) -m '(thorough or hypothesis) and not gpu' --hypothesis-profile thorough
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/power.py
	OMP_NUM_THREADS=1 PYTHONPATH=.:packages/ptxsan/tests $(BIN)/python benchmarks/machine_power.py

# ptxsan's wheel holds its compiled runtime for this Python and processor; PTXSAN_PURE=1 leaves it out.
wheels: $(STAMP) ## wheels of every distribution, installed into a new environment and used there
	$(BIN)/python benchmarks/wheels.py

docs: $(STAMP) ## the documentation site in build/site; a broken link fails
	$(BIN)/mkdocs build --strict --quiet

# Nothing is uploaded: the wheels and archives lie in dist/, and what is said last is left to a person.
release: $(STAMP) ## wheels and archives of every distribution in dist/, checked as users install them
	@test -z "$$(git status --porcelain)" || { echo "commit first: a release is built from a commit"; exit 1; }
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); grep -q "^## $$version (20" CHANGELOG.md || \
	  { echo "CHANGELOG.md: write '## $$version (YYYY-MM-DD)' over the changes of this release"; exit 1; }
	$(BIN)/uv lock --check
	$(MAKE) lint test docs
	rm -rf dist
	for place in packages/*/ .; do $(BIN)/uv build -q --out-dir dist $$place || exit 1; done
	$(PYTHON) -m venv build/release
	build/release/bin/pip install -q dist/*.whl
	cd build && release/bin/cuassay --version && release/bin/cuassay explain NUM001 > /dev/null
	@echo "now: git tag -a v$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml), push the tag, twine upload dist/*"

clean: ## remove what the other verbs made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
