comma := ,
# A test that a busy machine upsets is run once more, and named. Tests that make network namespaces run as root; cargo itself does not.
sudo := $(if $(filter 0,$(shell id -u)),,$(comma)'sudo'$(comma)'-E')
AGAIN := --config "target.'cfg(unix)'.runner=['$(CURDIR)/tests/again.sh']"
# The same features for all three, or each builds everything anew.
TESTS := cargo test --workspace --features coracle-tests/e2e$(comma)coracle-tests/clients
AGAIN_AS_ROOT := --config "target.'cfg(unix)'.runner=['$(CURDIR)/tests/again.sh'$(sudo)]"
AS_ROOT := $(if $(filter 0,$(shell id -u)),,--config "target.'cfg(unix)'.runner=['sudo','-E']")

# make run and make test are the two commands of README.md; the others are for who works on it.
.PHONY: run stop test check some rooms e2e e2e-podman test-clients simulate test-crash test-hostile deb test-packages test-vm bench bench-churn bench-net bench-store bench-api bench-secure conformance

run:
	packaging/demo.sh run

stop:
	packaging/demo.sh stop

# Everything, least powerful first, ending with a short `make run`.
test: check e2e test-clients
	packaging/demo.sh run
	packaging/demo.sh stop

# No engine needed: formatting, unit tables, transcripts, simulation, tidy.
check:
	packaging/prerequisites.sh rules
	cargo fmt --all --check
	$(TESTS) --lib --bins --test survive --test it --test memory $(AGAIN)

# Of these the tests whose names have one of the words: make some WORDS="table tidy".
some:
	$(TESTS) --lib --test it -- $(WORDS)

# Every source file with the first lines of its head: make rooms | grep journal.
rooms:
	@packaging/rooms.sh

# Real Docker, real binaries, real kubectl.
e2e:
	packaging/prerequisites.sh engine demo test
	packaging/engine.sh start
	cargo build --release -p coracle-master -p coracle-agent
	$(TESTS) --test e2e $(AGAIN_AS_ROOT)

# The same on Podman, less what tests/e2e/podman.rs says that it cannot.
e2e-podman:
	packaging/prerequisites.sh podman demo test
	cargo build --release -p coracle-master -p coracle-agent
	CORACLE_ENGINE=podman $(TESTS) --test e2e $(AGAIN_AS_ROOT)

# Every kubectl that is here, against a master of its own for each script; needs no engine.
test-clients:
	packaging/prerequisites.sh test
	cargo build --release -p coracle-master
	$(TESTS) --test clients $(AGAIN)

# 20,000 histories of the agent and of a whole cluster: some hours; CORACLE_HISTORIES=2000 for less.
simulate:
	CORACLE_HISTORIES=$${CORACLE_HISTORIES:-20000} cargo test --profile bench -p coracle-tests --test it -- simulation::every_history cluster::every_history

# Power cuts below real ext4 and xfs: some minutes, on devices of its own.
test-crash:
	packaging/prerequisites.sh crash
	cargo test -p coracle-tests --features block --test crash $(AS_ROOT)

# A million connections of strangers, half against the network side alone and half against a master: most of an hour; CORACLE_CONNECTIONS=20000 for less.
test-hostile:
	CORACLE_CONNECTIONS=$${CORACLE_CONNECTIONS:-1000000} cargo test --profile bench -p coracle-tests --test it -- hostile:: --nocapture

deb:
	packaging/deb.sh

# Both packages on a real systemd in a container: install, run, restart, reboot, purge.
test-packages: deb
	packaging/prerequisites.sh engine demo packages
	packaging/engine.sh start
	packaging/test-packages.sh

# Both packages on a Debian 13 in an emulated machine: cgroup v2, a current Docker, a day of trouble, and a plug that is pulled fifty times (CUTS=3 DAY_S=60 for less).
test-vm: deb
	packaging/prerequisites.sh vm demo
	packaging/test-vm.sh

# ROWS=memory measures what has the word in its name, QUIET_S=3600 a quiet hour; the last row waits for ten minutes, CHURN_WAIT_S=330 for less.
bench:
	packaging/prerequisites.sh engine demo
	packaging/engine.sh start
	cargo build --release -p coracle-master -p coracle-agent
	cargo bench -q -p coracle-tests --features e2e --bench bench $(AS_ROOT)

# Ten rounds of pods, namespaces and events that come and go; CHURN_ROUNDS, CHURN_PODS and CHURN_WAIT_S say otherwise.
bench-churn:
	CHURN_ROUNDS=$${CHURN_ROUNDS:-10} ROWS=churn $(MAKE) bench

# Services against the way without them, names against unbound.
bench-net:
	packaging/prerequisites.sh bench-net
	ROWS=services $(MAKE) bench

# The store against a file an object, SQLite and etcd, as ratios; ROWS=card measures what has the word in its name.
bench-store:
	packaging/prerequisites.sh crash bench-store
	cargo bench -q -p coracle-tests --features bench-store --bench store $(AS_ROOT)

# The API against kube-apiserver with etcd, etcd alone and the store alone, as ratios; ROWS=memory measures what has the word in its name.
# kube-apiserver is built once, into this place; without it the others are measured.
export KUBE_APISERVER ?= $(HOME)/.cache/coracle/kube-apiserver-1.20.2
bench-api:
	packaging/prerequisites.sh bench-store
	packaging/kube-apiserver.sh $(KUBE_APISERVER) || echo "kube-apiserver cannot be built here"
	cargo build --release -p coracle-master
	cargo bench -q -p coracle-tests --features bench-store --bench api

# The API over TLS against nginx and the same without TLS, as ratios; ROWS=handshakes measures what has the word in its name.
bench-secure:
	packaging/prerequisites.sh bench-secure
	cargo build --release -p coracle-master
	cargo bench -q -p coracle-tests --bench secure

# Kubernetes' own conformance tests, those that pass: E2E=/path/to/e2e.test, a program built of Kubernetes (docs/internals/testing.md says how).
conformance:
	packaging/conformance.sh "$(E2E)" "$(WORDS)"

