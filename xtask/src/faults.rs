//! `cargo xtask faults`: plants faults and counts how many the tests catch.
//!
//! The sources of the library and the program are copied. In the copy, each branch of an `if`, and
//! each guard of a match arm, gets a number and can be switched off by an environment variable: it
//! is then never taken. The copy is built once. Every test runs alone once, to learn which branches
//! it takes. Then branches are drawn by lot, and for each of them the tests that take it run, the
//! fastest first, until one fails.
//!
//! `--list` prints the branches that no test takes, and draws none.
#![allow(clippy::disallowed_methods, reason = "the files are the repository's own")]

mod plant;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plant::{Branch, plant};

use crate::tools::Fault;

/// The folder of the copy and its build.
const TREE: &str = "target/faults";

/// The folders whose branches are numbered, each with the file that gets the module of switches.
const PLANTED: [(&str, &str); 3] = [
    ("src", "src/lib.rs"),
    ("crates/weighbridge-quant/src", "crates/weighbridge-quant/src/lib.rs"),
    ("cli/src", "cli/src/lib.rs"),
];

/// The folder of the other processor, which the tests do not build; `cargo xtask neon` tests it.
const NOT_BUILT: &str = if cfg!(target_arch = "aarch64") {
    "crates/weighbridge-quant/src/simd/x86_64"
} else {
    "crates/weighbridge-quant/src/simd/aarch64"
};

/// The module of switches. The first branch that a process takes is recorded once for each number.
const SWITCHES: &str = r#"//! Switches of planted faults.
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNREAD: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;
static FAULT: AtomicU32 = AtomicU32::new(UNREAD);
static RECORDS: AtomicBool = AtomicBool::new(false);
static TAKEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// Whether branch `number` may be taken.
#[inline]
pub(crate) fn taken(number: u32) -> bool {
    let fault = match FAULT.load(Relaxed) {
        UNREAD => read(),
        fault => fault,
    };
    if RECORDS.load(Relaxed) && !TAKEN[number as usize].swap(true, Relaxed) {
        record(number);
    }
    fault != number
}

#[cold]
fn read() -> u32 {
    let fault = std::env::var("WEIGHBRIDGE_FAULT").ok().and_then(|text| text.parse().ok());
    RECORDS.store(std::env::var_os("WEIGHBRIDGE_TAKEN").is_some(), Relaxed);
    FAULT.store(fault.unwrap_or(NONE), Relaxed);
    fault.unwrap_or(NONE)
}

#[cold]
fn record(number: u32) {
    let Some(path) = std::env::var_os("WEIGHBRIDGE_TAKEN") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(&number.to_le_bytes());
    }
}
"#;

/// Branches whose switching off changes no result, so that no test can catch it: the file, the
/// condition and the reason. They are not drawn.
#[rustfmt::skip]
const EQUIVALENT: &[(&str, &str, &str)] = &[
    // Other ways to read the same bytes.
    ("src/model/tensor/values.rs", "held == CacheState::No", "longer reads"),
    ("src/bytes/bulk.rs", "out.len() < LEAST && let Some(bulk) = self.bulk() && read_exact_at(&bulk.quiet, offset, out).is_ok()", "a read that does not fetch what follows"),
    ("src/bytes/bulk.rs", "pages.as_ptr().align_offset(SECTOR) == 0", "a read without a copy"),
    ("src/bytes/bulk.rs", "let SourceKind::Memory { bytes } = &self.kind", "a read without a copy"),
    ("src/bytes/bulk.rs", "let Some(bulk) = self.cold(range.start, len)", "a read past the page cache"),
    ("src/bytes/bulk.rs", "read > 0 && (read.is_multiple_of(SECTOR) || filled + read >= wanted)", "a read past the page cache"),
    ("src/bytes/cursor.rs", "let Some(found) = found", "bytes that are held already; `take` finds them too"),
    ("src/bytes/cursor.rs", "(self.held.len() as u64) < end", "an entry is read with all checks"),
    ("src/bytes/cursor.rs", "start == 0", "the first piece is read like the others"),
    ("src/bytes/cursor.rs", "self.held.len().saturating_sub(pos) >= DIVIDED", "one walk instead of four"),
    ("src/bytes/bounce.rs", "left < PAGE || !(1..32).contains(&distance(at, to))", "through a buffer"),
    ("src/container/gguf/header.rs", "end.is_some_and(|end| end <= file_len)", "what was checked while parsing is checked again"),
    ("src/container/safetensors/header.rs", "header.source.is_in_reach()", "how much is read at a time"),
    ("src/container/safetensors/header.rs", "has_entries", "parsed after it is read"),
    ("src/container/safetensors/header.rs", "self.usual_metadata(&mut json)?", "the entries are parsed with the next piece"),
    ("src/container/safetensors/header.rs", "json.peek() == Some(b'\"') && let Some((dtype, rest)) = json.rest().get(1..).and_then(|text| self.compact_dtype(text))", "the dtype is looked up again"),
    ("src/container/safetensors/number.rs", "let Some(power) = POWERS.get(count)", "digits one by one"),
    ("src/store/tensor/decode.rs", "window.is_none()", "a read without a copy"),
    ("src/model/tensor/stored.rs", "let Ok(whole) = self.as_stored()", "copied in pieces"),
    ("crates/weighbridge-quant/src/mlx/quantize.rs", "let Some(room) = rest.first_chunk_mut()", "codes are copied once more"),
    ("crates/weighbridge-quant/src/mlx/floating.rs", "let Some(out) = out.first_chunk_mut()", "scales are copied byte by byte"),
    ("src/metadata/mod.rs", "this.items.len() <= UNINDEXED", "an index of few keys"),
    ("src/adapter/peft.rs", "!pattern.contains(['\\\\', '[', ']', '(', ')', '*', '+', '?', '|', '^', '$', '{', '}'])", "a regular expression with the same result"),
    ("src/model/tensor/values.rs", "held == CacheState::Mapped && plan.is_weight_alone()", "decoded without a copy"),
    ("src/model/tensor/work.rs", "let [ByteRuns { taken, count: 1, .. }] = runs.as_slice() && let [run] = &**taken", "read without a copy"),
    ("src/model/tensor/values.rs", "columns < 64 || span.step == 1", "rows are decoded one by one"),
    ("src/model/tensor/values.rs", "in_turn", "a read past the page cache"),
    ("src/model/tensor/values.rs", "whole", "rows are decoded one by one"),
    ("src/model/tensor/work.rs", "end > at", "pieces end elsewhere"),
    ("src/ops/pull/hub_links.rs", "std::fs::read_link(link).is_ok_and(|found| found == Path::new(target))", "the same link is made again"),
    ("src/model/tensor/reader.rs", "let Some(elements) = self.reader.stored_elements(source, span)", "rows are decoded, then multiplied"),
    ("src/ops/statistics/grid.rs", "sum.is_finite()", "values are added one by one"),
    ("cli/src/print/screen.rs", "text.bytes().all(|byte| matches!(byte, b' '..=b'~'))", "characters one by one, with the same result"),
    ("src/model/tensor/reader.rs", "let Some((_, plan)) = self.reader.plans.get(plan) && plan.multiply(&elements, step, inputs, now)?", "rows are decoded, then multiplied"),
    ("src/tokenizer/vocabulary.rs", "self.len & ESCAPED == 0", "parsed, with the same result"),
    // Memory that is requested at once, or kept for the next use.
    ("src/model/tensor/mod.rs", "self.is_packed_as(&[Packing::Plain])", "a long vector is read at once"),
    ("src/store/tensor/bulk.rs", "let Ok((source, segment)) = self.source(part) && let Ok(range) = self.range(&segment, &within)", "pages of a map are kept"),
    ("src/bytes/mod.rs", "let Some(map) = map.get()", "the file is mapped once more"),
    ("src/bytes/mod.rs", "len == 0", "no bytes of the map"),
    ("src/bytes/text.rs", "let Some(text) = self.to_str().filter(|text| text.len() <= END && self.is_plain())", "characters one by one, with the same result"),
    ("src/bytes/text.rs", "let Some(line) = self.to_str().filter(|_| self.is_plain())", "characters one by one, with the same result"),
    ("src/remote/file.rs", "end <= have", "the bytes are copied once more"),
    ("src/json/scanner.rs", "!span.escaped", "parsed, with the same result"),
    ("src/write/method.rs", "is_plain", "they have quantizers, unless the feature `write` is off"),
    ("src/write/slices/store.rs", "bucket.write_new(&folder.join(UPLOADS), text.as_bytes())?", "the list is read back, and is the one that was written"),
    ("src/write/target.rs", "self.bytes.is_empty()", "no bytes are written"),
    ("src/bytes/files.rs", "self.exists(path)", "a blob that is there has no older name"),
    ("src/bytes/bulk.rs", "let SourceKind::Mapped { map, .. } = &self.kind && let (Ok(len), Ok(start)) = (self.check(range), usize::try_from(range.start)) && let Some(map) = map.get()", "pages that were read count as memory of this program"),
    ("src/bytes/mmap.rs", "start < end", "pages that were read count as memory of this program"),
    ("src/inventory/index.rs", "there.len() == self.entries.len()", "no model is gone"),
    ("src/write/slices/cut.rs", "outside || last <= numbers.start || item.first >= numbers.end", "its pieces are looked at, and none is taken"),
    ("src/write/slices/parts.rs", "whole(placed).is_some_and(|whole| !touches(&whole))", "its pieces are looked at, and none is taken"),
    ("src/write/slices/cut.rs", "open.contains_key(&piece.file)", "the file is opened once more"),
    ("src/write/target.rs", "file.metadata().is_ok_and(has_space)", "the space is reserved already"),
    // Memory that is requested at once, or kept for the next use.
    ("src/remote/file.rs", "(start.len() as u64) < self.version.size", "the header stays in memory"),
    ("src/bytes/cursor.rs", "self.held.capacity() < target", "`resize` requests the memory too"),
    ("src/bytes/cursor.rs", "have >= LATER", "how much is requested ahead"),
    ("src/bytes/alloc.rs", "len < FRESH_PAGES", "zeros are written, or fresh pages have them"),
    ("src/bytes/pages.rs", "size >= LARGE", "huge pages"),
    ("src/model/tensor/values.rs", "self.values.capacity() < count", "`resize` requests the memory too"),
    ("src/model/tensor/values.rs", "let Some(held) = self.plans.iter().position(|(held, _)| held.is(&tensor))", "the plan is made again"),
    ("src/model/tensor/values.rs", "self.plans.len() == PLANS", "more plans are kept"),
    ("src/model/tensor/mod.rs", "transform.is_same()", "a name is made that the canonical one replaces"),
    ("src/store/build.rs", "listings.clone().nth(1).is_none()", "the entries are copied"),
    ("src/store/build.rs", "self.listing.entries.capacity() == 0", "the entries are copied"),
    ("src/model/tensor/low_rank.rs", "let [(0, RowSpan { start, step, count })] = *runs && (step == 1 || count == 1)", "a table of the same numbers"),
    // No test runs out of memory, or on another platform.
    ("src/bytes/cursor.rs", "self.held.try_reserve_exact(room).is_err()", "no memory"),
    ("src/container/safetensors/header.rs", "header.try_reserve_exact(unescaped.len()).is_err()", "no memory"),
    ("src/bytes/positioned.rs", "error.kind() == std::io::ErrorKind::Interrupted", "Windows"),
    ("src/store/listing.rs", "len & OWN_NAME != 0", "a name of 2 GiB"),
    ("src/ops/pull/hub_links.rs", "std::os::windows::fs::symlink_file(target.replace('/', \"\\\\\"), &own).is_err()", "Windows"),
    ("src/ops/pull/transfer.rs", "!is_same(&file, path)", "another process renames the file between two calls"),
    ("cli/src/cmd/bench.rs", "report.imported_bytes > 0", "a GPU; these tests are built without"),
    ("cli/src/cmd/view/server.rs", "gone", "an answer that nobody reads is computed to its end"),
    // How work is divided.
    ("src/model/tensor/values.rs", "elements < SHARED", "threads for few values"),
    ("src/write/slices/parts.rs", "let Some(range) = whole(placed)", "the same work, piece by piece"),
    ("src/threads.rs", "alone", "a thread for one item"),
    ("src/threads.rs", "threads == 1", "one thread with a queue"),
    ("src/store/tensor/decode.rs", "decoding.threads == Threads::one()", "one thread with a queue"),
    ("src/store/tensor/decode.rs", "end > at && next - at > room", "longer pieces"),
    ("src/container/safetensors/read.rs", "indexed.is_named(guess, name)", "the name is looked up"),
    ("src/container/safetensors/header.rs", "source.is_in_reach()", "how much is read at first"),
    ("src/container/safetensors/header.rs", "name == last.0", "the dtype is looked up again"),
    ("src/container/safetensors/header.rs", "name == before.0", "the dtype is looked up again"),
    ("src/container/safetensors/header.rs", "self.in_order && self.reached == file_len && !self.duplicates_may_pass", "what was checked while parsing is checked again"),
    ("src/container/safetensors/header.rs", "let Some(rest) = text.strip_prefix(b\"{\\\"dtype\\\":\\\"\")", "an entry in the usual spelling is read as any other"),
    ("src/container/safetensors/header.rs", "let Some(rest) = text.strip_prefix(b\"]\")", "an entry in the usual spelling is read as any other"),
    ("src/ops/statistics/grid.rs", "b.rows_at_once() > a.rows_at_once()", "pieces of other lengths"),
    ("src/ops/statistics/grid.rs", "values >= PIECE", "one thread with all pieces"),
    // Early ends of loops that would find nothing more, and stores past the cache.
    ("crates/weighbridge-quant/src/body.rs", "past && S::STREAMS", "stores past the cache"),
    ("crates/weighbridge-quant/src/body.rs", "S::STREAMS && self.past", "bytes are not asked for ahead"),
    ("src/store/tensor/mod.rs", "file.source.is_in_reach()", "files of this machine do nothing when they are asked"),
    ("crates/weighbridge-quant/src/mlx/mod.rs", "self.packed.global == Global::None", "values are looked at that are not lost"),
    ("crates/weighbridge-quant/src/mlx/floating.rs", "!highest.is_finite()", "of what is not finite, rounding makes nothing finite"),
    ("crates/weighbridge-quant/src/simd/x86_64.rs", "PAST && out.is_aligned()", "stores past the cache"),
    ("crates/weighbridge-quant/src/ggml/encode/search.rs", "step < 5", "a cheaper rounding with the same result"),
    ("crates/weighbridge-quant/src/ggml/encode/search.rs", "simd.all(simd.either(near, flat))", "a cheaper rounding with the same result"),
    ("crates/weighbridge-quant/src/ggml/encode/search.rs", "!simd.any(better)", "no lane is chosen"),
    ("crates/weighbridge-quant/src/ggml/encode/search.rs", "!simd.any(changed)", "no lane changes again"),
    ("crates/weighbridge-quant/src/ggml/encode/search.rs", "!changed", "no lane changes again"),
    ("src/model/tensor/mod.rs", "runs.len() > RUNS", "the check after the loop refuses it"),
    ("src/model/tensor/slice.rs", "runs.len() > RUNS", "the check after the loop refuses it"),
    ("src/model/tensor/arrange.rs", "used.iter().all(|used| *used)", "every source is kept"),
    ("src/ops/statistics/grid.rs", "low >= to", "the cells behind the part get no values"),
    ("src/arch/resolve.rs", "keep.iter().all(|keep| *keep)", "every mapping is kept, and none is left over"),
    ("src/write/pipeline.rs", "self.stop.load(Ordering::Relaxed)", "the rest is made before the failure is told"),
    ("src/write/pipeline.rs", "full.send(FilledBuffer { file, to: piece.to, buffer }).is_err()", "the writer has failed, so no buffer comes back"),
    ("src/write/pipeline.rs", "loss == Loss::default()", "zeros are added to the sums"),
    ("src/inventory/duplicates.rs", "models.iter().all(|(_, model, _)| model.entry.values.is_some())", "no digest is missing"),
    // Checks of this library's own sums, which always fit.
    ("src/write/out.rs", "planned != self.bytes", "the pieces of a tensor have its bytes"),
];

/// A test of one executable, and what it does without a fault.
struct Test {
    executable: PathBuf,
    folder: PathBuf,
    name: String,
    seconds: f64,
    takes: Vec<u32>,
}

struct Options {
    count: usize,
    seed: u64,
    /// Whether the copy and the record of an earlier run are used.
    keep: bool,
    /// Whether the branches that no test takes are printed, and none is drawn.
    list: bool,
}

pub(crate) fn run(words: &[String]) -> Result<(), Fault> {
    let result = options(words).and_then(|options| faults(&options));
    Ok(result.map_err(|error| format!("faults: {error}"))?)
}

fn options(words: &[String]) -> Result<Options, String> {
    let mut options = Options { count: 60, seed: 1, keep: false, list: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let next = words.next().and_then(|next| next.parse::<u64>().ok());
            next.ok_or_else(|| format!("{word} needs a number"))
        };
        match word.as_str() {
            "--count" => options.count = usize::try_from(number()?).unwrap_or(60),
            "--seed" => options.seed = number()?,
            "--keep" => options.keep = true,
            "--list" => options.list = true,
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

fn faults(options: &Options) -> Result<(), String> {
    let root = std::env::current_dir().map_err(|error| error.to_string())?;
    let tree = root.join(TREE);
    let branches = match options.keep.then(|| load_branches(&tree)).flatten() {
        Some(branches) => branches,
        None => copy(&root, &tree)?,
    };
    eprintln!("{} branches in {}", branches.len(), tree.display());
    let tests = match options.keep.then(|| load(&tree)).flatten() {
        Some(tests) => tests,
        None => {
            let executables = build(&tree)?;
            let tests = record(&tree, &executables)?;
            save(&tree, &tests)?;
            tests
        }
    };
    let fair = fair(&branches, EQUIVALENT)?;
    let untaken = untaken(&branches, &tests);
    let reached = branches.len() - untaken.len();
    eprintln!("{} tests take {reached} of {} branches", tests.len(), branches.len());
    if options.list {
        for number in untaken.iter().filter(|number| fair.contains(number)) {
            println!("{number:5} {}", branches[*number].place());
        }
        return Ok(());
    }
    let lots = draw(fair.len(), options.count, options.seed);
    let drawn: Vec<usize> = lots.into_iter().map(|lot| fair[lot]).collect();
    let results = try_all(&drawn, &branches, &tests);
    let mut missed = Vec::new();
    for (number, catcher) in drawn.iter().zip(&results) {
        let place = branches[*number].place();
        match catcher {
            Some(test) => println!("caught      {number:5} {place}  by {test}"),
            None => {
                let taken = tests.iter().any(|test| test.takes.contains(&index(*number)));
                let how = if taken { "NOT CAUGHT " } else { "NEVER TAKEN" };
                println!("{how} {number:5} {place}");
                missed.push(*number);
            }
        }
    }
    println!("{} of {} caught (seed {})", drawn.len() - missed.len(), drawn.len(), options.seed);
    Ok(())
}

/// The numbers of the branches that are drawn: all but those of other platforms, and those whose
/// switching off changes nothing.
///
/// # Errors
///
/// A row of `equivalent` that no branch has: its reason must be read again.
fn fair(branches: &[Branch], equivalent: &[(&str, &str, &str)]) -> Result<Vec<usize>, String> {
    let is = |branch: &Branch, (file, condition): (&str, &str)| {
        branch.file == file && branch.condition == condition
    };
    for (file, condition, _) in equivalent {
        if !branches.iter().any(|branch| is(branch, (file, condition))) {
            return Err(format!("no branch of {file} has the condition: {condition}"));
        }
    }
    let fair = branches.iter().enumerate().filter(|(_, branch)| {
        !branch.condition.starts_with("cfg!(")
            && !equivalent.iter().any(|(file, condition, _)| is(branch, (file, condition)))
    });
    Ok(fair.map(|(number, _)| number).collect())
}

fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn untaken(branches: &[Branch], tests: &[Test]) -> Vec<usize> {
    let mut taken = vec![false; branches.len()];
    for number in tests.iter().flat_map(|test| &test.takes) {
        if let Some(taken) = taken.get_mut(*number as usize) {
            *taken = true;
        }
    }
    (0..branches.len()).filter(|number| !taken[*number]).collect()
}

/// Draws distinct numbers below `all` with a generator that any machine repeats (SplitMix64).
fn draw(all: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut drawn = Vec::new();
    while drawn.len() < count.min(all) {
        let number = usize::try_from(next() % all as u64).unwrap_or(0);
        if !drawn.contains(&number) {
            drawn.push(number);
        }
    }
    drawn
}

/// Copies the files of the working tree that git knows or does not ignore, with numbered branches.
fn copy(root: &Path, tree: &Path) -> Result<Vec<Branch>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut branches = Vec::new();
    let mut written = Vec::new();
    for name in listed.lines().filter(|name| root.join(name).is_file()) {
        let bytes = fs::read(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let planted = PLANTED.iter().any(|(folder, _)| {
            let rest = name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
            let of_tests = |name: &str| name.ends_with("tests.rs") || name.contains("/tests/");
            rest.is_some_and(|rest| rest.ends_with(".rs") && !of_tests(rest))
        });
        let planted = planted && !name.starts_with(NOT_BUILT);
        let bytes = match planted {
            true => plant(name, &String::from_utf8_lossy(&bytes), &mut branches).into_bytes(),
            false => bytes,
        };
        written.push((name.to_owned(), bytes));
    }
    let module = SWITCHES.replace("COUNT", &branches.len().to_string());
    for (folder, main) in PLANTED {
        written.push((format!("{folder}/planted_faults.rs"), module.clone().into_bytes()));
        if let Some((_, bytes)) = written.iter_mut().find(|(name, _)| name == main) {
            bytes.extend_from_slice(b"\nmod planted_faults;\n");
        }
    }
    for (name, bytes) in &written {
        let path = tree.join(name);
        // Unchanged files keep their time, so that cargo does not build them again.
        if fs::read(&path).is_ok_and(|old| old == *bytes) {
            continue;
        }
        let folder = path.parent().unwrap_or(tree);
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let line =
        |branch: &Branch| format!("{}\t{}\t{}\n", branch.file, branch.line, branch.condition);
    let list: String = branches.iter().map(line).collect();
    fs::write(tree.join("branches.tsv"), list).map_err(|error| error.to_string())?;
    Ok(branches)
}

/// The branches of an earlier copy: the working tree may have others by now.
fn load_branches(tree: &Path) -> Option<Vec<Branch>> {
    let text = fs::read_to_string(tree.join("branches.tsv")).ok()?;
    let line = |line: &str| {
        let mut parts = line.splitn(3, '\t');
        let (file, number) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        Some(Branch { file, line: number, condition: parts.next()?.to_owned() })
    };
    text.lines().map(line).collect()
}

/// An executable of tests, and the folder that it runs in.
type Executable = (PathBuf, PathBuf);

/// Builds the tests of the copy.
fn build(tree: &Path) -> Result<Vec<Executable>, String> {
    eprintln!("building {}", tree.display());
    let output = Command::new("cargo")
        .args(["test", "--workspace", "--no-run", "--message-format=json"])
        // Without the tests of the bindings, which can only lower the number of faults caught.
        .args(
            ["xtask", "weighbridge-capi", "weighbridge-dlpack"]
                .map(|name| format!("--exclude={name}")),
        )
        .args(["--lib", "--bins", "--tests"])
        .current_dir(tree)
        .env("CARGO_PROFILE_TEST_DEBUG", "false")
        .env("CARGO_TARGET_DIR", tree.join("target"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the copy does not build".to_owned());
    }
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (Some(path), Some(manifest)) =
            (field(line, "executable"), field(line, "manifest_path"))
        else {
            continue;
        };
        let folder = Path::new(&manifest).parent().map(Path::to_path_buf).unwrap_or_default();
        let profile = line.split_once("\"profile\":{").and_then(|(_, rest)| rest.split_once('}'));
        if profile.is_some_and(|(profile, _)| profile.contains("\"test\":true")) {
            found.push((PathBuf::from(path), folder));
        }
    }
    Ok(found)
}

/// A text field of a line of JSON that cargo wrote.
fn field(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(value, _)| value.to_owned())
}

/// Runs every test alone, and records the branches that it takes. Tests that fail without a fault
/// are left out.
fn record(tree: &Path, executables: &[Executable]) -> Result<Vec<Test>, String> {
    let mut all = Vec::new();
    for (executable, folder) in executables {
        let output = Command::new(executable)
            .args(["--list", "--format", "terse"])
            .current_dir(folder)
            .output()
            .map_err(|error| format!("{}: {error}", executable.display()))?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some(name) = line.strip_suffix(": test") {
                let (executable, folder) = (executable.clone(), folder.clone());
                all.push(Test {
                    executable,
                    folder,
                    name: name.to_owned(),
                    seconds: 0.0,
                    takes: Vec::new(),
                });
            }
        }
    }
    eprintln!("running {} tests, each alone", all.len());
    let records = tree.join("records");
    let _ = fs::remove_dir_all(&records);
    fs::create_dir_all(&records).map_err(|error| error.to_string())?;
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let all = &all;
    std::thread::scope(|scope| {
        for _ in 0..workers() {
            scope.spawn(|| {
                while let Some((number, test)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    all.get(number).map(|test| (number, test))
                } {
                    let file = records.join(number.to_string());
                    writable_by_all(&file);
                    let start = Instant::now();
                    let passed =
                        passes(test, ("WEIGHBRIDGE_TAKEN", &file.to_string_lossy()), 1200.0);
                    let seconds = start.elapsed().as_secs_f64();
                    let bytes = fs::read(&file).unwrap_or_default();
                    let mut takes: Vec<u32> = bytes
                        .as_chunks::<4>()
                        .0
                        .iter()
                        .map(|bytes| u32::from_le_bytes(*bytes))
                        .collect();
                    takes.sort_unstable();
                    takes.dedup();
                    let (executable, folder) = (test.executable.clone(), test.folder.clone());
                    let test = Test { executable, folder, name: test.name.clone(), seconds, takes };
                    match passed {
                        true => done.lock().expect("no panic").push(test),
                        false => eprintln!("fails without a fault: {}", test.name),
                    }
                }
            });
        }
    });
    let mut tests = done.into_inner().expect("no panic");
    tests.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(tests)
}

/// Makes a file in which a program may record branches that a test runs as another user.
fn writable_by_all(file: &Path) {
    let made = fs::write(file, []);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = made.and_then(|()| fs::set_permissions(file, fs::Permissions::from_mode(0o666)));
    }
    #[cfg(not(unix))]
    let _ = made;
}

fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether a test passes with an environment variable set, within a time.
fn passes(test: &Test, (key, value): (&str, &str), seconds: f64) -> bool {
    let child = Command::new(&test.executable)
        .args(["--exact", &test.name, "--test-threads", "1"])
        .current_dir(&test.folder)
        .env("CARGO_MANIFEST_DIR", &test.folder)
        .env("INSTA_UPDATE", "no")
        .env(key, value)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Tries each drawn branch: the name of the first test that fails, if any.
fn try_all(drawn: &[usize], branches: &[Branch], tests: &[Test]) -> Vec<Option<String>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..workers() {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(number) = drawn.get(place) else { break };
                    let taking = tests.iter().filter(|test| test.takes.contains(&index(*number)));
                    let mut catcher = None;
                    for test in taking {
                        let limit = 30.0 + 10.0 * test.seconds;
                        if !passes(test, ("WEIGHBRIDGE_FAULT", &number.to_string()), limit) {
                            catcher = Some(test.name.clone());
                            break;
                        }
                    }
                    match catcher {
                        Some(_) => eprint!("."),
                        None => eprintln!("\nnot caught: {number} {}", branches[*number].place()),
                    }
                    results.lock().expect("no panic").insert(place, catcher);
                }
            });
        }
    });
    eprintln!();
    results.into_inner().expect("no panic").into_values().collect()
}

/// Saves what the tests do, one line each.
fn save(tree: &Path, tests: &[Test]) -> Result<(), String> {
    let mut text = String::new();
    for test in tests {
        let takes: Vec<String> = test.takes.iter().map(u32::to_string).collect();
        let (executable, folder) = (test.executable.display(), test.folder.display());
        text += &format!(
            "{executable}\t{folder}\t{}\t{}\t{}\n",
            test.name,
            test.seconds,
            takes.join(",")
        );
    }
    fs::write(tree.join("tests.tsv"), text).map_err(|error| error.to_string())
}

fn load(tree: &Path) -> Option<Vec<Test>> {
    let text = fs::read_to_string(tree.join("tests.tsv")).ok()?;
    let line = |line: &str| {
        let [executable, folder, name, seconds, takes] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some(Test {
            executable: executable.into(),
            folder: folder.into(),
            name: name.to_owned(),
            seconds: seconds.parse().ok()?,
            takes: takes.split(',').filter_map(|number| number.parse().ok()).collect(),
        })
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_branches_are_not_drawn() {
        let branch = |file: &str, condition: &str| Branch {
            file: file.to_owned(),
            line: 1,
            condition: condition.to_owned(),
        };
        let branches = [branch("a.rs", "x"), branch("a.rs", "y"), branch("b.rs", "x")];
        assert_eq!(fair(&branches, &[("a.rs", "x", "")]), Ok(vec![1, 2]));
        assert!(fair(&branches, &[("a.rs", "z", "")]).is_err());
    }

    #[test]
    fn lots_are_repeated_and_distinct() {
        assert_eq!(draw(1000, 60, 7), draw(1000, 60, 7));
        assert_ne!(draw(1000, 60, 7), draw(1000, 60, 8));
        let mut drawn = draw(50, 60, 1);
        drawn.sort_unstable();
        assert_eq!(drawn, (0..50).collect::<Vec<_>>());
    }
}
