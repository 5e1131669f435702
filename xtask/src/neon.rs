//! `cargo xtask neon` tests the kernels for 64-bit ARM in QEMU's emulator of a processor, and
//! `cargo xtask counts` counts instructions in it.
//!
//! The emulator is Debian's package `qemu-user`. For ARM, both also need a C compiler, the packages
//! `gcc-aarch64-linux-gnu` and `libc6-dev-arm64-cross`, and, with rustup, its target.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{Done, Fault, create_folder, run_command, said, shown};

const ARM: &str = "aarch64-unknown-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &[&str] = &["qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu"];

/// The tests that compare instruction sets, but for those that take minutes in the emulator. They
/// test the same kernels with more numbers, and run on ARM machines.
const SKIPPED: &[&str] =
    &["kernels_agree_on_every_length", "every_half", "what_is_settled_does_not_move"];

/// Runs the tests of the kernels in the emulator.
pub(crate) fn test(options: &[String]) -> Result<(), Fault> {
    let mut command = Command::new("cargo");
    command.args(["test", "--package", "weighbridge-quant", "--lib", "--target", ARM, "--"]);
    command.args(options);
    if !options.iter().any(|option| option == "--all") {
        command.args(SKIPPED.iter().flat_map(|test| ["--skip", test]));
    }
    command.env(variable("LINKER"), COMPILER).env(variable("RUNNER"), EMULATOR.join(" "));
    prepare()?;
    Ok(run_command(&mut command)?)
}

/// Installs the compiler's target, where rustup manages compilers.
fn prepare() -> Done {
    match Command::new("rustup").arg("--version").output() {
        Ok(_) => run_command(Command::new("rustup").args(["target", "add", ARM])),
        Err(_) => Ok(()),
    }
}

/// The variable of Cargo for a setting of the target.
fn variable(setting: &str) -> String {
    format!("CARGO_TARGET_{}_{setting}", ARM.to_uppercase().replace('-', "_"))
}

/// A machine in an emulator: its name in [`COLUMNS`], the compiler's target, and the emulator.
type Machine = (&'static str, &'static str, &'static [&'static str]);

const MACHINES: &[Machine] =
    &[("x86", "x86_64-unknown-linux-gnu", &["qemu-x86_64", "-cpu", "max"]), ("arm", ARM, EMULATOR)];

/// Prints a table of instruction counts: of opening models and of the kernels that are used most, on
/// x86-64, or of all kernels on every machine.
pub(crate) fn count(options: &[String]) -> Result<(), Fault> {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    let ggml = match *words {
        [] => return Ok(print_counts(&MACHINES[..1], "hot", None)?),
        ["--all"] => None,
        ["--all", "--ggml", folder] => Some(Path::new(folder)),
        _ => {
            return Err(Fault::Usage(
                "cargo xtask counts [--all [--ggml FOLDER of ggml's sources]]",
            ));
        }
    };
    prepare()?;
    Ok(print_counts(MACHINES, "all", ggml)?)
}

/// The instructions for 256 elements or for opening a model, by what is done and by who does it.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// The columns of the table: the machine and the instruction set.
const COLUMNS: &[(&str, &str)] = &[
    ("arm Portable", "portable"),
    ("arm Neon", "NEON"),
    ("arm NeonBf16", "NEON with BF16"),
    ("x86 Portable", "x86-64: portable"),
    ("x86 Avx2", "AVX2"),
    ("x86 all", "x86-64"),
    ("arm ggml", "ggml, ARM"),
];

/// The tests that print when the work to be counted begins and ends, and their packages.
const COUNTS: [(&str, &str); 2] =
    [("weighbridge-quant", "tests::counts::counts"), ("weighbridge", "model::tests::counts")];

fn print_counts(machines: &[Machine], which: &str, ggml: Option<&Path>) -> Done {
    let folder = Path::new("target/counts");
    create_folder(folder)?;
    let plugin = folder.join("instructions.so");
    let mut command = Command::new("cc");
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&plugin);
    run_command(command.arg("xtask/counts/instructions.c"))?;

    let mut counts = Counts::new();
    for (machine, target, emulator) in machines {
        for (package, test) in COUNTS {
            let mut command = emulated(emulator, &plugin, &test_program(package, target)?);
            command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads", "1"]);
            command.env("WEIGHBRIDGE_COUNTS", which);
            collect(&mut command, machine, &mut counts)?;
        }
    }
    if let Some(ggml) = ggml {
        let program = folder.join("ggml");
        let mut command = Command::new(COMPILER);
        command.args([
            "-O3",
            "-DNDEBUG",
            "-D_GNU_SOURCE",
            "-ffunction-sections",
            "-Wl,--gc-sections",
        ]);
        for include in ["include", "src", "src/ggml-cpu"] {
            command.arg("-I").arg(ggml.join(include));
        }
        command.arg("xtask/counts/ggml.c");
        for source in ["ggml-quants.c", "ggml-cpu/quants.c", "ggml-cpu/arch/arm/quants.c"] {
            command.arg(ggml.join("src").join(source));
        }
        run_command(command.args(["-lm", "-o"]).arg(&program))?;
        collect(&mut emulated(EMULATOR, &plugin, &program), "arm", &mut counts)?;
    }

    let filled = |(key, _): &&(&str, &str)| counts.values().any(|found| found.contains_key(*key));
    let columns: Vec<_> = COLUMNS.iter().filter(filled).collect();
    let titles: Vec<&str> = columns.iter().map(|(_, title)| *title).collect();
    println!("Instructions for 256 elements, or for one model:\n");
    println!("| | {} |", titles.join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    for (what, found) in &counts {
        let cell =
            |(key, _): &&(&str, &str)| found.get(*key).map_or_else(String::new, u64::to_string);
        let cells: Vec<String> = columns.iter().map(cell).collect();
        println!("| {what} | {} |", cells.join(" | "));
    }
    Ok(())
}

/// Compiles the library's tests for a target, optimized. Returns the program.
fn test_program(package: &str, target: &str) -> Done<PathBuf> {
    let mut command = Command::new("cargo");
    command.args(["test", "--release", "--package", package, "--lib", "--no-run"]);
    command.args(["--target", target, "--message-format", "json"]);
    command.env(variable("LINKER"), COMPILER);
    eprintln!("$ {}", shown(&command));
    let messages = said(&mut command)?;
    let key = "\"executable\":\"";
    let path = messages.rsplit_once(key).and_then(|(_, rest)| rest.split('"').next());
    path.map(PathBuf::from).ok_or_else(|| format!("{}: no program", shown(&command)))
}

/// A program in an emulator with the plugin.
fn emulated(emulator: &[&str], plugin: &Path, program: &Path) -> Command {
    let (name, options) = emulator.split_first().expect("an emulator has a name");
    let mut command = Command::new(name);
    command.args(options).arg("-plugin").arg(plugin).arg(program);
    command
}

/// Runs a program, and adds what its lines say: the number of instructions so far, what is done, for
/// which dtype, to or from which, by whom, and `begin` or `end`.
fn collect(command: &mut Command, machine: &str, counts: &mut Counts) -> Done {
    eprintln!("$ {}", shown(command));
    let output = command.output().map_err(|error| format!("{}: {error}", shown(command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {}: {said}", shown(command), output.status));
    }
    let mut marks: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for line in said.lines() {
        let [count, what, dtype, other, isa, "begin" | "end"] =
            *line.split_whitespace().collect::<Vec<_>>()
        else {
            continue;
        };
        let isa = isa.trim_start_matches("Isa(").trim_end_matches(')');
        if let Ok(count) = count.parse() {
            let kernel = format!("{what} {dtype} {other}");
            marks.entry((kernel, format!("{machine} {isa}"))).or_default().push(count);
        }
    }
    for ((kernel, column), marks) in marks {
        let count = match *marks {
            // Of n elements, and of 2 n, where n is 32 times 256.
            [begin, end, begin_more, end_more] => {
                ((end_more - begin_more) - (end - begin) + 16) / 32
            }
            [begin, end] => end - begin,
            _ => continue,
        };
        counts.entry(kernel).or_default().insert(column, count);
    }
    Ok(())
}
