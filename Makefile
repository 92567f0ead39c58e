# make demo and make test do all their own set-up; see README.md.

GO        ?= go
MVN       ?= mvn
export CGO_ENABLED = 0
export TARE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tare

JAVA_SOURCES := $(shell find java -name '*.java' -o -name pom.xml -o -path '*/src/main/resources/*' -type f)
JARS         := bin/sysinfo.jar bin/workloads.jar bin/caches.jar
STATICCHECK  := honnef.co/go/tools/cmd/staticcheck@v0.8.1

# With make -j too: set-up comes before the build, and the build before the tests.
.NOTPARALLEL:

.PHONY: build image man setup-build setup-test test test-java test-go check lint fmt demo fuzz \
  bench bench-fresh bench-truth bench-hostile bench-weigh bench-cost bench-agent bench-agent-kills bench-autopsy bench-serve \
  bench-verdicts bench-demo bench-options bench-exec bench-peers bench-images bench-fit bench-fit-record \
  bench-check bench-kubernetes bench-levers bench-kills bench-jmh bench-caches bench-release experiments experiments-full \
  release site kubernetes-manifests test-chart clean FORCE

build: setup-build bin/tare bin/tare-exec $(JARS)

# The Go tool knows what is up to date.
bin/tare: FORCE
	$(GO) build -trimpath -buildvcs=auto -o $@ ./cmd/tare

# The launcher for images: static, and stripped of what only a debugger reads.
bin/tare-exec: FORCE
	$(GO) build -trimpath -ldflags='-s -w' -o $@ ./cmd/tare-exec

# tare's own image for amd64 and arm64, with its SBOM, in bin/image.
image:
	$(GO) run ./deploy/image -out bin/image

# A manual page for every command, in bin/man.
man: bin/tare
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null) bin/tare man bin/man

# All that VERSION, the tree's, is given out as, in bin/release: docs/install.md.
# KEY signs with a key of gpg.
release:
	@scripts/setup.sh build
	$(GO) run ./deploy/release -version '$(VERSION)' -out bin/release -sign '$(KEY)'

# The documentation as pages that need no server: open bin/site/index.html.
site:
	$(GO) run ./deploy/site -out bin/site

bin/%.jar: java/.built
	@mkdir -p bin
	cp java/programs/$*/target/$*.jar $@

java/.built: $(JAVA_SOURCES)
	$(MVN) -B -ntp -q -f java/pom.xml -DskipTests package
	@touch $@

setup-build:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh build test
	@scripts/jdks.sh
	@scripts/run-java-sh.sh
	@scripts/foreign.sh
	@scripts/roots.sh

# Everything: set-up, lint, the Java tests, the Go tests against real JVMs,
# control groups and a virtual machine.
test: setup-test build bin/camel-25.jar lint test-java test-go

test-java:
	$(MVN) -B -ntp -f java/pom.xml -P gradle verify

# Two packages at a time: tests that measure wait until they are alone, and keep
# the others waiting (internal/testkit/alone). That counts for the time limit.
test-go:
	$(GO) test -count=1 -p 2 -timeout 75m ./...

# The inner loop, within a minute: lint, and the tests on recorded inputs. It
# starts no JVM, container or machine, and needs no root; what it skips, make
# test runs.
check: lint
	$(GO) test -short -p 4 ./...

lint:
	@test -z "$$(gofmt -l bench cmd deploy internal)" || { gofmt -l bench cmd deploy internal; echo 'not formatted: make fmt'; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	GOARCH=arm64 $(GO) build -o /dev/null ./cmd/tare
	GOARCH=arm64 $(GO) build -o /dev/null ./cmd/tare-exec
	GOARCH=arm64 $(GO) vet ./...

fmt:
	gofmt -w bench cmd deploy internal

# How little memory does the demo service need? About five minutes.
demo: build
	scripts/demo.sh

# How long make test takes on a fresh clone with empty caches, and again with
# those that it filled: half an hour or more. It leaves docs/results/fresh.md.
bench-fresh:
	$(GO) run ./bench/fresh

# Fuzzes every parser of what a JVM, a file, an engine or the network gives,
# one after the other, FUZZTIME each, and prints the page that is kept as
# docs/results/fuzz.md: FUZZTIME=10m make fuzz.
FUZZTIME ?= 30s
fuzz:
	@scripts/fuzz.sh $(FUZZTIME)

# Measures the figures that docs/results states; about four hours, on a machine
# that does nothing else.
bench: bench-truth bench-hostile bench-weigh bench-cost bench-verdicts bench-demo bench-options bench-exec bench-kills bench-jmh bench-caches

# Whether rows agree with what programs know to hold, and with what JVMs say of
# each page.
bench-truth: build
	@scripts/jdks.sh
	$(GO) test ./internal/footprint -count=1 -timeout 30m -run 'RowsAgreeWith|StacksOfEveryLimit|PagesAreFiled|InMachine' \
	  -truth.all -truth.out $(CURDIR)/docs/results/truth.md -truth.native.out $(CURDIR)/docs/results/truth-native.md -misfiled.out $(CURDIR)/docs/results/misfiled.md

# Whether weighing ends within 2 s and 256 MiB, whatever a hostile JVM maps and
# says.
bench-hostile:
	$(GO) test ./internal/footprint -count=1 -timeout 10m -v -run 'TestHostile$$' -hostile.out $(CURDIR)/docs/results/hostile.md

# How much of a JVM's memory is left without an owner.
bench-weigh: build
	@scripts/jdks.sh
	@scripts/bench-jars.sh
	$(GO) run ./bench/weigh -cache $(TARE_CACHE)

# How long a weighing takes beside jcmd and pmap, and what it costs the JVM and
# the machine. Needs 12 GiB of free memory.
# BASE is the version that weighing is timed in pairs with.
BASE ?= 507bb08
bench-cost: build bin/tare-$(BASE)
	@scripts/setup.sh build bench
	@scripts/jdks.sh
	$(GO) run ./bench/cost -cache $(TARE_CACHE) -base bin/tare-$(BASE)

# What tare agent takes while it watches a hundred JVMs, and a thousand by recorded trees,
# what its ledger has of JVMs that grow to their limit, and how long it stalls a JVM with
# 8 GiB of heap. Needs 10 GiB of free memory; about 20 minutes.
bench-agent: build
	@scripts/jdks.sh
	$(GO) run ./bench/agent -cache $(TARE_CACHE)

# Whether tare autopsy is right on JVMs that end in many ways, and how old the last
# footprint is at a kill. Goes on where it stopped: remove docs/results/raw/autopsy.jsonl
# to measure anew. AUTOPSY='-cells "heap, 50"' makes some ends, and prints what was found.
# About 15 minutes.
AUTOPSY ?=
bench-autopsy: build
	@scripts/jdks.sh
	$(GO) run ./bench/autopsy -cache $(TARE_CACHE) $(AUTOPSY)

# Whether tare agent and tare serve, each killed at 50 random moments, leave a ring that
# cannot be read, lose what was written or acknowledged, or keep anything twice; and ten of
# each on both databases, with each record counted.
bench-agent-kills: build
	@scripts/setup.sh build test
	@scripts/jdks.sh
	$(GO) test ./cmd/tare -count=1 -timeout 20m -run TestAgentAndServeSurviveKills -agent.kills 50 -agent.kills.out $(CURDIR)/docs/results/agent-kills.md
	$(GO) test ./internal/serve -count=1 -timeout 20m -run TestKillsLoseNothing -serve.kills 10 -serve.kills.out $(CURDIR)/docs/results/serve-kills.md

# What tare serve takes for a thousand JVMs, and how fast it answers, on both
# databases. About five minutes.
bench-serve:
	@scripts/setup.sh build test
	$(GO) test ./internal/serve -count=1 -timeout 30m -run TestBenchServe -serve.period 45s -serve.out $(CURDIR)/docs/results/serve.md

# How long it takes from a release to a first result, by each way to install.
bench-release: setup-test build
	$(GO) test ./deploy/release -count=1 -timeout 20m -run 'TestRelease$$' -release.out $(CURDIR)/docs/results/release.md

bin/tare-$(BASE):
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git archive $(BASE) | tar -x -C "$$dir" && \
	  cd "$$dir" && $(GO) build -trimpath -o $(CURDIR)/$@ ./cmd/tare

# Whether the verdicts on labelled programs are right, five times each.
bench-verdicts: build
	@scripts/jdks.sh
	$(GO) test ./internal/trial -count=1 -timeout 60m -run Verdicts -verdicts.repeat 5 -verdicts.out $(CURDIR)/docs/results/verdicts.md

# What the demo finds, three times.
bench-demo: build
	$(GO) run ./bench/demo

# Whether the model of the user's options agrees with 200 starts of each JDK,
# and with what their launchers make of random argument files.
bench-options:
	@scripts/jdks.sh
	$(GO) test ./internal/jvmopts -count=1 -v -timeout 60m -run 'TestNoUserOption|TestExpansion|TestRealJVMs' -options.cases 200 -options.out $(CURDIR)/docs/results/options.md

# How much later java starts through the launcher, and in which containers the
# demo service survives, against other ways; about an hour. It goes on where it
# was cut off: remove bin/bench-exec.jsonl to measure anew.
bench-exec: build
	@scripts/jdks.sh
	@scripts/run-java-sh.sh
	$(GO) run ./bench/exec -cache $(TARE_CACHE)

# How little memory applications need with what tare fit recommends, and with the
# options that others choose. A day from scratch, on a machine that does nothing
# else: not part of bench. It goes on where it was cut off; the trials so far are
# in docs/results/raw/peers.jsonl.gz and, until a report is written, banks/peers.jsonl of
# the cache. PEERS=-short is the first part, PEERS=-list says what is missing,
# PEERS='-fresh 20 -confirmations 1 -shapes 25x1,17x1' compares at equal robustness; more
# in go run ./bench/peers -help.
PEERS ?= -proof 20 -grid
bench-peers: build
	@scripts/setup.sh build bench
	@scripts/jdks.sh
	@scripts/run-java-sh.sh
	@scripts/bench-jars.sh
	@scripts/bench-services.sh
	scripts/usual-disk.sh $(GO) run ./bench/peers -cache $(TARE_CACHE) $(PEERS)

# What tare bake makes of images of five services on two JDKs, and others' recipes of one
# of them; hours. It goes on where it was cut off: docs/results/raw/images.jsonl and
# recipes.jsonl have what was made so far. IMAGES='-bake.only
# shop:17,WireMock:25' measures these alone, IMAGES='-bake.note TEXT' tells of the machine.
IMAGES ?=
bench-images: build bin/camel-25.jar
	@scripts/setup.sh build test bench
	@scripts/jdks.sh
	@scripts/bench-jars.sh
	@scripts/bench-services.sh shop keycloak
	scripts/usual-disk.sh $(GO) test ./cmd/tare -count=1 -timeout 24h -run TestBakedServices -bake.out $(CURDIR)/docs/results/images.md -bake.raw $(CURDIR)/docs/results/raw/images.jsonl -bake.recipes $(CURDIR)/docs/results/raw/recipes.jsonl $(IMAGES)

# How steady the answers of a fit are: the search is replayed on banks of recorded trials,
# a thousand times a bank, in seconds. The test bed of every change of the search.
# FIT='-cells shop-25-1 -trace 17' shows one of the searches.
FIT ?= -page
bench-fit:
	$(GO) run ./bench/fit -cache $(TARE_CACHE) $(FIT)

# Records trials for it; hours a cell. It goes on where it was cut off: the banks are in
# the cache, and bench-fit packs them into docs/results/raw.
RECORD ?= -for 8h
bench-fit-record: build
	@scripts/setup.sh build bench
	@scripts/jdks.sh
	@scripts/bench-jars.sh
	@scripts/bench-services.sh shop camel keycloak
	scripts/usual-disk.sh $(GO) run ./bench/fit -cache $(TARE_CACHE) -record $(RECORD)

# Trials, interruptions, kills and a hundred pods in a real cluster of one node, which it
# starts; hours, and 10 GiB of free memory. It goes on where it was cut off, and what was
# measured so far is in docs/results/raw/kubernetes.jsonl. KUBERNETES='-only kills' measures
# that alone; fit, interruptions and pods are the others, page writes the page anew.
KUBERNETES ?=
bench-kubernetes: build
	@scripts/setup.sh build test
	@scripts/jdks.sh
	@scripts/bench-jars.sh
	@scripts/kubernetes.sh
	$(GO) run ./bench/kubernetes -cache $(TARE_CACHE) $(KUBERNETES)

# How often tare check is wrong, on versions of a service that hold a known part more. Some
# 25 minutes on a machine that does little else; CHECK=-noisy makes the runs beside a
# neighbour, CHECK='-for 9m' a part of them, CHECK='-for -1s' the page alone. It goes on where
# it was cut off: the runs so far are in docs/results/raw/check.jsonl.
CHECK ?=
bench-check:
	@scripts/jdks.sh
	$(GO) run ./bench/check -cache $(TARE_CACHE) $(CHECK)

# Whether a fit that is killed at 50 random moments, and a lab that is at 20,
# leave or lose anything.
bench-kills: build
	@scripts/jdks.sh
	$(GO) test ./cmd/tare -count=1 -timeout 60m -run 'TestFitSurvivesKills|TestLabSurvivesKills' -kills 50 -kills.out $(CURDIR)/docs/results/kills.md \
	  -lab.kills 20 -lab.kills.out $(CURDIR)/docs/results/lab-kills.md

# The service of the experiments container-tuning and hot-code, for JDK 8 and as it is today.
bin/camel-8.jar: FORCE
	@scripts/bench-services.sh camel
	@cmp -s $(TARE_CACHE)/services/camel-java8.jar $@ || { mkdir -p bin && cp $(TARE_CACHE)/services/camel-java8.jar $@; }

bin/camel-25.jar: FORCE
	@scripts/bench-services.sh camel
	@cmp -s $(TARE_CACHE)/services/camel-current.jar $@ || { mkdir -p bin && cp $(TARE_CACHE)/services/camel-current.jar $@; }

# The services of the experiments on levers.
bin/shop.jar: FORCE
	@scripts/bench-services.sh shop
	@cmp -s $(TARE_CACHE)/services/shop.jar $@ || { mkdir -p bin && cp $(TARE_CACHE)/services/shop.jar $@; }

bin/camel-jetty.jar bin/camel-undertow.jar bin/keycloak: FORCE
	@scripts/bench-services.sh servers keycloak
	@mkdir -p bin && cp -u $(TARE_CACHE)/services/camel-jetty.jar $(TARE_CACHE)/services/camel-undertow.jar bin/
	@ln -sfn $(TARE_CACHE)/services/keycloak-* bin/keycloak

# Runs the experiments that have no result yet; hours from scratch. Results are
# kept as they come: the same command goes on.
experiments: build bin/camel-8.jar bin/camel-25.jar bin/shop.jar bin/camel-jetty.jar
	@scripts/jdks.sh
	scripts/usual-disk.sh scripts/experiments.sh
	scripts/usual-disk.sh scripts/experiments.sh services/levers-servers services/levers-keycloak

# What each lever saves and costs.
bench-levers: build bin/camel-25.jar bin/shop.jar bin/camel-jetty.jar
	@scripts/jdks.sh
	scripts/usual-disk.sh scripts/experiments.sh levers services/levers-servers services/levers-keycloak

# The experiment container-tuning with the load that was published, days.
experiments-full: build bin/camel-8.jar bin/camel-25.jar
	@scripts/jdks.sh
	sed 's/duration: 6s/duration: 100s/' experiments/container-tuning.yaml >bin/container-tuning-full.yaml
	scripts/usual-disk.sh bin/tare lab run bin/container-tuning-full.yaml
	bin/tare lab report bin/container-tuning-full.yaml --markdown >docs/results/container-tuning-full.md

# How true and how steady memory metrics in JMH are, and what they cost; about
# twenty minutes, for a collector that still sizes its heap has no steady peak.
# It goes on where it was cut off: remove bin/runs to measure anew.
bench-jmh: build
	@scripts/jdks.sh
	$(GO) run ./bench/jmh -cache $(TARE_CACHE) -wi 3 -r 10s

# Four caches by speed and memory: about 20 minutes, with short iterations and a
# part of the matrix. The whole one, as it was published, takes days:
# CACHES='-wi 2 -i 3 -r 20s -threads 1,2,4 -entries 100000,1000000 -keys 110%,500%,1000% -runs bin/runs-all'
bench-caches: build
	@scripts/jdks.sh
	$(GO) run ./bench/jmh -cache $(TARE_CACHE) -caches $(CACHES)

clean:
	rm -rf bin java/.built java/*/target java/*/*/target

# What kustomize starts from, made from Helm's chart: both have one source.
kubernetes-manifests:
	cd deploy/helm/render && $(GO) run . -values ../../kustomize/agent.values.yaml -kustomize ../../kustomize/agent
	cd deploy/helm/render && $(GO) run . -values ../../kustomize/hub.values.yaml -kustomize ../../kustomize/hub

# The chart by Helm's own library, which is a module of its own: nothing of it is in tare.
test-chart:
	cd deploy/helm/render && $(GO) test ./...
