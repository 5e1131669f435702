//! Compiles the C programs of `examples/c` and `tests/c`, and runs them under AddressSanitizer and
//! UndefinedBehaviorSanitizer, or under valgrind, or as they are.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the workspace")
}

fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Whether there is a C compiler; says so if there is none.
fn has_compiler() -> bool {
    let found = works(Command::new("cc").arg("--version"));
    if !found {
        println!("skipped: there is no C compiler");
    }
    found
}

/// The static library, built by the same cargo as this test.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().expect("the path of this test");
        let folder = test.ancestors().nth(2).expect("the folder of the profile").to_path_buf();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "weighbridge-capi", "--target-dir"]);
        cargo.arg(folder.parent().expect("the target folder")).current_dir(root());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let built = cargo.output().expect("cargo");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        folder.join("libweighbridge.a")
    })
}

/// A compiled program, and how to run it.
struct Program {
    path: PathBuf,
    checked: bool,
    _folder: tempfile::TempDir,
}

impl Program {
    fn compile(source: impl AsRef<Path>) -> Self {
        let source = root().join(source);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let mut checked = true;
        // A machine may have a compiler without the sanitizers' libraries.
        for sanitizers in [Some("-fsanitize=address,undefined"), None] {
            let mut cc = Command::new("cc");
            cc.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-g"]);
            cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
            cc.arg("-Wconversion").args(sanitizers);
            cc.arg("-I").arg(root().join("capi/include")).arg(&source);
            cc.arg(library()).args(["-lpthread", "-lm", "-o"]).arg(&path);
            if cfg!(target_os = "linux") {
                cc.args(["-ldl", "-lgcc_s"]);
            }
            let compiled = cc.output().expect("cc");
            if compiled.status.success() {
                break;
            }
            let said = String::from_utf8_lossy(&compiled.stderr);
            assert!(
                sanitizers.is_some() && !said.contains("error: "),
                "{}: {said}",
                source.display()
            );
            checked = false;
        }
        Self { path, checked, _folder: folder }
    }

    fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Output {
        let valgrind = !self.checked && works(Command::new("valgrind").arg("--version"));
        let mut command = match valgrind {
            true => {
                let mut command = Command::new("valgrind");
                command.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
                command.arg(&self.path);
                command
            }
            false => Command::new(&self.path),
        };
        command.args(arguments).output().expect("the program")
    }

    /// The output of a run that succeeds.
    fn output<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        assert!(said.is_empty(), "{said}");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn sample(name: &str) -> PathBuf {
    root().join("assets/sample").join(name)
}

#[test]
fn every_function_is_called() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let boreal = folder.path().join("boreal");
    std::fs::create_dir(&boreal).expect("a folder");
    std::fs::copy(sample("hf/model.safetensors"), boreal.join("model.safetensors"))
        .expect("a copy");
    let config = std::fs::read_to_string(sample("hf/config.json")).expect("a config");
    let config = config.replace("\"llama\"", "\"boreal\"");
    std::fs::write(boreal.join("config.json"), config).expect("a config");
    let program = Program::compile("capi/tests/c/every.c");
    let said = program.output(&[&sample(""), folder.path()]);
    assert_eq!(said, "every function was called\n");
}

#[test]
fn the_test_names_every_function_of_the_header() {
    let header = std::fs::read_to_string(root().join("capi/include/weighbridge.h"));
    let header = header.expect("the header");
    let test = std::fs::read_to_string(root().join("capi/tests/c/every.c")).expect("the test");
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = |line: &str| -> Vec<String> {
        let parts = line.split('(').next().unwrap_or("").split([' ', '*']);
        parts.filter(|word| word.starts_with("wb_")).map(str::to_owned).collect()
    };
    let functions: Vec<String> = code
        .filter(|line| line.contains('(') && !line.contains("(*"))
        .filter_map(|line| words(line).pop())
        .collect();
    assert!(functions.len() > 50, "{functions:?}");
    for function in functions {
        assert!(test.contains(&format!("{function}(")), "{function} is not tested");
    }
}

#[test]
fn the_header_is_cxx_too() {
    if !works(Command::new("c++").arg("--version")) {
        println!("skipped: there is no C++ compiler");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("header.cpp");
    let code = "#include \"gguf.h\"\nint status() { return WB_OK + int(WB_F16); }\n";
    std::fs::write(&source, code).expect("a file");
    for standard in ["-std=c++11", "-std=c++20"] {
        let mut cxx = Command::new("c++");
        cxx.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic"]);
        cxx.args(["-Wconversion", "-c", "-o", "/dev/null"]).arg(&source);
        cxx.arg("-I").arg(root().join("capi/include")).arg("-I").arg(root().join("examples/c"));
        let compiled = cxx.output().expect("c++");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
}

#[test]
fn the_examples_run() {
    if !has_compiler() {
        return;
    }
    let list = Program::compile("examples/c/list.c");
    let said = list.output(&[sample("hf")]);
    assert_eq!(said.lines().next(), Some("safetensors, 20 tensors, 2624000 bytes"));
    assert!(said.contains("\nmodel.embed_tokens.weight BF16 512 x 256\n"), "{said}");
    let absent = list.run(&["absent"]);
    assert_eq!(absent.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&absent.stderr).starts_with("error: absent: "));

    let said = Program::compile("examples/c/load.c").output(&[sample("sample-Q8_0.gguf")]);
    let names = ["q", "k", "v"].map(|name| format!("layers.0.attention.{name}.weight"));
    assert!(said.contains(&format!("{}: 262144 bytes\n", names.join("+"))), "{said}");

    let reader = Program::compile("examples/c/gguf_reader.c");
    let said = reader.output(&[sample("sample-Q8_0.gguf")]);
    assert!(said.starts_with("2 layers\nblk.0.attn_q.weight: 69632 bytes, "), "{said}");
    assert!(said.contains("\n512 tokens, the last is "), "{said}");
    assert_eq!(reader.run(&[sample("hf")]).status.code(), Some(6));

    let parser = Program::compile("examples/c/parser.c");
    let said = parser.output(&[sample("sample-Q8_0.gguf")]);
    assert!(said.starts_with("2 layers, 20 tensors, "), "{said}");
    assert!(said.contains("\nblk.0.attn_q.weight: type 8, 256 x 256, at "), "{said}");
    assert!(said.contains("\n512 tokens, the last is \""), "{said}");
    assert_eq!(parser.run(&["absent"]).status.code(), Some(1));
    let shim = std::fs::read_to_string(root().join("examples/c/gguf.h")).expect("the shim");
    assert!(shim.lines().count() < 60);
}

/// The programs in the guide, `docs/c.md`.
#[test]
fn the_programs_of_the_guide_run() {
    if !has_compiler() {
        return;
    }
    let guide = std::fs::read_to_string(root().join("docs/c.md")).expect("the guide");
    let programs: Vec<&str> = guide.split("```c\n").skip(1).collect();
    assert!(!programs.is_empty());
    for program in programs {
        let (code, rest) = program.split_once("```").expect("the end of the program");
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("guide.c");
        std::fs::write(&source, code).expect("a file");
        let said = Program::compile(&source).output(&[sample("sample-Q8_0.gguf")]);
        let shown = rest.split("```text\n").nth(1).and_then(|text| text.split("```").next());
        assert_eq!(Some(&*said), shown);
    }
}

#[test]
fn eight_threads_share_a_model() {
    if !has_compiler() {
        return;
    }
    let program = Program::compile("capi/tests/c/threads.c");
    for model in ["sample-Q8_0.gguf", "mlx-4bit"] {
        assert_eq!(program.output(&[sample(model)]), "0\n");
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path => found.push(path),
        }
    }
}

/// Files that others damaged, the inputs of the fuzz targets, and the sample truncated and changed.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads its own sample")]
fn damaged_files_give_statuses() {
    if !has_compiler() {
        return;
    }
    let mut paths = Vec::new();
    if let Some(fixtures) = std::env::var_os("WEIGHBRIDGE_FIXTURES") {
        files(&Path::new(&fixtures).join("hostile"), &mut paths);
    }
    files(&root().join("fuzz/corpus"), &mut paths);
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(sample("sample-Q8_0.gguf")).expect("the sample");
    for position in (0..20_000).step_by(997) {
        let cut = folder.path().join(format!("cut-{position}.gguf"));
        std::fs::write(&cut, &whole[..position]).expect("a file");
        let changed = folder.path().join(format!("changed-{position}.gguf"));
        let mut bytes = whole.clone();
        bytes[position] ^= 0xff;
        std::fs::write(&changed, bytes).expect("a file");
        paths.extend([cut, changed]);
    }
    let program = Program::compile("capi/tests/c/hostile.c");
    let said = program.output(&paths);
    assert_eq!(said.lines().count(), paths.len());
    let refused = said.lines().filter(|line| line.starts_with("3 ")).count();
    assert!(refused >= 20, "{refused} of {} files were refused", paths.len());
    let known = |line: &str| ["0 ", "3 ", "4 ", "5 "].iter().any(|status| line.starts_with(status));
    assert!(said.lines().all(known), "{said}");
}
