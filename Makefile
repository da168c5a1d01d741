# Make targets are the only interface: people and CI call the same ones.

SHELL := /bin/sh
ROOT := $(CURDIR)
CACHE := $(ROOT)/.cache
MODULE := github.com/cdc-relay/cdc-relay
MODULES := $(patsubst %/go.mod,%,$(wildcard ./go.mod ./*/go.mod ./*/*/go.mod))
# The tags of the root module are v…; those of the others, such as writer/v…, stand on the same commits.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo devel)

GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)
GORELEASER := $(CACHE)/bin/goreleaser-v2.15.4/goreleaser
SYFT := $(CACHE)/bin/syft-v1.42.1/syft
MKDOCS := $(CACHE)/site/bin/mkdocs
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB ?= https://vuln.go.dev

# A static binary: no C library, no paths of this machine.
GOBUILD = CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'

IMAGE ?= cdc-relay
ARCH ?= $(shell go env GOARCH)
ENGINE ?= $(firstword $(foreach engine,docker podman buildah,$(if $(shell command -v $(engine)),$(engine))))
CERTIFICATES ?= /etc/ssl/certs/ca-certificates.crt

# The race detector needs a C compiler; without one the tests run all the same.
RACE := $(if $(shell command -v "$$(go env CC)" 2>/dev/null),-race,)
FUZZTIME ?= 30s
SOAKTIME ?= 1h
KILLS ?= 200
REPAIRS ?= 20
RUNS ?= 20
RUN ?=
PKG ?=
ARGS ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@echo "usage: make <target>"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary bin/cdc-relay.
	$(GOBUILD) -o bin/cdc-relay ./cmd/cdc-relay

# Licences of what is linked ask for their texts next to the binary. Those of the modules stand in their roots and beside some packages.
.PHONY: licences
licences:
	@mkdir -p bin
	@for os in linux darwin; do \
		GOOS=$$os go list -deps -f '{{with .Module}}{{if not .Main}}{{$$.Dir}}{{"\n"}}{{.Dir}}{{end}}{{end}}' ./cmd/cdc-relay || exit 1; \
	done > bin/licences
	@{ go env GOROOT; echo internal/admin/page; grep . bin/licences; } | sort -u | while read -r dir; do \
		find "$$dir" -maxdepth 1 -type f -iregex '.*/\(.*\.\)?\(un\)?\(licen[cs]e\|copying\|notice\)[^/]*' || exit 1; \
	done > bin/licences.files
	@sort bin/licences.files | while read -r file; do echo "===== $$file" && cat "$$file" && echo || exit 1; done > bin/licences
	@sed "s,^===== $$(go env GOMODCACHE)/,===== ,;s,^===== $$(go env GOROOT)/,===== go/," bin/licences > bin/THIRD_PARTY_LICENSES
	@rm bin/licences bin/licences.files

.PHONY: image
image: licences ## Build the container image IMAGE (cdc-relay) for ARCH (this machine's) with ENGINE (docker, podman or buildah).
	@mkdir -p bin/image/empty && install -d -m 1777 bin/image/rootfs/tmp
	GOOS=linux GOARCH=$(ARCH) $(GOBUILD) -o bin/image/cdc-relay-linux-$(ARCH) ./cmd/cdc-relay
	@cp $(CERTIFICATES) bin/image/ca-certificates.crt && cp LICENSE bin/THIRD_PARTY_LICENSES bin/image/
	$(ENGINE) build --platform linux/$(ARCH) -f deploy/Containerfile -t $(IMAGE) --build-arg TARGETARCH=$(ARCH) \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD) \
		--build-arg CREATED=$(shell git log -1 --format=%cI) bin/image

.PHONY: demo
demo: build ## Run the whole path on this machine, DB=postgres, mysql or mariadb, and count what was lost: about a minute.
	@go build -o bin/demo ./test/demo
	@CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay bin/demo $(ARGS)

.PHONY: setup
setup: ## Fetch the servers that the tests need into .cache.
	@go run ./internal/testenv/fetch all

.PHONY: test
test: setup build ## Run every test of every module on real servers. A test that fails is run again, see test/suite.
	@test -n "$(RACE)" || echo "no C compiler: running without the race detector"
	@CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay go run ./test/suite $(RACE)

.PHONY: flaky
flaky: setup build ## Run the tests RUN (a pattern) of the packages PKG, or with ALL=1 every test, RUNS (20) times while all cores are busy.
	@CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay go run ./test/suite $(RACE) -runs $(RUNS) $(if $(ALL),-all,-run '$(value RUN)' $(PKG))

.PHONY: test-emulated
test-emulated: setup ## Publish from each database with the arm64 binary on an amd64 machine. Needs Debian's qemu-user-static.
	GOARCH=arm64 $(GOBUILD) -o bin/cdc-relay-linux-arm64 ./cmd/cdc-relay
	@printf '#!/bin/sh\nexec qemu-aarch64-static $(ROOT)/bin/cdc-relay-linux-arm64 "$$@"\n' > bin/emulated && chmod +x bin/emulated
	CDC_RELAY_BIN=$(ROOT)/bin/emulated go test -count=1 -run '^Test(Run|Standby|Event|DeadLetters)$$' ./test/commands

.PHONY: lint
lint: $(GOLANGCI) site ## Check every module with golangci-lint, and the links of the docs.
	@for m in $(MODULES); do echo "lint $$m" && \
		(cd $$m && $(GOLANGCI) run --allow-parallel-runners --config $(ROOT)/.golangci.yml ./...) || exit 1; done

.PHONY: site
site: $(MKDOCS) ## Build the docs as a site into bin/site; a link that leads nowhere is an error. Needs Python with venv, and PyPI.
	NO_MKDOCS_2_WARNING=1 $(MKDOCS) build --strict --config-file site/mkdocs.yml

$(MKDOCS): site/requirements.txt
	@python3 -m venv --clear $(CACHE)/site && $(CACHE)/site/bin/pip install -q --disable-pip-version-check -r site/requirements.txt
	@touch $@

.PHONY: fmt
fmt: $(GOLANGCI) ## Format every module.
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI) fmt --config $(ROOT)/.golangci.yml ./...) || exit 1; done

$(GOLANGCI):
	@mkdir -p $(CACHE)/bin/tmp
	GOBIN=$(CACHE)/bin/tmp go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(CACHE)/bin/tmp/golangci-lint $@

# A release's tools: each in a directory that carries its version.
$(GORELEASER) $(SYFT):
	GOFLAGS= CGO_ENABLED=0 GOBIN=$(@D) go install \
		$(if $(findstring syft,$@),github.com/anchore/syft/cmd/syft,github.com/goreleaser/goreleaser/v2)@$(lastword $(subst -, ,$(@D)))

.PHONY: release-files
release-files: build licences ## Write completions and manual pages to bin/release, and the licences of linked modules.
	@rm -rf bin/release && mkdir -p bin/release/completions bin/release/man
	@for shell in bash zsh fish; do bin/cdc-relay completion $$shell > bin/release/completions/cdc-relay.$$shell || exit 1; done
	@SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct) CDC_RELAY_MAN=$(ROOT)/bin/release/man go test -count=1 -run '^TestEveryCommandHasAManualPage$$' ./cmd/cdc-relay
	@gzip -9n bin/release/man/*.1

.PHONY: release release-snapshot
release: ## Pack the release of this commit's tag, and make a draft of it on GitHub with GITHUB_TOKEN.
release-snapshot: ## Check .goreleaser.yaml and pack archives, packages, SBOMs and checksums into bin/dist.
# Left alone, GoReleaser takes the last tag by name, that of another module.
release release-snapshot: $(GORELEASER) $(SYFT)
	$(GORELEASER) check
	PATH=$(dir $(SYFT)):$$PATH GORELEASER_CURRENT_TAG=$(shell git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null || echo v0.0.0) \
		$(GORELEASER) release $(if $(findstring snapshot,$@),--snapshot) --clean

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

.PHONY: bench-peers
bench-peers: build ## Measure against Debezium Server on the same PostgreSQL, MySQL and Kafka; fetches 840 MB.
	@go run ./internal/testenv/fetch postgres-15 kafka mysql
	@go run ./bench -only peers,usual -usual postgres,mysql,at-least-once,100,1000,this,debezium $(ARGS)

.PHONY: profile
profile: build ## Run the drain benchmark and write CPU and heap profiles of the relay to bench/out.
	@go run ./internal/testenv/fetch postgres-15 kafka mysql mariadb
	@go run ./bench -profile bench/out $(ARGS)

.PHONY: dashboard
dashboard: ## Write Grafana's dashboard anew from its generator.
	python3 deploy/grafana/dashboard.py > deploy/helm/cdc-relay/files/dashboard.json

# The pictures of the docs are among them.
.PHONY: screenshots
screenshots: setup build ## Write pictures of the page in each state, light, dark and of a phone, to bin/screenshots, and those of the docs.
	@mkdir -p bin/screenshots
	CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay CDC_RELAY_SCREENSHOTS=$(ROOT)/bin/screenshots \
		go test -count=1 -run '^TestPage(States|Views|InBrowser)$$' ./test/commands
	@cd bin/screenshots && cp load-light.png ../../docs/page-desktop.png && cp kafka-away-dark.png ../../docs/page-outage.png && \
		cp letters-phone.png ../../docs/page-phone.png && cp dead-letters-light.png ../../docs/page-letters.png

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

.PHONY: consumer-kills
consumer-kills: setup ## Kill, stop and replace consumers with the inbox in CONSUMER_KILLS (1000) rounds on each database.
	CDC_RELAY_KILLS=$(or $(CONSUMER_KILLS),1000) go test -count=1 -timeout 0 -run '^TestConsumersThatAreKilled$$' -v ./test/inbox

.PHONY: upgrade
upgrade: setup build ## Upgrade under load from the build of the commit BEFORE, and back, on each database or on DB=mysql.
	@test -n "$(BEFORE)" || { echo "usage: make upgrade BEFORE=<commit>"; exit 2; }
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git archive "$(BEFORE)" | tar -x -C "$$dir" && \
		(cd "$$dir" && $(GOBUILD) -o cdc-relay ./cmd/cdc-relay) && \
		CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay CDC_RELAY_BEFORE="$$dir/cdc-relay" CDC_RELAY_SOURCES=$(DB) \
		go test -count=1 -timeout 0 -run '^TestUpgrade$$' -v ./test/faults

.PHONY: repairs
repairs: setup build ## Lose the slot or purge the binlog REPAIRS (20) times on each database, or on DB=mysql, and repair.
	CDC_RELAY_BIN=$(ROOT)/bin/cdc-relay CDC_RELAY_REPAIRS=$(REPAIRS) CDC_RELAY_SOURCES=$(DB) \
		go test -count=1 -timeout 0 -run '^TestRepair$$' -v ./test/faults

# The version of writer that pgxwriter requires may not be published yet: the working tree stands in for it.
.PHONY: tidy-check
tidy-check: ## Fail if a go.mod or go.sum is not tidy.
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && for m in $(MODULES); do \
		cp $$m/go.mod "$$tmp" && sed '\,^$(MODULE)/,d' $$m/go.sum > "$$tmp/go.sum" && \
		go mod edit -replace=$(MODULE)/writer=$(ROOT)/writer -replace=$(MODULE)/inbox=$(ROOT)/inbox "$$tmp/go.mod" && \
		(cd $$m && GOWORK=off go mod tidy -diff -modfile="$$tmp/go.mod") || exit 1; done

# It is not part of .ci/run, which must pass without the network; without VULNDB it fails and says so.
.PHONY: vuln
vuln: ## Check what is shipped for known vulnerabilities, those of VULNDB (https://vuln.go.dev).
	@for m in ./cmd/... $(patsubst %,%/...,$(filter ./writer% ./inbox%,$(MODULES))); do echo "vuln $$m" && go run $(GOVULNCHECK) -db $(VULNDB) $$m || exit 1; done
