//! Help texts. Each ends with examples.

use crate::support;
use crate::support::{printed, run};
use insta::assert_snapshot;

/// Every verb in the program's help: a group begins a line, the other lines are indented.
fn verbs() -> Vec<String> {
    let help = printed(&["--help"]);
    let lines = help
        .lines()
        .skip_while(|line| !line.starts_with("Look "))
        .take_while(|line| !line.is_empty());
    let words = lines.filter_map(|line| line.get(7..)?.split_whitespace().next());
    let verbs: Vec<String> = words.map(str::to_owned).collect();
    verbs.into_iter().filter(|verb| verb != "help").collect()
}

#[test]
fn every_verb_gives_examples_in_a_screen() {
    let verbs = verbs();
    assert!(verbs.len() >= 18, "{verbs:?}");
    for verb in verbs {
        let help = printed(&[&verb, "--help"]);
        let (_, examples) = help.split_once("\nExamples:\n").expect(&verb);
        for line in examples.trim_end().lines() {
            assert!(line.len() <= 80, "{line}");
            let line = format!("{line} ");
            assert!(line.starts_with(&format!("  weighbridge {verb} ")), "{verb}: {line}");
        }
        let screen = printed(&[&verb, "-h"]);
        assert!(screen.lines().count() <= 40, "{verb}: {}", screen.lines().count());
        let (options, _) = screen.split_once("\nExamples:\n").expect(&verb);
        assert!(!options.contains("--no-map"), "{screen}");
        assert_eq!(printed(&["help", &verb]), help);
    }
}

#[test]
fn the_program() {
    assert_snapshot!(printed(&["-h"]), @"
    Inspects, checks, compares, converts and quantizes language models: GGUF, safetensors, MLX, Ollama

    Usage: weighbridge <COMMAND> [OPTIONS] ...
           weighbridge <FILE>

    Look   inspect      Show a model's container, config and tensors, or one tensor's values
           view         Show models in the browser, or write the report as an HTML file
           diff         Compare the tensors of two models, in any containers
           dump         Write one tensor's values or bytes
           quality      Measure what a quantization costs: perplexity, KL divergence
           memory       Show how much memory a model takes, and whether it fits
    Check  verify       Check that a model is whole, follows its format, and loads
    Make   convert      Convert a model to another container
           quantize     Quantize a model as llama-quantize or mlx-lm does
           merge        Merge several models by a recipe, or join the files of one
           split        Split a model into several files
           meta         Print metadata, or edit that of a GGUF file
    Get    pull         Download models from the Hugging Face hub or Ollama's registry
           models       List the models on this machine, and which are the same
           create       Create a model in Ollama's store
    More   demo         Show on the built-in sample what the program does
           job          Convert a large model with many processes or machines
           run          Run a model with the reference decoder: generate, embed, logits, tokens
           bench        Time the loading of every tensor of a model
           list         List containers, dtypes, file types, families, devices or kernels
           completions  Print a completion script for a shell
           man          Write the manual pages to a folder
           help         Show all options of a command

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Examples:
      weighbridge model.gguf                     # what the file contains
      weighbridge view model.gguf                # the same in the browser
      weighbridge memory model.gguf 8G           # whether it fits
      weighbridge run model.gguf 'Hello'         # its answer
      weighbridge quantize ./Qwen3-0.6B Q4_K_M   # Qwen3-0.6B-Q4_K_M.gguf
      weighbridge help convert                   # all options of a command
    ");
    let all = printed(&["--help"]);
    assert_eq!(printed(&["help"]), all);
    assert!(all.contains("--family <FILE>") && all.contains("130  interrupted"), "{all}");
}

/// An earlier name works; a word of another program works, or is answered.
#[test]
fn other_words() {
    let model = "assets/sample/sample-Q8_0.gguf";
    let ids = ["--ids", "1", "--max-tokens", "1", "--print-ids"];
    let earlier = run(&[&["generate", model], &ids[..]].concat());
    let now = run(&[&["run", "generate", model], &ids[..]].concat());
    assert_eq!((earlier.status, &earlier.out), (Some(0), &now.out));
    assert_eq!((earlier.err.as_str(), now.err.as_str()), ("", ""));
    let hashes = run(&["llama-gguf-hash", model]);
    assert_eq!(hashes.out, printed(&["hash", model]));
    assert!(hashes.err.contains("llama-gguf-hash prints xxh64 digests unless"), "{}", hashes.err);
    assert_eq!(printed(&[model]), printed(&["inspect", model]));
    assert_eq!(printed(&["info", model]), printed(&["inspect", model]));
    for (words, answer) in [
        (&["serve", model][..], "weighbridge view MODEL"),
        (&["convert", model, "x", "-q"], "--type mlx4"),
        (&["inpsect", model], "did you mean `inspect`?"),
        (&["frobnicate"], "`weighbridge help` lists the commands"),
    ] {
        let refusal = support::refused(words);
        assert!(refusal.starts_with("2\n") && refusal.contains(answer), "{refusal}");
    }
}

/// An option that does not exist is never taken for a value that was meant.
#[test]
fn tips_are_not_wrong() {
    for words in [["inspect", "--nope", "x"], ["convert", "--frob", "x"]] {
        let refusal = support::refused(&words);
        assert!(refusal.starts_with("2\n") && !refusal.contains("as a value"), "{refusal}");
    }
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
fn completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for verb in verbs() {
            assert!(script.contains(&verb), "{shell}: {verb}");
        }
    }
}

#[test]
fn man() {
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

/// Guesses that would go wrong in silence say what they are, or do what is meant.
#[test]
fn guesses_do_what_is_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (gguf, hf) = ("assets/sample/sample-Q8_0.gguf", "assets/sample/hf");
    for (words, advice) in [
        (["split", gguf, "400K"], "`split SRC DST --max-shard-size 400K`"),
        (["quantize", hf, "--to"], "`quantize SRC DST Q4_K_M`"),
    ] {
        let ran = run(&words);
        assert_eq!(ran.status, Some(2), "{words:?}");
        assert!(ran.err.contains(advice), "{words:?}: {}", ran.err);
    }
    // What is asked for says which verb or option is meant.
    assert!(printed(&["memory", gguf, "8G"]).starts_with("8 GB: yes"));
    for words in [&["convert", hf, "Q4_K_M"][..], &["convert", hf, "--outtype", "q4_k_m"]] {
        assert!(printed(&[words, &["--dry-run"]].concat()).starts_with("hf-Q4_K_M.gguf"));
    }
    assert!(printed(&["convert", hf, "--dry-run"]).starts_with("hf.gguf"));
    let dry = printed(&["quantize", hf, "Q4_K_M", "out.gguf", "--dry-run"]);
    assert!(dry.starts_with("out.gguf"), "{dry}");
    assert_eq!(printed(&["meta", gguf, "name"]), printed(&["meta", "get", gguf, "name"]));
    assert_eq!(printed(&["show", gguf]), printed(&["inspect", gguf]));
    let found = printed(&["inspect", gguf, "attn_q"]);
    assert!(found.contains("blk.[0-1].attn_q.weight") && !found.contains("attn_k"), "{found}");
    let sorted = printed(&["inspect", gguf, "--sort", "size", "--filter", "blk.0"]);
    let place = |name: &str| sorted.find(name).expect("a tensor");
    assert!(
        place("blk.0.ffn_up") < place("blk.0.attn_q")
            && place("blk.0.attn_q") < place("blk.0.attn_k")
    );
    // A name that ends in .npy asks for an array.
    let array = at("norm.npy");
    assert_eq!(run(&["dump", hf, "model.norm.weight", "-o", &array]).status, Some(0));
    let begins = std::fs::read(&array).expect("an array").starts_with(b"\x93NUMPY");
    assert!(begins);
    let text = run(&["dump", gguf, "blk.0.attn_q.weight", "-o", &at("values.txt")]);
    assert!(text.err.contains("not every value is written"), "{}", text.err);
    // A rule that changes nothing is named, and a directory stays one.
    let ran = run(&["quantize", hf, &at("a.gguf"), "Q4_0", "--tensor-type", "nothing=q8_0"]);
    assert!(ran.err.contains("nothing=Q8_0: no tensor of the model matches"), "{}", ran.err);
    let ran = run(&["quantize", hf, &at("b.gguf"), "F16", "--tensor-type", "ffn_up=q8_0"]);
    assert!(ran.err.contains("ffn_up=Q8_0: no effect with F16"), "{}", ran.err);
    assert_eq!(run(&["merge", hf, &at("joined")]).status, Some(0));
    assert!(folder.path().join("joined/tokenizer.json").is_file());
    std::fs::create_dir(at("shards")).expect("a folder");
    assert_eq!(run(&["split", gguf, &at("shards/m"), "--max-tensors", "8"]).status, Some(0));
    assert_eq!(run(&["merge", &at("shards"), &at("whole.gguf")]).status, Some(0));
    assert!(folder.path().join("whole.gguf").is_file());
    assert_eq!(run(&["convert", gguf, &at("hf"), "--to", "hf"]).status, Some(0));
}

/// Without a terminal, no line of the help is wider than `COLUMNS` says.
#[test]
fn the_help_fits_the_columns_that_are_stated() {
    for verb in ["inspect", "convert", "quantize", "merge", "pull", "quality", "create", "split"] {
        let mut program = crate::support::program(&[verb, "-h"]);
        let ran = program.env("COLUMNS", "40").output().expect("a run");
        let text = String::from_utf8(ran.stdout).expect("UTF-8");
        let (before, _) = text.split_once("Examples:").unwrap_or((&text, ""));
        for line in before.lines() {
            assert!(line.chars().count() <= 40, "{verb}: {line}");
        }
    }
}
