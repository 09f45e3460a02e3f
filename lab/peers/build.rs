//! Builds the two stores' shim, and notes versions from the lock file.

fn main() {
    for store in ["leveldb", "rocksdb"] {
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .opt_level(2)
            .define("NS", store)
            .define(&store.to_uppercase(), None)
            .file("src/shim.cc")
            .compile(&format!("{store}_shim"));
        println!("cargo:rustc-link-lib={store}");
    }
    println!("cargo:rerun-if-changed=src/shim.cc");
    println!("cargo:rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    for name in ["fjall", "heed", "redb", "sled"] {
        let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
        let version = entry.and_then(|(_, rest)| rest.split('"').next()).unwrap_or("unknown");
        println!("cargo:rustc-env={}_VERSION={version}", name.to_uppercase());
    }
}
