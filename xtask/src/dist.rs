//! `cargo xtask dist`: makes what a release offers, and checks it by installing it.
//!
//! - `weighbridge-VERSION-TARGET.tar.gz`: the program, its manual pages and completions,
//! - `weighbridge-c-VERSION-HOST.tar.gz`: the library for C, its header and pkg-config file,
//! - `weighbridge-VERSION-...whl`: the Python package,
//! - `weighbridge-page-VERSION.tar.gz`: the page of `view` for hosts of static files, which is the same for all
//!   systems and made on one,
//! - `SHA256SUMS`: the digests of these files.
//!
//! On Linux, the program is linked with musl if that target is installed and pip can install zig, and so
//! needs no library of the system; otherwise with the system's libraries. The wheel is made with zig's
//! libraries too, and so runs on older systems; without zig it runs on systems like this one. The page is left
//! out if the compiler's target for browsers cannot be installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page;
use crate::tools::{Done, Fault, copy, create_folder, name, no_options, run_command, said, write};

const OUT: &str = "target/dist-files";
const VENV: &str = "target/dist-venv";
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "weighbridge.bash"),
    ("elvish", "weighbridge.elv"),
    ("fish", "weighbridge.fish"),
    ("powershell", "_weighbridge.ps1"),
    ("zsh", "_weighbridge"),
];
/// The system on which the page is made.
const PAGE_HOST: &str = "x86_64-unknown-linux-gnu";

const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

pub(crate) fn run(options: &[String]) -> Result<(), Fault> {
    no_options(options, "cargo xtask dist")?;
    Ok(make()?)
}

fn make() -> Done {
    let out = Path::new(OUT);
    if out.exists() {
        std::fs::remove_dir_all(out).map_err(|error| format!("{OUT}: {error}"))?;
    }
    create_folder(out)?;
    let version = env!("CARGO_PKG_VERSION");
    let host = host()?;
    let has_zig = tools()?;
    let has_target = || {
        let added = page::add_target();
        added.inspect_err(|fault| eprintln!("note: {fault}, so the page is not made")).is_ok()
    };
    let makes_page = host == PAGE_HOST && has_target();
    let program = program(&host, version, has_zig)?;
    let library = library(&host, version)?;
    let wheel = wheel(has_zig)?;
    let page = if makes_page { Some(page_archive(version)?) } else { None };
    let made = [Some(&program), Some(&library), Some(&wheel), page.as_ref()];
    let files: Vec<String> = made.into_iter().flatten().map(|path| name(path)).collect();
    let sums = said(digests(out).args(&files))?;
    write(&out.join("SHA256SUMS"), &sums)?;
    check_program(&program)?;
    check_library(&library)?;
    check_wheel(&wheel)?;
    eprintln!("\nin {OUT}:");
    eprint!("{sums}");
    Ok(())
}

/// The target triple of this machine.
fn host() -> Done<String> {
    let about = said(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say its host".to_owned())
}

/// Builds the program, and packs it with manual pages and completions.
fn program(host: &str, version: &str, has_zig: bool) -> Done<PathBuf> {
    let static_target = host.replace("-gnu", "-musl");
    let libraries = said(
        Command::new("rustc").args(["--print", "target-libdir", "--target"]).arg(&static_target),
    )?;
    // The cryptography of TLS is written in C, so a compiler for musl is needed: zig is one.
    let is_static = has_zig && Path::new(libraries.trim()).is_dir();
    if !is_static {
        eprintln!("note: without zig and the target {static_target}, the program is not static");
    }
    let target = if is_static { &static_target } else { host };
    let mut cargo = cargo(if is_static { "zigbuild" } else { "build" }, "weighbridge-cli");
    run_command(cargo.args(["--target", target]).env("PATH", path()?))?;
    let built = Path::new("target").join(target).join("dist/weighbridge");

    let folder = format!("weighbridge-{version}-{target}");
    let root = Path::new(OUT).join(&folder);
    let completions = root.join("completions");
    create_folder(&completions)?;
    copy(&built, &root.join("weighbridge"))?;
    run_command(Command::new(&built).arg("man").arg(root.join("man/man1")))?;
    for (shell, file) in COMPLETIONS {
        let script = said(Command::new(&built).args(["completions", shell]))?;
        write(&completions.join(file), &script)?;
    }
    copy(Path::new("docs/install.md"), &root.join("install.md"))?;
    documents(&root)?;
    archive(&folder)
}

/// Builds the library for C, and packs it with its header.
fn library(host: &str, version: &str) -> Done<PathBuf> {
    run_command(&mut cargo("build", "weighbridge-capi"))?;
    let folder = format!("weighbridge-c-{version}-{host}");
    let root = Path::new(OUT).join(&folder);
    let lib = root.join("lib");
    create_folder(&lib.join("pkgconfig"))?;
    create_folder(&root.join("include"))?;
    copy(Path::new("capi/include/weighbridge.h"), &root.join("include/weighbridge.h"))?;
    copy(Path::new("docs/c.md"), &root.join("c.md"))?;
    let ending = if cfg!(target_os = "macos") { "dylib" } else { "so" };
    for file in ["libweighbridge.a".to_owned(), format!("libweighbridge.{ending}")] {
        copy(&Path::new("target/dist").join(&file), &lib.join(&file))?;
    }
    let template = "capi/weighbridge.pc.in";
    let template =
        std::fs::read_to_string(template).map_err(|error| format!("{template}: {error}"))?;
    // The folder may be unpacked anywhere.
    let config = template.replace("@prefix@", "${pcfiledir}/../..").replace("@version@", version);
    write(&lib.join("pkgconfig/weighbridge.pc"), &config)?;
    documents(&root)?;
    archive(&folder)
}

/// Builds the page of `view` with the library as WebAssembly, and packs it.
fn page_archive(version: &str) -> Done<PathBuf> {
    page::make()?;
    let folder = format!("weighbridge-page-{version}");
    let root = Path::new(OUT).join(&folder);
    create_folder(&root)?;
    let entries =
        std::fs::read_dir(page::OUT).map_err(|error| format!("{}: {error}", page::OUT))?;
    for entry in entries.flatten() {
        copy(&entry.path(), &root.join(entry.file_name()))?;
    }
    copy(Path::new("LICENSE-MIT"), &root.join("LICENSE-MIT"))?;
    archive(&folder)
}

/// Installs the tools of Python, in an environment of their own. Returns whether zig is among them.
fn tools() -> Done<bool> {
    run_command(Command::new("python3").args(["-m", "venv", VENV]))?;
    let pip = |packages: &[&str]| {
        let mut pip = Command::new(format!("{VENV}/bin/pip"));
        pip.args(["install", "--quiet"]).args(packages);
        pip
    };
    run_command(&mut pip(&["maturin>=1.9,<2"]))?;
    Ok(cfg!(target_os = "linux") && run_command(&mut pip(&["ziglang", "cargo-zigbuild"])).is_ok())
}

/// The path with the tools of Python: maturin and cargo call zig by its name on the path.
fn path() -> Done<String> {
    let bin = std::env::current_dir().map_err(|error| error.to_string())?.join(VENV).join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    Ok(format!("{}:{path}", bin.display()))
}

/// Builds the Python package.
fn wheel(has_zig: bool) -> Done<PathBuf> {
    let mut maturin = Command::new(format!("{VENV}/bin/maturin"));
    maturin.args(["build", "--quiet", "--profile", "dist", "--locked"]);
    maturin.args(["--manifest-path", "python/Cargo.toml"]);
    maturin.args(["--target-dir", "target/python", "--out", OUT]);
    match (has_zig, cfg!(target_os = "linux")) {
        (true, _) => {
            maturin.args(["--zig", "--compatibility", "manylinux2014"]);
        }
        (false, true) => {
            eprintln!("note: pip cannot install zig: the wheel is for systems like this one");
            maturin.args(["--compatibility", "linux"]);
        }
        (false, false) => {}
    }
    run_command(maturin.env("PATH", path()?))?;
    let entries = std::fs::read_dir(OUT).map_err(|error| format!("{OUT}: {error}"))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let wheel = paths.find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    wheel.ok_or_else(|| format!("maturin made no wheel in {OUT}"))
}

/// Unpacks the program into an empty root, where there is nothing else, and runs it there.
fn check_program(archive: &Path) -> Done {
    let root = unpacked(archive)?;
    let page = root.join("man/man1/weighbridge.1");
    if !page.is_file() || !root.join("completions/_weighbridge").is_file() {
        return Err(format!("{} lacks manual pages or completions", archive.display()));
    }
    let is_static = archive.to_string_lossy().contains("-musl");
    let works = |words: &[&str]| said(inside(words, &root).arg("--version")).is_ok();
    let outside = ROOTS.iter().find(|words| is_static && works(words));
    if is_static && outside.is_none() {
        eprintln!("note: this user may not change the root: the program runs in the usual one");
    }
    for arguments in [&["--version"][..], &["demo"], &["list", "dtypes"]] {
        let mut command = match outside {
            Some(words) => inside(words, &root),
            None => Command::new(root.join("weighbridge")),
        };
        let printed = said(command.args(arguments))?;
        eprintln!("{}", printed.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// The commands that run a program in another root: as root of a namespace of one's own, which some
/// systems forbid, or as the system's.
const ROOTS: &[&[&str]] = &[
    &["unshare", "--user", "--map-root-user", "chroot"],
    &["sudo", "--non-interactive", "chroot"],
];

/// The program of a root, without any variable of the environment but the path.
fn inside(words: &[&str], root: &Path) -> Command {
    let mut command = Command::new("env");
    command.args(["-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
    command.args(words).arg(root).arg("/weighbridge");
    command
}

/// Compiles an example with the unpacked library, as its pkg-config file says, and runs it.
fn check_library(archive: &Path) -> Done {
    let root = unpacked(archive)?;
    let example = root.join("list");
    let config = root.join("lib/pkgconfig");
    let flags = said(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "weighbridge"])
            .env("PKG_CONFIG_PATH", &config),
    );
    let flags = flags.unwrap_or_else(|_| {
        eprintln!("note: there is no pkg-config: the flags are written out");
        let lib = root.join("lib");
        format!("-I{} -L{} -lweighbridge", root.join("include").display(), lib.display())
    });
    let mut cc = Command::new("cc");
    cc.arg("examples/c/list.c").args(flags.split_whitespace()).arg("-o").arg(&example);
    run_command(&mut cc)?;
    let variable = if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };
    let mut list = Command::new(&example);
    let printed = said(list.arg("assets/sample/hf").env(variable, root.join("lib")))?;
    eprintln!("{}", printed.lines().next().unwrap_or_default());
    Ok(())
}

/// Installs the wheel into a new venv, and runs the package and the program with nothing else on the
/// path.
fn check_wheel(wheel: &Path) -> Done {
    let venv = Path::new("target/dist-check/venv");
    run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv))?;
    let bin = venv.join("bin");
    run_command(Command::new(bin.join("pip")).args(["install", "--quiet"]).arg(wheel))?;
    let code = "import weighbridge; print(weighbridge.open('assets/sample/mlx-4bit'))";
    let mut python = Command::new(bin.join("python"));
    eprintln!("{}", said(python.args(["-c", code]).env_clear())?.trim_end());
    let mut program = Command::new(bin.join("weighbridge"));
    eprintln!("{}", said(program.arg("--version").env_clear())?.trim_end());
    Ok(())
}

/// Unpacks an archive into a folder of its own, and returns the path of its content.
fn unpacked(archive: &Path) -> Done<PathBuf> {
    let folder = Path::new("target/dist-check");
    create_folder(folder)?;
    run_command(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder))?;
    let path = folder.join(name(archive).trim_end_matches(".tar.gz"));
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

/// Packs a folder of the output folder, and deletes it. Builds of one commit give the same bytes.
fn archive(folder: &str) -> Done<PathBuf> {
    let tar = format!("{folder}.tar");
    let mut command = Command::new("tar");
    command.current_dir(OUT);
    if cfg!(target_os = "linux") {
        let time = said(Command::new("git").args(["log", "-1", "--format=@%ct"]));
        let time = time.unwrap_or_else(|_| "@0".to_owned());
        command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        command.arg(format!("--mtime={}", time.trim()));
    }
    run_command(command.args(["-cf", &tar, folder]))?;
    run_command(Command::new("gzip").current_dir(OUT).args(["-9", "-n", &tar]))?;
    let path = Path::new(OUT).join(folder);
    std::fs::remove_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Path::new(OUT).join(format!("{tar}.gz")))
}

/// A build of a package for a release.
fn cargo(verb: &str, package: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args([verb, "--profile", "dist", "--locked", "--package", package]);
    cargo
}

/// The program that prints SHA-256 digests.
fn digests(folder: &Path) -> Command {
    let mut command = match cfg!(target_os = "macos") {
        true => Command::new("shasum"),
        false => Command::new("sha256sum"),
    };
    if cfg!(target_os = "macos") {
        command.args(["-a", "256"]);
    }
    command.current_dir(folder);
    command
}

fn documents(folder: &Path) -> Done {
    DOCUMENTS.iter().try_for_each(|file| copy(Path::new(file), &folder.join(file)))
}
