# make run       build the server and start it on 127.0.0.1:6379 with its data in ./data
# make test      all tests
# make verify    what CI runs: lint, freshness of generated files, tests, tests under the race detector
# make nightly   the long forms of all tests, with new seeds
# make e2e       real queue clients against redis-server and codeq-server
# make generate  rewrite the generated documents
# make bench     compare with redis-server on this machine
# make fuzz      every fuzz target for FUZZTIME
# make clean     remove what was built

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

GO ?= go
FUZZTIME ?= 10s
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# One way to compile for all targets but those of the race detector, so that nothing is compiled twice.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

.PHONY: build run test verify lint race race-tests race-server nightly e2e e2e-short clients node-clients python-clients \
	ruby-clients bench generate fuzz clean redis node gcc

build:
	$(GO) build -o bin/ ./cmd/...

run: build
	./bin/codeq-server

# Without the other servers the tests that need them would be skipped; TEST_REQUIRE_PEERS turns that into a failure.
test: redis
	TEST_REQUIRE_PEERS=1 $(GO) test -timeout 15m ./...

# The tests of ./internal/conventions and ./internal/generate check the imports, the style and that generated files are
# fresh; they run with "make test" and, to fail early, here.
lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted; run gofmt -w"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	cd e2e && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...
	$(GO) test ./internal/conventions ./internal/generate

verify: lint build test e2e-short race

race: race-tests race-server

# The packages by themselves. The black-box tests see only the server's binary and follow below.
race-tests: gcc redis
	CGO_ENABLED=1 TEST_REQUIRE_PEERS=1 $(GO) test -race -short -timeout 15m $$($(GO) list ./... | grep -v '^codeq/tests$$')

# The black-box tests in short forms against a server that was built with the race detector.
race-server: gcc redis
	CGO_ENABLED=1 $(GO) build -race -o bin/race/codeq-server ./cmd/codeq-server
	TEST_CODEQ_SERVER=$(CURDIR)/bin/race/codeq-server TEST_REQUIRE_PEERS=1 TEST_TARGETS=codeq GORACE=halt_on_error=1 \
		$(GO) test -timeout 10m ./tests -tasks 500 -rounds 1 -steps 500 -seeds 2

# What takes hours. Every test prints its seed, with which it can be repeated.
nightly: redis e2e
	TEST_FULL=1 TEST_REQUIRE_PEERS=1 $(GO) test -count=1 -timeout 6h ./...
	$(MAKE) fuzz FUZZTIME=2m

# Every client meets redis-server and codeq-server with one and with four shards, undisturbed and with a kill -9.
e2e: redis clients
	cd e2e && TEST_REQUIRE_PEERS=1 $(GO) test -count=1 -timeout 60m ./...

# Every client that can be had here meets codeq-server with four shards and a kill -9.
e2e-short: redis
	@$(MAKE) -k clients || echo "some clients could not be installed: their tests are skipped"
	cd e2e && $(GO) test -count=1 -short -timeout 10m ./...

# What the clients in other languages than Go need.
clients: node-clients python-clients ruby-clients

# A copy of what was installed keeps "npm ci" from doing it again.
node-clients: node
	@cd e2e/node && cmp -s package-lock.json node_modules/.installed-lock.json || \
	{ npm ci --no-audit --no-fund && cp package-lock.json node_modules/.installed-lock.json; }

# The Python clients, for Debian's own interpreter.
python-clients:
	@/usr/bin/python3 -c 'import celery, kombu, redis, rq' 2>/dev/null || \
	{ $(call install,python3-celery python3-kombu python3-redis python3-rq); }

# The Ruby clients.
ruby-clients:
	@ruby -e 'require "sidekiq-cron"; require "sidekiq-reliable-fetch"; require "redis"' 2>/dev/null || \
	{ $(call install,ruby ruby-gitlab-sidekiq-fetcher ruby-redis ruby-sidekiq ruby-sidekiq-cron); }

bench: build
	TEST_CODEQ_SERVER=$(CURDIR)/bin/codeq-server $(GO) run ./bench

generate:
	$(GO) run ./internal/generate

fuzz:
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

clean:
	rm -rf bin
	$(GO) clean -testcache

# install says how to get Debian packages, and gets them where that is possible: $(call install,packages)
define install
if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(1); \
else \
	echo "please install: $(1) (Debian, Ubuntu: sudo apt-get install $(1))"; exit 1; \
fi
endef

# The reference that compatibility is tested against, and its tools.
redis:
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null || \
	{ $(call install,redis-server redis-tools); }

# The clients for Node.js need version 20 or later.
node:
	@command -v node >/dev/null && command -v npm >/dev/null || { $(call install,nodejs npm); }

# The race detector needs a C compiler.
gcc:
	@command -v gcc >/dev/null || { $(call install,gcc libc6-dev); }
