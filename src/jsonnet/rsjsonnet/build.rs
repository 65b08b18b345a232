//! Reads the version of the evaluator from Cargo.lock, and passes the version to the crate.

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").expect("Cargo.lock is beside Cargo.toml");
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"rsjsonnet-lang\"").skip(1);
    let version = lines.next().and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    println!("cargo::rustc-env=RSJSONNET_VERSION={}", version.expect("Cargo.lock names rsjsonnet-lang's version"));
}
