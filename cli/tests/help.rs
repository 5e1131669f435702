//! Help texts: each verb's ends with examples.

mod support;

use insta::assert_snapshot;
use support::{printed, run};

/// Every verb that the program's own help lists.
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
    Opens the weights of language models whatever file they come in

    Usage: weighbridge [OPTIONS] <COMMAND>

    Commands:
      inspect      Show what is in a model: its container, config and tensors
      config       Show the numbers an engine needs, each with where it was found
      hash         Print the SHA-256 of every tensor
      dump         Write one tensor's values or bytes to standard output
      diff         Compare the tensors of two models by canonical name, whatever containers they lie in
      verify       Check a model's files, whether they agree with each other, and with --deep its values
      load         Load every tensor under its canonical name, and time it
      logits       Run a model on some tokens, and show or write its logits
      generate     Run a model, and print the text that continues a prompt
      convert      Write a model in another container
      quantize     Write a model in fewer bits, as llama-quantize or mlx-lm does
      create       Write a model into Ollama's store
      split        Write a model as several files
      merge        Write a model that lies in several files as one
      align        Write a file with its data aligned
      meta         Read metadata, and change that of a GGUF file
      list         List what this program knows (containers, dtypes, architectures), or Ollama's models
      completions  Print a script that completes this program's arguments in a shell

    Options:
          --color <WHEN>  Controls when to use color [default: auto] [possible values: auto, always,
                          never]
      -h, --help          Print help
      -V, --version       Print version

    Examples:
      weighbridge load                        load the small model inside the program, and time it
      weighbridge inspect model.gguf          what is in a file
      weighbridge inspect ~/models/Qwen3-0.6B a directory as it comes from a hub
      weighbridge dump model.gguf output_norm.weight

    Exit status: 0 fine; 1 a fault or difference was found; 2 usage; 3 malformed or incomplete
    model; 4 unsupported; 5 no such path, no permission, no space.
    ");
    assert_eq!(printed(&["--version"]), format!("weighbridge {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn inspect() {
    assert_snapshot!(printed(&["inspect", "--help"]), @"
    Show what is in a model: its container, config and tensors

    Usage: weighbridge inspect [OPTIONS] <PATH>

    Arguments:
      <PATH>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model

    Options:
          --canonical      By canonical name: what engines see, and how it comes of what is stored
          --stored         By stored name alone: do not ask what the names mean
          --all            One row a tensor: do not gather the layers that are alike
          --filter <GLOB>  Only tensors whose stored or canonical name matches; * stands for any text, ?
                           for one character
          --metadata       Also show metadata, tokenizer tables by their length
          --json           Write JSON
          --strict         Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's
                           document for safetensors
          --lenient        Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over
          --no-map         Read tensor data instead of mapping it
          --all-files      Take safetensors files that the index does not name as well
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
      -h, --help           Print help

    Examples:
      weighbridge inspect model.gguf
      weighbridge inspect model-00001-of-00003.gguf --all --filter '*attn*'
      weighbridge inspect llama3.2            a model in Ollama's store
      weighbridge inspect model.gguf --canonical
      weighbridge inspect ./Qwen3-0.6B --json | jq '.tensors[0]'
    ");
}

#[test]
fn config() {
    assert_snapshot!(printed(&["config", "--help"]), @"
    Show the numbers an engine needs, each with where it was found

    Usage: weighbridge config [OPTIONS] <PATH>

    Arguments:
      <PATH>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model

    Options:
          --json          Write JSON
          --strict        Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's
                          document for safetensors
          --lenient       Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over
          --no-map        Read tensor data instead of mapping it
          --all-files     Take safetensors files that the index does not name as well
          --color <WHEN>  Controls when to use color [default: auto] [possible values: auto, always,
                          never]
      -h, --help          Print help

    Examples:
      weighbridge config model.gguf
      weighbridge config ./Qwen3-0.6B --json | jq '.config.head_dim.value'
    ");
}

#[test]
fn hash() {
    assert_snapshot!(printed(&["hash", "--help"]), @"
    Print the SHA-256 of every tensor

    Usage: weighbridge hash [OPTIONS] <PATH>

    Arguments:
      <PATH>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model

    Options:
          --values        Also hash the values as little-endian f32, in row-major order
          --save <FILE>   Print nothing, but write a list that `verify --against` compares with, scales
                          and all; FILE must not exist, or be such a list
          --json          Write JSON
          --strict        Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's
                          document for safetensors
          --lenient       Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over
          --no-map        Read tensor data instead of mapping it
          --all-files     Take safetensors files that the index does not name as well
          --color <WHEN>  Controls when to use color [default: auto] [possible values: auto, always,
                          never]
      -h, --help          Print help

    Examples:
      weighbridge hash model.gguf
      weighbridge hash model.gguf --values --json > model.hashes.json
      weighbridge hash model.gguf --save model.hashes     for verify --against
    ");
}

#[test]
fn dump() {
    assert_snapshot!(printed(&["dump", "--help"]), @"
    Write one tensor's values or bytes to standard output

    Usage: weighbridge dump [OPTIONS] <PATH> <NAME>

    Arguments:
      <PATH>
              A file, any shard of a split GGUF, a directory, or the name of an Ollama model

      <NAME>
              The tensor's name in the file, for values as the file has them, or its canonical name, for
              values as Hugging Face has them

    Options:
          --as <FORM>
              What to write; values that become infinite or 0 by rounding are counted on standard error

              Possible values:
              - text: Rows of numbers for people
              - f32:  Values as little-endian f32, row-major
              - f16:  The same, rounded to f16
              - bf16: The same, rounded to bf16
              - raw:  The stored bytes; by canonical name, the packed bytes that `load` gives
              - npy:  Values as a NumPy array file of f32
              
              [default: text]

          --rows <A..B>
              Only these rows, the last excluded; rows are counted over all dimensions but the last

          --all
              Text: every row and column, however many

          --strict
              Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's document for
              safetensors

          --lenient
              Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over

          --no-map
              Read tensor data instead of mapping it

          --all-files
              Take safetensors files that the index does not name as well

          --color <WHEN>
              Controls when to use color
              
              [default: auto]
              [possible values: auto, always, never]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      weighbridge dump model.gguf output_norm.weight
      weighbridge dump model.gguf blk.0.attn_q.weight --rows 0..4 --all
      weighbridge dump ./Qwen3-0.6B model.norm.weight --as npy > norm.npy
      weighbridge dump model.gguf blk.0.ffn_up.weight --as bf16 > ffn_up.bf16
      weighbridge dump model.gguf token_embd.weight --as raw | sha256sum
    ");
}

#[test]
fn diff() {
    assert_snapshot!(printed(&["diff", "--help"]), @"
    Compare the tensors of two models by canonical name, whatever containers they lie in

    Usage: weighbridge diff [OPTIONS] <A> <B>

    Arguments:
      <A>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model
      <B>  The model to compare it with

    Options:
          --tolerance <T>  Elements that are at most this far apart are equal [default: 0]
          --filter <GLOB>  Only tensors whose stored or canonical name matches
          --all            One row a tensor, equal ones too: do not gather the layers that are alike
          --json           Write JSON
          --strict         Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's
                           document for safetensors
          --lenient        Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over
          --no-map         Read tensor data instead of mapping it
          --all-files      Take safetensors files that the index does not name as well
          --color <WHEN>   Controls when to use color [default: auto] [possible values: auto, always,
                           never]
      -h, --help           Print help

    Examples:
      weighbridge diff ./Qwen3-0.6B Qwen3-0.6B-Q8_0.gguf      what quantizing cost, tensor by tensor
      weighbridge diff a.gguf b.gguf --tolerance 1e-3 && echo close enough
      weighbridge diff a.gguf b.gguf --filter '*.ffn.*' --all
      weighbridge diff a.gguf b.gguf --json | jq '.different[].name'
    ");
}

#[test]
fn verify() {
    assert_snapshot!(printed(&["verify", "--help"]), @"
    Check a model's files, whether they agree with each other, and with --deep its values

    Usage: weighbridge verify [OPTIONS] <PATH>

    Arguments:
      <PATH>  A file, any shard of a split GGUF, a directory, or the name of an Ollama model

    Options:
          --deep            Also look at every value and scale. Faults: NaN, infinity, and scales that
                            are either, as llama.cpp's own check has it. Remarks: matrices whose values
                            are all 0 or all the same (ordinary for biases and norms, which are let
                            pass), NVFP4 scales below the normal range. Both give status 1
          --against <FILE>  Compare with a list from `hash --save`: tensors missing, added or changed
          --json            Write JSON
          --strict          Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's
                            document for safetensors
          --lenient         Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over
          --no-map          Read tensor data instead of mapping it
          --all-files       Take safetensors files that the index does not name as well
          --color <WHEN>    Controls when to use color [default: auto] [possible values: auto, always,
                            never]
      -h, --help            Print help

    Examples:
      weighbridge verify model.gguf
      weighbridge verify model.gguf --strict      would llama.cpp accept it?
      weighbridge verify model.gguf --deep        and does every tensor hold sound numbers?
      weighbridge verify model.gguf --against model.hashes
      weighbridge verify ./Qwen3-0.6B --deep --json | jq '.findings'
    ");
}

#[test]
fn load() {
    assert_snapshot!(printed(&["load", "--help"]), @"
    Load every tensor under its canonical name, and time it

    Usage: weighbridge load [OPTIONS] [PATH]

    Arguments:
      [PATH]
              A file, any shard of a split GGUF, a directory, or the name of an Ollama model; the model
              inside the program if left out

    Options:
          --filter <GLOB>
              Only tensors whose stored or canonical name matches

          --fuse <LIST>
              Load these together, in one buffer, where they can be joined: qkv, gate-up

          --dtype <DTYPE>
              What tensors are kept as in memory

              Possible values:
              - keep: Packed as stored
              - f32:  Values as f32
              - f16:  Values as f16
              - bf16: Values as bf16
              
              [default: keep]

          --threads <N>
              Threads that read and convert; 0 stands for four
              
              [default: 0]

          --json
              Write JSON

          --strict
              Refuse what the strictest reader refuses: llama.cpp for GGUF, the format's document for
              safetensors

          --lenient
              Accept in safetensors what MLX accepts: holes, shared bytes, bytes left over

          --no-map
              Read tensor data instead of mapping it

          --all-files
              Take safetensors files that the index does not name as well

          --color <WHEN>
              Controls when to use color
              
              [default: auto]
              [possible values: auto, always, never]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      weighbridge load                            the small model inside the program
      weighbridge load model.gguf
      weighbridge load model.gguf --fuse qkv,gate-up --dtype f16
      weighbridge load ./Qwen3-0.6B --filter 'layers.0.*' --no-map --json
    ");
}

#[test]
fn list() {
    assert_snapshot!(printed(&["list", "--help"]), @"
    List what this program knows (containers, dtypes, architectures), or Ollama's models

    Usage: weighbridge list [OPTIONS] <WHAT>

    Arguments:
      <WHAT>
              Possible values:
              - containers
              - dtypes
              - architectures
              - models:        The models in Ollama's store

    Options:
          --json
              Write JSON

          --color <WHEN>
              Controls when to use color
              
              [default: auto]
              [possible values: auto, always, never]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      weighbridge list dtypes
      weighbridge list models                 what Ollama has
      weighbridge list architectures --json
    ");
}

#[test]
fn completions() {
    assert_snapshot!(printed(&["completions", "--help"]), @"
    Print a script that completes this program's arguments in a shell

    Usage: weighbridge completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  The shell that the script is for [possible values: bash, elvish, fish, powershell, zsh]

    Options:
          --color <WHEN>  Controls when to use color [default: auto] [possible values: auto, always,
                          never]
      -h, --help          Print help

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

/// Without a verb the help is shown as a complaint.
#[test]
fn nothing() {
    let ran = run(&[]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("Usage: weighbridge"));
}
