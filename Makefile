# Every verb sets up what it needs on a fresh clone. No GPU is needed; with one, more runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint bench power install clean

install: $(STAMP)

# torch first and by itself, so that an index with a CPU build serves that one. Elsewhere set
# TORCH_INDEX to an index that has CPU builds, or let pip fetch the CUDA build.
$(STAMP): pyproject.toml packages/ptxsan/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(BIN)/python -m pip install -q -e 'packages/ptxsan[cuda]'
	$(BIN)/python -m pip install -q -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# One seed for the zoo, so that a failure is a change of ours; `make power` draws fresh ones.
test: $(STAMP)
	OMP_NUM_THREADS=1 CUASSAY_ZOO_SEED=$${CUASSAY_ZOO_SEED:-20261121} $(BIN)/python -m pytest -n 2 -m 'not gpu' --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check src packages tests benchmarks examples
	$(BIN)/ruff format --check src packages tests benchmarks examples
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# Every planted bug and its correct twin through the gate: class x (caught, missed, false alarm).
power: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/power.py
	OMP_NUM_THREADS=1 PYTHONPATH=.:packages/ptxsan/tests $(BIN)/python benchmarks/machine_power.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
