# The one place that pins the linter, and what looks for vulnerabilities.
GOLANGCI_VERSION    := v2.15.0
GOVULNCHECK_VERSION := v1.9.0

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/holdfast
LINT  := $(CACHE)/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

# Its modules, and all their packages: go.work makes one build of them.
MODULES  := . ./examples ./mcp ./models/anthropic ./models/openai ./internal/test/engine ./internal/test/bench
PACKAGES := $(MODULES:%=%/...)

# exec, so that a signal to make reaches the program that has to stop the servers.
RUN := go build -o $(CACHE)/run ./internal/test/testenv/run && exec $(CACHE)/run

# Packages that turn bytes into bytes: a scanner of JSON, and SQLite with its C library, which are C translated to Go and
# use memory that is not Go's. The race detector finds nothing in them and makes them ten times slower. So they are
# built without it. OpenAI's client is types and their JSON, in 300,000 lines that take minutes to compile. None of them
# may use a sync.Map: its code, compiled without the detector, would be that of the whole program.
BYTES_ONLY := github.com/holdfast-go/holdfast/internal/jsonvalue modernc.org/sqlite/lib modernc.org/libc \
	github.com/openai/openai-go/v3 github.com/openai/openai-go/v3/responses
RACE       := -race $(BYTES_ONLY:%=-gcflags=%=-race=false)

# Packages that start no goroutine and share nothing, and the harness: make race does not look for races there.
PURE   := message|migrations|retry|turnhttp/chatpage|internal/(ids|jsontype|jsonvalue|logtext|pgstate|sqlname)
SINGLE := holdfast/($(PURE)|examples|internal/test/(archtest|testenv|browser|npm|bench|citusrules))(/|$$)

# The settings of a store beside the plain one, which run the same lines of our code: make settings runs them.
SETTINGS := ACLSuffices|Citus|GrantsNeedAll|GrantsSuffice|Isolation|OneConnection|Partitions|StoreBehind|StoreCluster|StorePgBouncer|StoreQualified|StoreTTL
SETTING  := ^Test($(SETTINGS))$$|^TestFunctions$$/^simple_protocol$$

# In the plain setting a store takes a document of 16 MiB. In the others it does so in make soak.
LARGEST := ^Test($(SETTINGS))$$/largest|^Test(Functions|Isolation|StoreBehind)$$/./largest

# What make race leaves out although its package has goroutines: the settings, the long searches on stores other than
# memory, the sessions of agents on stores other than PostgreSQL, a thousand readers of a file, the stories of one
# caller, the processes that boot at once or are killed or stopped, the programs that the documents have, which are
# built without the detector anyway, and the broken stores and engines.
BROKEN     := Broken|BrokenParts|Convicts|HistoriesConvict|InstancesConvict|ModelConvicts|RenewUnderLoadConvicts|SnapshotModelConvicts
ONE_CALLER := CrashEverywhere|Large|LateCopy|LostReply|PostgresDeadVersions|PostgresGrantsSuffice|PostgresListAll|PostgresStandbyStopped|PostgresSweepOfSaid|RedisCopyTooMuch|RedisCostIsFlat|SQLiteCrowd|StandbyStopped
PROGRAMS   := ModuleOfOnesOwn|Users
PROCESSES  := AgentKilled|AskKilled|BootTogether|ChildAsks|Deploys|KillAgainAndAgain|KillEverywhere|KillEverywhereOfVendors|LoopKilledEverywhere|OnceKilled|OnceStopped|OnceVendorFails|Processes|RecordsKilled|RollingRestart|ScheduleOfManyProcesses|StopEverywhere|Takeover|TakeoverOfManyKilled|TurnInStep|TurnLogKilled|TxProcessKilled|TxProcessStopped
ON_SERVERS := ^TestFunctions$$/^one_connection$$|^TestInstances$$/^(sqlite|postgres|redis)|^Test(AgentHistories|Sessions)$$/^(sqlite|redis|postgres_and_redis)$$
UNRACED    := ^Test($(BROKEN)|$(ONE_CALLER)|$(PROCESSES)|$(PROGRAMS))$$|$(ON_SERVERS)|$(SETTING)

# What make test runs. Benchmarks are make bench-once's.
TESTED := $(filter-out ./internal/test/bench/...,$(PACKAGES))

# These take longest, or wait most, and would run alone at the end.
FIRST := $(addprefix ./internal/test/engine/,orchestrator bootdrain enginetest turnlogs workflows agents) ./orchestrator \
	$(addprefix ./internal/test/stores/,checkpoint snapshot) \
	$(addprefix ./examples/,refundbot refundbot/bot internal/tutorial)

.PHONY: help demo quick test settings setup race clients shuffle soak fuzz mutants cross versions bench bench-once lint vulns generate tidy-check vet db-up

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## kill the processes of a refund bot in the terminal, and see the refund paid once
	@go run ./examples/refundbot -tour

quick: ## run the quick tests, in memory; says what it left out and skipped, and why
	@go run ./internal/test/testenv/quick $(PACKAGES)

setup: ## install what the tests need and is missing, as root on Debian; says what and why
	@go run ./internal/test/testenv/run -setup

# go vet is make vet's. Tests wait for servers, so more of them run at a time than there are cores.
test: setup ## run all tests and examples, on real servers, each store in its plain setting
	@$(RUN) -memory -- go test -vet=off -p 4 -parallel 8 -timeout 30m -skip '$(SETTING)|$(LARGEST)' $(FIRST) $(TESTED)

settings: setup ## run the suites of each store in its other settings: poolers, isolation, grants, a cluster
	@packages=$$(grep -rlE --include='*_test.go' '^func Test($(SETTINGS)|Functions)\(' . | xargs dirname | sort -u); $(RUN) -memory -- \
		go test -vet=off -p 2 -parallel 4 -timeout 30m -run '$(SETTING)' -skip '$(LARGEST)' $$packages

race: setup ## run under the race detector what has goroutines, once for each line of it
	@packages=$$(go list $(PACKAGES) | grep -vE '$(SINGLE)'); $(RUN) -memory -- \
		go test $(RACE) -vet=off -p 2 -parallel 4 -timeout 30m -skip '$(UNRACED)|$(LARGEST)' $(word 1,$(FIRST)) $$packages

# The tests with programs that others wrote. Those of uichat are in each of its tests with pages.
CLIENTS := ^Test(RollingNginx|Generators|Proxies|Clients|HttpAgent)$$

clients: setup ## run the tests with programs that others wrote: proxies, generators of clients, clients of npm
	@HOLDFAST_TEST_CLIENTS=1 HOLDFAST_TEST_REQUIRED=1 go test -vet=off -count 1 -timeout 30m -run '$(CLIENTS)' \
		./serve ./internal/test/openapitest ./turnhttp ./turnhttp/agui
	@HOLDFAST_TEST_CLIENTS=1 HOLDFAST_TEST_REQUIRED=1 go test -vet=off -count 1 -timeout 30m ./turnhttp/uichat

shuffle: ## look for races and order dependence: every test three times, shuffled
	@$(RUN) -memory -- go test $(RACE) -shuffle on -count 3 -timeout 90m $(PACKAGES)

soak: ## run the tests with the long fault schedules, and fuzz
	@export HOLDFAST_SOAK=1; $(RUN) -memory -- go test $(RACE) -p 1 -timeout 4h $(PACKAGES)
	@$(MAKE) fuzz

fuzz: ## look for inputs that break what reads them, a minute for each target; or TIME=10s
	@$(RUN) -memory -- internal/test/fuzz/run $(TIME)

versions: ## run the tests of PostgreSQL on 13 to 18, which npm fetches; or on MAJORS="14 18", or IN="./internal/test/stores/ledger"
	@IN='$(IN)' exec internal/test/versions/run $(MAJORS)

bench-once: setup ## run each benchmark once, and judge no figure
	@$(RUN) -memory -- go test -vet=off -timeout 30m ./internal/test/bench/...

bench: ## print the table of docs/performance.md; fails on a number that is missed
	go run ./internal/test/bench

lint: $(LINT) ## run golangci-lint
	$(LINT) run $(PACKAGES)

vulns: ## run govulncheck, where its database can be reached; says so where not
	@go run ./internal/test/vulns $(GOVULNCHECK_VERSION) $(PACKAGES)

generate: ## run go generate
	go generate $(PACKAGES)

# The systems on which the tests are compiled and not run.
TARGETS := linux/386 linux/arm linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

cross: ## build and vet for other systems, tests included; or for TARGETS="linux/386 windows/amd64"
	@for target in $(TARGETS); do \
		echo $$target; export GOOS=$${target%/*} GOARCH=$${target#*/}; \
		go build $(PACKAGES) && go vet $(PACKAGES) || exit 1; \
	done

mutants: ## change one place at a time and list what no quick test notices; ARGS="-every 5 ./orchestrator"
	go run ./internal/test/mutants $(ARGS)

# -e, because tidy also reads what the tests of dependencies import, and not every
# proxy serves the pprof that modernc.org/sqlite's tests ask for. What our own
# packages lack, go vet finds.
tidy-check: ## fail if go mod tidy would change something
	@for module in $(MODULES); do \
		(cd $$module && go mod tidy -e -diff) | grep '^[-+][^-+]' | grep -v '^.github.com/google/pprof ' && exit 1; \
	done; true

vet: ## run go vet
	go vet $(PACKAGES)

db-up: ## serve PostgreSQL and Redis until interrupted; prints what to export
	@$(RUN) -serve

$(LINT):
	GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
