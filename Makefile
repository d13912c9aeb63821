# The durations on two cores; during `unit`, the machine also did other work. A second run does not build unchanged programs again.
#
#              clean    again
#   lint       4 min    45 s    builds golangci-lint once, 90 s
#   tools      11 min   2 s     builds OpenTofu from source, up to 4 min for each version that is not in PATH; .ci/run lints at the same time
#   unit       20 min   19 min  spec/backends and spec/acceptance take the longest, because they run OpenTofu
#   fips       3 min    2 min   builds and runs the program and some suites with Go's FIPS 140-3 module
#
# `make fuzz` is not part of `make test`. It takes 2 min with 5 s for each fuzzer, and 20 min with FUZZTIME=1m.
#
# All files that these targets build or download are in build/ and in the caches of Go.

GOLANGCI_LINT_VERSION := v2.15.0
OPENTOFU_VERSION      := 1.12.6
# The versions from which tests upgrade. Only continuous integration builds 1.6.2, the oldest version that paks may use. Elsewhere, the
# tests with this version are skipped unless `scripts/opentofu 1.6.2` built it.
OLDER_OPENTOFU        := 1.10.10 $(if $(filter true,$(CI)),1.6.2)
VERSITYGW_VERSION     := 1.8.0
FAKE_GCS_VERSION      := 1.56.1
AZURITE_VERSION       := 3.35.0
BOSH_CLI_VERSION      := 7.10.1
# The Debian packages for tests. redis-server is the server of the redis pak. The shells run the script of encryption keys. npm installs
# the server for azurerm. The scripts of jobs run with the coreutils that are written in Rust.
PROGRAMS              := postgresql pgbouncer redis-server rabbitmq-server mariadb-server chromium prometheus ruby strace shellcheck busybox dash mksh npm rust-coreutils
FUZZTIME              ?= 5s

GO_BUILD := go build -buildvcs=false -ldflags
# Go records the commit only in a clone and not in a worktree. With -buildvcs, the program would depend on the kind of checkout.
COMMIT   := $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null)
BINARY   := build/bin/service-adapter
LINTER   := build/tools/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
# The race detector requires a C compiler. It runs only for the packages with concurrent code, because it makes tests slower.
RACE     := $(if $(shell command -v "$$(go env CC)"),-race)
PARALLEL := ./adapter/... ./binding ./internal/engine/lifecycle ./internal/operate/preview ./internal/operate/recording ./internal/redact

export GOLANGCI_LINT_CACHE := $(CURDIR)/build/cache/golangci-lint
# The program, its tests and the linter are built with the same settings, so that each package is compiled once.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath

.DEFAULT_GOAL := build
.DELETE_ON_ERROR:

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the program, build/bin/service-adapter (the default)
	$(GO_BUILD) '-s -w -X main.commit=$(COMMIT)' -o $(BINARY) ./cmd/service-adapter

.PHONY: opentofu
opentofu: ## link OpenTofu from PATH, or build it
	scripts/opentofu $(OPENTOFU_VERSION)

# With -j, make builds several tools at the same time, because downloads and links use only one core.
.PHONY: tools
tools: programs opentofu older-opentofu providers servers ## build or install the programs for tests: OpenTofu, providers, servers for states, the code of the BOSH CLI, and as root the Debian packages PROGRAMS

.PHONY: older-opentofu
older-opentofu:
	for version in $(OLDER_OPENTOFU); do scripts/opentofu $$version || exit 1; done

.PHONY: providers
providers:
	@mkdir -p build/providers
	cd spec/providers && $(GO_BUILD) '-s -w' -o $(CURDIR)/build/providers/ ./cmd/...
	cd examples/postgresql/provider && $(GO_BUILD) '-s -w' -o $(CURDIR)/build/providers/ ./cmd/...

.PHONY: servers
servers:
	@scripts/tool versitygw $(VERSITYGW_VERSION) >/dev/null
	@scripts/tool fake-gcs-server $(FAKE_GCS_VERSION) >/dev/null
	@scripts/tool releasedir $(BOSH_CLI_VERSION) >/dev/null
	@scripts/tool azurite $(AZURITE_VERSION) >/dev/null || [ "$$CI" != true ]

# Outside of continuous integration, tests that require a missing program are skipped.
.PHONY: programs
programs:
	@scripts/install $(PROGRAMS) || [ "$$CI" != true ]

.PHONY: test
test: unit fips ## run all tests; fuzzers run only with their seeds and recorded findings

.PHONY: unit
unit: export SPECS = all
unit: build tools ## run all tests except those with the FIPS 140-3 module; `make lint` runs go vet
	go test -vet=off -shuffle=on -timeout 45m ./...
	$(if $(RACE),CGO_ENABLED=1 go test -vet=off $(RACE) -shuffle=on -timeout 30m $(PARALLEL))
	cd examples/postgresql/provider && go test -shuffle=on -timeout 30m ./...

# docs/cryptography.md describes what such a build covers.
FIPS := GOFIPS140=v1.0.0

.PHONY: fips
fips: opentofu providers ## build the program with Go's FIPS 140-3 module, and run the specs of encryption and bindings with it
	$(FIPS) go build -o build/fips/service-adapter ./cmd/service-adapter
	go version -m build/fips/service-adapter | grep fips140=on
	$(FIPS) go test -vet=off -timeout 15m ./internal/engine/statestore ./binding
	$(FIPS) go test -vet=off -timeout 15m ./internal/engine/workspace -ginkgo.focus-file='encryption.*_test|sealed_test'
	$(FIPS) go test -vet=off -timeout 15m ./cmd/service-adapter -run 'TestScripts/^(encryption|bindings-encryption|bindings)$$'

.PHONY: fuzz
fuzz: ## search for inputs that break a fuzzer, for FUZZTIME (5s) each
	scripts/fuzz $(FUZZTIME)

.PHONY: lint
lint: $(LINTER) ## check formatting, style, structure and shell scripts
	$(LINTER) run ./...
	cd spec/providers && $(CURDIR)/$(LINTER) run ./...
	cd examples/postgresql/provider && $(CURDIR)/$(LINTER) run ./...
	cd spec/tools/releasedir-$(BOSH_CLI_VERSION) && $(CURDIR)/$(LINTER) run ./...
	scripts/lint-shell

.PHONY: format
format: $(LINTER) ## format all Go files
	$(LINTER) fmt ./...

.PHONY: bench
bench: build tools ## compare the adapter with OpenTofu and the SDK alone, and write docs/performance.md (5 min); BENCH=quick runs a short trial (1 min)
	go run ./spec/bench $(if $(filter quick,$(BENCH)),-quick -fresh)

# N is the number of faults. SEED is the seed of an earlier run to repeat. The transcripts of findings are written to build/faults.
N    ?= 1000
SEED ?= 0

.PHONY: faults
faults: build tools ## inject N faults (1000) at random moments, and count the lost, forgotten and stuck resources (45 min)
	go run ./spec/faults -n $(N) -seed $(SEED)

# The licences of the modules in the program for a platform, which are part of each release. The target fails if a licence is missing.
.PHONY: build/THIRD_PARTY_LICENSES
build/THIRD_PARTY_LICENSES:
	@mkdir -p $(@D)
	go run ./spec/licences -os linux -arch $(RELEASE_GOARCH) ./cmd/service-adapter >$@

release: build/THIRD_PARTY_LICENSES

# VERSION is the version of the release. PAKS lists .brokerpak files to add to the blobs. SOURCE=1 releases the source with vendored
# modules. RELEASE_GOARCH is the architecture of the program in the BOSH release. RELEASING.md describes how to release a version.
VERSION           ?= 0+dev.1
RELEASE_GOARCH    ?= amd64
RELEASE_PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64
RELEASE_BINARY    := $(if $(SOURCE),,build/release/service-adapter-$(VERSION)-linux-$(RELEASE_GOARCH))

# These are the defaults of Go. They determine the bytes of the program, so the environment and `go env -w` must not change them.
release: export GOAMD64      := v1
release: export GOARM64      := v8.0
release: export GOEXPERIMENT :=
release: export GOFIPS140    := off

.PHONY: release
release: ## empty build/release, and write the BOSH release and the other files of a release to it
	rm -rf build/release
	$(if $(SOURCE),,scripts/release-files "$(VERSION)" "$(COMMIT)" $(sort $(RELEASE_PLATFORMS) linux/$(RELEASE_GOARCH)))
	go run ./spec/release -version "$(VERSION)" -binary "$(RELEASE_BINARY)" -arch "$(RELEASE_GOARCH)" -paks "$(PAKS)"
	$(if $(SOURCE),,cd build/release && LC_ALL=C sha256sum service-adapter-* >SHA256SUMS)

# Without PostgreSQL, the demo prints a message and omits a part.
.PHONY: demo
demo: build opentofu ## show each step of a broker that serves examples/redis and a service that takes longer than a request may
	@scripts/install postgresql || [ "$$CI" != true ]
	scripts/demo

.PHONY: clean
clean: ## remove build/
	rm -rf build

$(LINTER):
	GOBIN=$(CURDIR)/$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
