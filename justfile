# Short names for the commands of .ci/run and the README; https://just.systems

# All checks, as on a new machine.
ci:
    .ci/run

# All tests.
test:
    .ci/run test

# Format and lints.
lint:
    .ci/run format lint

# The engine's tests on the system's SQLite.
system:
    .ci/run system

# The documentation, with broken links refused.
docs:
    .ci/run docs

# Three sites edit offline, disagree, synchronize, converge.
demo *ARGS:
    cargo run --release -p synqlite -- demo {{ARGS}}

# Random histories of several sites: `just random 1000..2000`. A failure names its seed.
random SEEDS="60..600":
    SYNQLITE_SEEDS={{SEEDS}} cargo test --release -p synqlite-core --features bundled --test it random

# Long campaigns: `just campaign crash --rounds 300 --seed 1`, `just campaign model --seeds 0..500`.
campaign *ARGS:
    cargo build --release -p synqlite
    cargo run --release -p synqlite-testkit --features bundled --bin campaign -- {{ARGS}}

# Feeds made-up bytes to each format's reader; needs a nightly toolchain and cargo-fuzz.
fuzz SECONDS="60" *TARGETS="batch_decode store_log store_table store_manifest view":
    for target in {{TARGETS}}; do cargo +nightly fuzz run $target -- -max_total_time={{SECONDS}} || exit 1; done

# The store's crash campaign: every file operation, every kind of crash.
store-crashes STATES="50000":
    CRASH_STATES={{STATES}} cargo test --release -p synqlite-lsm --test crash -- --nocapture promised

# Kills a hub under load, again and again: everything it acknowledged must be there.
hub-kills KILLS="200":
    HUB_KILLS={{KILLS}} cargo test --release -p synqlite --test it -- --nocapture however_often

# The store beside other stores: docs/benchmarks/kv.html; results go to FOLDER. About an hour.
peers FOLDER *PARTS:
    lab/peers/measure {{FOLDER}} {{PARTS}}

# What a replica costs over plain SQLite, in processor time.
cost ROWS="50000" ROUNDS="5":
    cargo run --release -p synqlite-core --features bundled --example cost -- {{ROWS}} {{ROUNDS}}

# Benchmarks: `just lab quick`, `just lab run tpcc --help`; see docs/benchmarks.md.
lab *ARGS:
    cargo run --release --manifest-path lab/Cargo.toml -- {{ARGS}}

# The packages for this platform, into `dist`: the wheel, both npm packages, an archive, and the one for Debian.
package:
    cargo build --profile dist -p synqlite --bins
    cargo build --release --manifest-path ext/Cargo.toml -p synqlite-extension
    SYNQLITE_EXTENSION=ext/target/release/libsynqlite.so SYNQLITE_COMMAND=target/dist/synqlite \
        python3 packages/make.py dist --all

# The same on Linux for a glibc as old as 2.28, as a release has them.
package-portable:
    python3 packages/portable.py target/made
    SYNQLITE_EXTENSION=target/made/libsynqlite.so SYNQLITE_COMMAND=target/made/synqlite \
        python3 packages/make.py dist --all
