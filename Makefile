# Make targets are the only interface: people and CI call the same ones.

SHELL := /bin/sh
ROOT := $(CURDIR)
CACHE := $(ROOT)/.cache
MODULE := github.com/cdc-relay/cdc-relay
MODULES := $(patsubst %/go.mod,%,$(wildcard ./go.mod ./*/go.mod ./*/*/go.mod))
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.1.4

# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(if $(shell command -v "$$(go env CC)" 2>/dev/null),-race,)
FUZZTIME ?= 30s
SOAKTIME ?= 1h
KILLS ?= 200
REPAIRS ?= 20
ARGS ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@echo "usage: make <target>"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary bin/cdc-relay.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/cdc-relay ./cmd/cdc-relay

.PHONY: demo
demo: build ## Run the whole path on this machine, DB=postgres, mysql or mariadb, and count what was lost: under a minute.
	@go build -o bin/demo ./test/demo
	@CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay bin/demo $(ARGS)

.PHONY: setup
setup: ## Fetch the servers that the tests need into .cache.
	@go run ./internal/testenv/fetch all

# Packages run one at a time: each may start servers of its own and the figures must not disturb each other.
.PHONY: test
test: setup build ## Run every test of every module on real servers.
	@test -n "$(RACE)" || echo "no C compiler: running without the race detector"
	go test $(RACE) -p 1 -count=1 -timeout 10m $(patsubst %,%/...,$(filter-out ./test,$(MODULES)))
	CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay go test -p 1 -parallel 4 -count=1 -timeout 25m ./test/...

.PHONY: lint
lint: $(GOLANGCI) ## Check every module with golangci-lint.
	@for m in $(MODULES); do echo "lint $$m" && \
		(cd $$m && $(GOLANGCI) run --allow-parallel-runners --config $(ROOT)/.golangci.yml ./...) || exit 1; done

.PHONY: fmt
fmt: $(GOLANGCI) ## Format every module.
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI) fmt --config $(ROOT)/.golangci.yml ./...) || exit 1; done

$(GOLANGCI):
	@mkdir -p $(CACHE)/bin/tmp
	GOBIN=$(CACHE)/bin/tmp go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(CACHE)/bin/tmp/golangci-lint $@

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (30s).
	@grep -rl --include='*_test.go' '^func Fuzz' $(MODULES) | sort -u | while read -r file; do \
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file" | while read -r target; do \
			echo "$$file $$target" && \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")" </dev/null || exit 1; \
		done || exit 1; \
	done

.PHONY: bench
bench: build ## Measure against bare readers on this machine; prints a table and writes JSON.
	@go run ./internal/testenv/fetch postgres-15 kafka mysql mariadb
	@go run ./bench $(ARGS)

.PHONY: bench-writer
bench-writer: setup ## Compare the writer with hand-written INSERTs, on every database.
	@go test -count=1 -run '^$$' -bench '^BenchmarkRatios$$' -benchtime 1x ./test/writer

.PHONY: profile
profile: build ## Run the drain benchmark and write CPU and heap profiles of the relay to bench/out.
	@go run ./internal/testenv/fetch postgres-15 kafka mysql mariadb
	@go run ./bench -profile bench/out $(ARGS)

.PHONY: mutants
mutants: setup ## Break the relay on purpose, in each way of test/mutants, and fail if the tests do not notice.
	@go run ./test/mutants $(ARGS)

.PHONY: soak
soak: setup build ## Run load and faults for SOAKTIME (1h) on each database, or on DB=mysql, with DELIVERY=at-least-once.
	CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay CDC_RELAY_SOAK=$(SOAKTIME) CDC_RELAY_SOURCES=$(DB) CDC_RELAY_DELIVERY=$(DELIVERY) \
		go test -count=1 -timeout 0 -v ./test/soak

.PHONY: kills
kills: setup build ## Kill relays KILLS (200) times, and servers meanwhile, with exactly-once delivery, on each database or on DB=mysql.
	CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay CDC_RELAY_KILLS=$(KILLS) CDC_RELAY_SOURCES=$(DB) CDC_RELAY_DELIVERY=$(or $(DELIVERY),exactly-once) \
		go test -count=1 -timeout 0 -v ./test/soak

.PHONY: repairs
repairs: setup build ## Lose the slot or purge the binlog REPAIRS (20) times on each database, or on DB=mysql, and repair.
	CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay CDC_RELAY_REPAIRS=$(REPAIRS) CDC_RELAY_SOURCES=$(DB) \
		go test -count=1 -timeout 0 -run '^TestRepair$$' -v ./test/faults

# The version of writer that pgxwriter requires may not be published yet: the working tree stands in for it.
.PHONY: tidy-check
tidy-check: ## Fail if a go.mod or go.sum is not tidy.
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && for m in $(MODULES); do \
		cp $$m/go.mod "$$tmp" && sed '\,^$(MODULE)/,d' $$m/go.sum > "$$tmp/go.sum" && \
		go mod edit -replace=$(MODULE)/writer=$(ROOT)/writer "$$tmp/go.mod" && \
		(cd $$m && GOWORK=off go mod tidy -diff -modfile="$$tmp/go.mod") || exit 1; done

.PHONY: vuln
vuln: ## Check what is linked for known vulnerabilities.
	@for m in $(MODULES); do (cd $$m && go run $(GOVULNCHECK) ./...) || exit 1; done
