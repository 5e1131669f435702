//! Help texts. Each ends with examples.

mod support;

use insta::assert_snapshot;
use support::{printed, run};

/// Every verb in the program's help.
fn verbs() -> Vec<String> {
    let help = printed(&["--help"]);
    let list = help.split("Commands:\n").nth(1).expect("a list of verbs");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let verbs = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    verbs.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_verb_gives_examples() {
    let verbs = verbs();
    assert!(verbs.len() >= 8, "{verbs:?}");
    for verb in verbs {
        let help = printed(&[&verb, "--help"]);
        let (_, examples) = help.split_once("\nExamples:\n").expect(&verb);
        for line in examples.trim_end().lines() {
            assert!(line.starts_with(&format!("  weighbridge {verb} ")), "{verb}: {line}");
        }
    }
}

#[test]
fn the_program() {
    assert_snapshot!(printed(&["--help"]), @"
    Inspects, checks, compares, loads, converts and quantizes language models in any file format

    Usage: weighbridge [OPTIONS] <COMMAND>

    Commands:
      inspect      Show a model's container, config and tensors
      config       Show the config values that an engine needs, each with its source
      hash         Print the SHA-256 of every tensor
      dump         Write one tensor's values or bytes
      diff         Compare the tensors of two models by canonical name; their containers may differ
      verify       Check a model's files, their agreement with each other and, with --deep, its values
      view         Show models in the browser: tensors, values, layers, differences
      report       Write a report on a model, or on what two differ, as one HTML file
      load         Load every tensor by canonical name and time it
      logits       Run a model on some tokens, and show or write its logits
      generate     Run a model, and print the text that continues a prompt
      embed        Print a vector for each text
      tokens       Print the tokens of a text, or the text of tokens
      memory       Show how much memory a model takes to run
      compare      Measure what a conversion or a quantization costs in quality
      convert      Convert a model to another container
      quantize     Quantize a model as llama-quantize or mlx-lm does
      create       Create a model in Ollama's store
      show         Show a model of Ollama's store as `ollama show` does
      pull         Download models from the Hugging Face hub or Ollama's registry, to where other
                   programs find them
      split        Split a model into several files
      merge        Merge the files of a model into one file
      plan         Plan a conversion that many processes run in slices
      slice        Run one slice of a plan
      finish       Check the slices of a plan, and move the model to its place
      status       Show which slices of a plan are done
      align        Copy a file with its tensor data aligned
      meta         Print metadata, or edit the metadata of a GGUF file
      list         List containers, dtypes, file types, architectures, devices or kernels, or the models
                   on this machine
      completions  Print a completion script for a shell
      man          Write the manual pages

    Options:
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help
      -V, --version        Print version

    Examples:
      weighbridge load                          load the built-in sample model and time it
      weighbridge inspect model.gguf            show what a file contains
      weighbridge inspect ~/models/Qwen3-0.6B   a directory downloaded from Hugging Face
      weighbridge dump model.gguf output_norm.weight

    Exit status:
        0  success
        1  verify, diff, list or compare found a fault or a difference
        2  wrong usage, or a request that does not fit the model or the destination
        3  damaged, incomplete, contradictory or too large; or no model at all
        4  unsupported
        5  path, tensor or key not found, no permission, no space, output closed
      130  interrupted with Ctrl-C
    ");
}

#[test]
fn the_version() {
    let version = printed(&["-V"]);
    // An optimized build also names its commit.
    assert!(
        version.starts_with(&format!("weighbridge {}", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
    let features = match (cfg!(feature = "gpu"), cfg!(feature = "http")) {
        (true, true) => "gpu, http",
        (true, false) => "gpu",
        (false, true) => "http",
        (false, false) => "none",
    };
    assert_eq!(printed(&["--version"]), format!("{version}features: {features}\n"));
}

#[test]
fn inspect() {
    assert_snapshot!(printed(&["inspect", "--help"]), @"
    Show a model's container, config and tensors

    Usage: weighbridge inspect [OPTIONS] <PATH>...

    Arguments:
      <PATH>...  Models: files, any shard of a split GGUF, directories, or names of Ollama models; or
                 one model and the stored or canonical name of one of its tensors, whose values are then
                 summarized

    Options:
          --canonical       Show canonical names and how each tensor is derived
          --stored          Show stored names only, without resolving canonical names
          --all             Show one row per tensor instead of grouping equal layers
          --filter <GLOB>   Show only tensors whose stored or canonical name matches; * matches any
                            text, ? one character
          --metadata        Also show metadata; long strings and arrays are shortened
          --stats           Show instead a summary of the values of each tensor: range, mean, deviation,
                            zeros, outliers
          --dispatch        Show instead how a GPU computes with each tensor: kernels, windows of rows,
                            workgroups
          --shard <COUNTS>  Show instead what each of several ranks loads. COUNTS: tp=N ranks divide the
                            matrices, pp=N the layers, ep=N the experts
          --json            Print JSON
          --strict          Apply the strictest reader's rules: those of llama.cpp for GGUF, those of
                            the format's specification for safetensors
          --lenient         Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
          --no-map          Read tensor data from the file instead of memory-mapping it
          --all-files       Include safetensors files that the index does not name
          --offline         Contact no server: use the headers that earlier runs kept
          --color <WHEN>    Controls when to use color [default: auto] [possible values: auto, always,
                            never]
          --wide            Show tables in full on a terminal, even if they are wider
          --family <FILE>   Read model families from a file, in addition to the built-in ones
      -h, --help            Print help

    Examples:
      weighbridge inspect model.gguf
      weighbridge inspect a.gguf b.gguf
      weighbridge inspect model-00001-of-00003.gguf --all --filter '*attn*'
      weighbridge inspect llama3.2            a model in Ollama's store
      weighbridge inspect model.gguf --canonical
      weighbridge inspect ./Qwen3-0.6B --shard tp=4,pp=2
      weighbridge inspect model.gguf blk.0.attn_q.weight     one tensor's values: histogram, quantiles
      weighbridge inspect model.gguf --stats
      weighbridge inspect ./Qwen3-0.6B --json | jq '.tensors[0]'
    ");
}

#[test]
fn config() {
    assert_snapshot!(printed(&["config", "--help"]), @"
    Show the config values that an engine needs, each with its source

    Usage: weighbridge config [OPTIONS] <PATH>

    Arguments:
      <PATH>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model

    Options:
          --json           Print JSON
          --strict         Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the
                           format's specification for safetensors
          --lenient        Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
          --no-map         Read tensor data from the file instead of memory-mapping it
          --all-files      Include safetensors files that the index does not name
          --offline        Contact no server: use the headers that earlier runs kept
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help

    Examples:
      weighbridge config model.gguf
      weighbridge config ./Qwen3-0.6B --json | jq '.config.head_dim.value'
    ");
}

#[test]
fn hash() {
    assert_snapshot!(printed(&["hash", "--help"]), @"
    Print the SHA-256 of every tensor

    Usage: weighbridge hash [OPTIONS] <PATH>...

    Arguments:
      <PATH>...  Models: files, any shard of a split GGUF, directories, or names of Ollama models

    Options:
          --values         Also hash the values, as little-endian f32 in row-major order
          --save <FILE>    Print nothing; save the hashes, including those of scales, for `verify
                           --against`. FILE must not exist yet, or be such a list
          --json           Print JSON
          --strict         Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the
                           format's specification for safetensors
          --lenient        Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
          --no-map         Read tensor data from the file instead of memory-mapping it
          --all-files      Include safetensors files that the index does not name
          --offline        Contact no server: use the headers that earlier runs kept
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help

    Examples:
      weighbridge hash model.gguf
      weighbridge hash model.gguf --values --json > model.hashes.json
      weighbridge hash model.gguf --save model.hashes     for verify --against
    ");
}

#[test]
fn dump() {
    assert_snapshot!(printed(&["dump", "--help"]), @"
    Write one tensor's values or bytes

    Usage: weighbridge dump [OPTIONS] <PATH> <NAME>

    Arguments:
      <PATH>
              A file, any shard of a split GGUF, a directory, or the name of an Ollama model

      <NAME>
              The tensor's stored name, for the order and values of the file, or its canonical name, for
              those of the Hugging Face checkpoint

    Options:
          --as <FORM>
              Output format; values that rounding makes infinite or 0 are counted on standard error

              Possible values:
              - text: Readable rows of numbers
              - f32:  Values as little-endian f32, in row-major order
              - f16:  Values rounded to little-endian f16, in row-major order
              - bf16: Values rounded to little-endian bf16, in row-major order
              - raw:  The stored bytes; for a canonical name, the packed bytes that `load` gives
              - npy:  Values as f32 in a NumPy array file (.npy)
              
              [default: text]

          --rows <A..B>
              Write only rows A to B - 1; rows are counted over all dimensions but the last

          --all
              With --as text: write every row and column

      -o, --output <FILE>
              Write to FILE, which must not exist, instead of standard output; - is standard output even
              if that is a terminal

          --strict
              Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the format's
              specification for safetensors

          --lenient
              Accept safetensors files with holes, overlaps or trailing bytes, as MLX does

          --no-map
              Read tensor data from the file instead of memory-mapping it

          --all-files
              Include safetensors files that the index does not name

          --offline
              Contact no server: use the headers that earlier runs kept

          --color <WHEN>
              Controls when to use color
              
              [default: auto]
              [possible values: auto, always, never]

          --wide
              Show tables in full on a terminal, even if they are wider

          --family <FILE>
              Read model families from a file, in addition to the built-in ones

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      weighbridge dump model.gguf output_norm.weight
      weighbridge dump model.gguf blk.0.attn_q.weight --rows 0..4 --all
      weighbridge dump ./Qwen3-0.6B model.norm.weight --as npy -o norm.npy
      weighbridge dump model.gguf blk.0.ffn_up.weight --as bf16 > ffn_up.bf16
      weighbridge dump model.gguf token_embd.weight --as raw | sha256sum
    ");
}

#[test]
fn diff() {
    assert_snapshot!(printed(&["diff", "--help"]), @"
    Compare the tensors of two models by canonical name; their containers may differ

    Usage: weighbridge diff [OPTIONS] <A> <B>

    Arguments:
      <A>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model
      <B>  The model to compare with, given in the same ways

    Options:
          --tolerance <T>  Treat elements as equal if they differ by at most T [default: 0]
          --filter <GLOB>  Compare only tensors whose stored or canonical name matches
          --all            Show one row per tensor, also for equal tensors, instead of grouping equal
                           layers
          --json           Print JSON
          --strict         Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the
                           format's specification for safetensors
          --lenient        Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
          --no-map         Read tensor data from the file instead of memory-mapping it
          --all-files      Include safetensors files that the index does not name
          --offline        Contact no server: use the headers that earlier runs kept
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help

    Examples:
      weighbridge diff ./Qwen3-0.6B Qwen3-0.6B-Q8_0.gguf      what quantization changed, per tensor
      weighbridge diff a.gguf b.gguf --tolerance 1e-3 && echo 'close enough'
      weighbridge diff a.gguf b.gguf --filter '*.ffn.*' --all
      weighbridge diff a.gguf b.gguf --json | jq '.different[].name'
    ");
}

#[test]
fn verify() {
    assert_snapshot!(printed(&["verify", "--help"]), @"
    Check a model's files, their agreement with each other and, with --deep, its values

    Usage: weighbridge verify [OPTIONS] <PATH>...

    Arguments:
      <PATH>...  Models: files, any shard of a split GGUF, directories, or names of Ollama models

    Options:
          --deep            Also check every value and scale. Faults: NaN and infinity in values or
                            scales, as in llama.cpp's own check. Remarks: matrices whose values are all
                            0 or all equal, and NVFP4 scales below the normal range; constant biases and
                            norms are normal. Faults and remarks give exit status 1
          --run             Also run the model on 64 tokens of a text, and show its perplexity. Faults:
                            results that are infinite, NaN, all equal or the same for every token.
                            `compare` with the original shows what a model has lost
          --sha256 <HEX>    Compare the model's file with this SHA-256, in hexadecimal. Blobs of
                            Ollama's store and of the hub's cache are compared with their names without
                            it
          --against <FILE>  Compare with a list from `hash --save`; report missing, extra and changed
                            tensors
          --json            Print JSON
          --strict          Apply the strictest reader's rules: those of llama.cpp for GGUF, those of
                            the format's specification for safetensors
          --lenient         Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
          --no-map          Read tensor data from the file instead of memory-mapping it
          --all-files       Include safetensors files that the index does not name
          --offline         Contact no server: use the headers that earlier runs kept
          --color <WHEN>    Controls when to use color [default: auto] [possible values: auto, always,
                            never]
          --wide            Show tables in full on a terminal, even if they are wider
          --family <FILE>   Read model families from a file, in addition to the built-in ones
      -h, --help            Print help

    Examples:
      weighbridge verify model.gguf
      weighbridge verify model.gguf --strict      apply llama.cpp's rules too
      weighbridge verify model.gguf --deep        check every value too
      weighbridge verify model.gguf --run         run it on a few tokens too
      weighbridge verify model.gguf --against model.hashes
      weighbridge verify ./Qwen3-0.6B --deep --json | jq '.findings'
    ");
}

#[test]
fn view() {
    assert_snapshot!(printed(&["view", "--help"]), @"
    Show models in the browser: tensors, values, layers, differences

    Usage: weighbridge view [OPTIONS] <PATH>...

    Arguments:
      <PATH>...  Models: files, any shard of a split GGUF, directories, or names of Ollama models. With
                 several, the others are compared with the first

    Options:
          --no-open        Print the address only, without starting a browser
          --port <N>       Port to listen on; 0 means any free port [default: 0]
          --strict         Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the
                           format's specification for safetensors
          --lenient        Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
          --no-map         Read tensor data from the file instead of memory-mapping it
          --all-files      Include safetensors files that the index does not name
          --offline        Contact no server: use the headers that earlier runs kept
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help

    The server listens on the loopback interface, and serves only the models named.

    Examples:
      weighbridge view model.gguf
      weighbridge view ./Qwen3-0.6B Qwen3-0.6B-Q8_0.gguf Qwen3-0.6B-Q4_K_M.gguf      and what differs
      weighbridge view model.gguf --no-open --port 8080
    ");
}

#[test]
fn report() {
    assert_snapshot!(printed(&["report", "--help"]), @"
    Write a report on a model, or on what two differ, as one HTML file

    Usage: weighbridge report [OPTIONS] --output <FILE> <A> [B]

    Arguments:
      <A>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model
      [B]  A model to compare with it, given in the same ways

    Options:
      -o, --output <FILE>  Write to FILE, which must not exist; - is standard output
          --strict         Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the
                           format's specification for safetensors
          --lenient        Accept safetensors files with holes, overlaps or trailing bytes, as MLX does
          --no-map         Read tensor data from the file instead of memory-mapping it
          --all-files      Include safetensors files that the index does not name
          --offline        Contact no server: use the headers that earlier runs kept
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help

    The file needs no other file, and has no scripts: it can be attached to an issue.

    Examples:
      weighbridge report model.gguf -o report.html
      weighbridge report ./Qwen3-0.6B Qwen3-0.6B-Q4_K_M.gguf -o report.html     and what differs
    ");
}

#[test]
fn load() {
    assert_snapshot!(printed(&["load", "--help"]), @"
    Load every tensor by canonical name and time it

    Usage: weighbridge load [OPTIONS] [PATH]

    Arguments:
      [PATH]
              A file, any shard of a split GGUF, a directory, or the name of an Ollama model; if
              omitted, the built-in sample model

    Options:
          --filter <GLOB>
              Load only tensors whose stored or canonical name matches

          --fuse <LIST>
              Fuse these tensors into one buffer where possible: qkv, gate-up

          --shard <COUNTS>
              Load one rank's part of each tensor. COUNTS: tp=N ranks divide the matrices, pp=N the
              layers, ep=N the experts; see `inspect --shard`

          --rank <N>
              With --shard: the number of the rank, from 0

          --dtype <DTYPE>
              Dtype of the loaded tensors

              Possible values:
              - keep:       Packed, as stored
              - f32:        Values as f32
              - f16:        Values as f16
              - bf16:       Values as bf16
              - packed-f16: f32 and bf16 as f16; packed codes as stored, with f16 scales
              
              [default: keep]

          --device <DEVICE>
              Device to load to: cpu, gpu, gpu:NUMBER or gpu:NAME; see `list devices`
              
              [default: cpu]

          --verify
              Read the tensors back from the device, and compare every byte

          --threads <N>
              Number of threads that read and convert; 0 means one per processor
              
              [default: 4]

          --json
              Print JSON

          --strict
              Apply the strictest reader's rules: those of llama.cpp for GGUF, those of the format's
              specification for safetensors

          --lenient
              Accept safetensors files with holes, overlaps or trailing bytes, as MLX does

          --no-map
              Read tensor data from the file instead of memory-mapping it

          --all-files
              Include safetensors files that the index does not name

          --offline
              Contact no server: use the headers that earlier runs kept

          --color <WHEN>
              Controls when to use color
              
              [default: auto]
              [possible values: auto, always, never]

          --wide
              Show tables in full on a terminal, even if they are wider

          --family <FILE>
              Read model families from a file, in addition to the built-in ones

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      weighbridge load                            the built-in sample model
      weighbridge load model.gguf
      weighbridge load model.gguf --fuse qkv,gate-up --dtype f16
      weighbridge load model.gguf --device gpu --verify
      weighbridge load model.gguf --shard tp=4 --rank 1
      weighbridge load ./Qwen3-0.6B --filter 'layers.0.*' --no-map --json
    ");
}

#[test]
fn list() {
    assert_snapshot!(printed(&["list", "--help"]), @r#"
    List containers, dtypes, file types, architectures, devices or kernels, or the models on this
    machine

    Usage: weighbridge list [OPTIONS] <WHAT> [MODEL]

    Arguments:
      <WHAT>
              The table to print

              Possible values:
              - containers:    File formats that can be read
              - dtypes:        Element types, quantized ones included
              - types:         File types of `quantize`, such as Q4_K_M; with MODEL, the size that it
                would have in each
              - architectures: Model families whose tensors have canonical names
              - models:        The models on this machine: those of Ollama, LM Studio, the Hugging Face
                cache and other programs
              - devices:       The devices that `load` can load to
              - kernels:       The kernels with which a GPU computes, for each dtype

      [MODEL]
              With `types`: the model whose size in each type is shown

    Options:
          --root <PATH>
              With `models`: also search this folder; give the option again for another. The settings
              can name folders too: roots = ["FOLDER"] in WEIGHBRIDGE_CONFIG or
              ~/.config/weighbridge/config.toml

          --filter <GLOB>
              With `models`: list only models whose name matches; * matches any text, ? one character

          --sort <COLUMN>
              With `models`: sort by a column; the largest and the latest come first
              
              [possible values: name, program, architecture, parameters, quantization, size, used]

          --duplicates[=<BY>]
              With `models`: show which have the same files, and what could be saved; nothing is deleted
              or linked. `values` also compares the values of tensors, whatever the container

              Possible values:
              - files:  Files with the same bytes
              - values: Tensors with the same canonical names, shapes and values

          --json
              Print JSON

          --color <WHEN>
              Controls when to use color
              
              [default: auto]
              [possible values: auto, always, never]

          --wide
              Show tables in full on a terminal, even if they are wider

          --family <FILE>
              Read model families from a file, in addition to the built-in ones

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      weighbridge list dtypes
      weighbridge list types ./Qwen3-0.6B     file types, and the model's size in each
      weighbridge list models                 the models on this machine, whoever downloaded them
      weighbridge list models --sort size --filter '*qwen*'
      weighbridge list models --duplicates    which are the same, and what could be saved
      weighbridge list architectures --json
    "#);
}

#[test]
fn completions() {
    assert_snapshot!(printed(&["completions", "--help"]), @"
    Print a completion script for a shell

    Usage: weighbridge completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  The shell to complete for [possible values: bash, elvish, fish, powershell, zsh]

    Options:
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help

    Examples:
      weighbridge completions bash > ~/.local/share/bash-completion/completions/weighbridge
      weighbridge completions zsh > ~/.zfunc/_weighbridge
    ");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for verb in verbs() {
            assert!(script.contains(&verb), "{shell}: {verb}");
        }
    }
}

#[test]
fn man() {
    assert_snapshot!(printed(&["man", "--help"]), @"
    Write the manual pages

    Usage: weighbridge man [OPTIONS] <FOLDER>

    Arguments:
      <FOLDER>  The folder for the pages, which is created if it does not exist

    Options:
          --overwrite      Replace the pages of an earlier version
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
          --wide           Show tables in full on a terminal, even if they are wider
          --family <FILE>  Read model families from a file, in addition to the built-in ones
      -h, --help           Print help

    Examples:
      weighbridge man ~/.local/share/man/man1      then: man weighbridge, man weighbridge-convert
      weighbridge man /usr/local/share/man/man1 --overwrite
    ");
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("share/man1");
    let arguments = ["man", pages.to_str().expect("a path")];
    let said = printed(&arguments);
    let names: Vec<_> = std::fs::read_dir(&pages).expect("the folder").collect();
    assert!(said.starts_with(&format!("{} manual pages in ", names.len())), "{said}");
    for verb in verbs() {
        let page = pages.join(format!("weighbridge-{verb}.1"));
        let text = std::fs::read_to_string(&page).expect(&verb);
        let sections: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let (first, last) = (["NAME", "SYNOPSIS", "DESCRIPTION"], ["EXAMPLES", "\"SEE ALSO\""]);
        assert!(sections.starts_with(&first) && sections.ends_with(&last), "{verb}: {sections:?}");
        check_page(&page);
    }
    let program = pages.join("weighbridge.1");
    check_page(&program);
    let text = std::fs::read_to_string(&program).expect("the page of the program");
    assert!(text.contains(".SH \"EXIT STATUS\"") && text.contains("weighbridge\\-quantize(1)"));

    let again = run(&arguments);
    assert_eq!(again.status, Some(2));
    assert!(again.err.contains("already exists"), "{}", again.err);
    assert_eq!(printed(&[arguments[0], arguments[1], "--overwrite"]), said);
}

/// Lets `man` lay out a page, where it is installed; it must have nothing to remark.
fn check_page(page: &std::path::Path) {
    let mut man = std::process::Command::new("man");
    man.args(["--warnings", "--local-file", "--encoding=UTF-8"]).arg(page);
    match man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").output() {
        Ok(output) if output.status.success() => {
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", page.display());
        }
        _ => println!("skipped: there is no man that shows {}", page.display()),
    }
}

/// Without a verb, the help is printed as an error.
#[test]
fn nothing() {
    let ran = run(&[]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("Usage: weighbridge"));
}
