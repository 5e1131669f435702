//! The Go templates and stop words that Ollama adds to a GGUF model whose chat template it recognizes.
//!
//! Every template that Ollama knows is recognized; so is a rare other one of the same format and about the same
//! length. The Go templates render what Ollama's render, except that the one for Command R offers no tools; where a
//! format treats all roles alike, they equal Ollama's to the byte.

use crate::container::ollama::quoted;
use crate::engines::ollama::prompts;
use crate::json::{Json, Map};

/// A format of prompts.
#[derive(Debug)]
pub(crate) struct PromptFormat {
    /// Ollama's name.
    pub(crate) name: &'static str,
    texts: Map<String, Json>,
}

/// The edits from which on Ollama calls two templates different.
const EDITS: u64 = 100;

impl PromptFormat {
    /// Finds the format that a chat template writes.
    pub(crate) fn of(chat_template: &str) -> Option<Self> {
        let length = chat_template.chars().count() as u64;
        let rows = prompts().map(|(name, texts)| Self { name, texts }).filter(|row| {
            row.list("marks").all(|mark| chat_template.contains(mark))
                && !row.list("without").any(|mark| chat_template.contains(mark))
        });
        let distance = |row: &Self| {
            row.values("lengths").filter_map(Json::as_u64).map(|own| own.abs_diff(length)).min()
        };
        let near = |row: &Self| distance(row).is_some_and(|distance| distance < EDITS);
        rows.filter(near).min_by_key(distance)
    }

    fn values(&self, word: &str) -> impl Iterator<Item = &Json> {
        self.texts.get(word).and_then(Json::as_array).into_iter().flatten()
    }

    /// The texts of a word; none if the format does not have it.
    fn list(&self, word: &str) -> impl Iterator<Item = &str> {
        self.values(word).filter_map(Json::as_str)
    }

    /// The pieces before and after the text of a message.
    fn around(&self, role: &str) -> (&str, &str) {
        let mut pieces = self.list(role);
        (pieces.next().unwrap_or_default(), pieces.next().unwrap_or_default())
    }

    /// The template in Go's language.
    pub(crate) fn go_template(&self) -> String {
        let generation = self.texts.get("generation").and_then(Json::as_str).unwrap_or_default();
        if let [before, between, after] = self.list("every").collect::<Vec<_>>()[..] {
            // A line break inside the braces keeps the text of the next piece on its own line.
            let end = if after.ends_with('\n') { "{{ end }}" } else { "\n{{- end }}" };
            return format!(
                "{{{{- range .Messages }}}}{before}{{{{ .Role }}}}{between}{{{{ .Content }}}}{after}{end}{generation}"
            );
        }
        let (before, after) = self.around("system");
        let (start, system) = match self.texts.contains_key("inside") {
            true => (
                "{{- $system := .System }}{{ range .Messages }}",
                format!(
                    "{{{{ if $system }}}}{before}{{{{ $system }}}}{after}{{{{ $system = \"\" }}}}{{{{ end }}}}"
                ),
            ),
            false => ("{{- range .Messages }}", String::new()),
        };
        let roles: &[&str] = if system.is_empty() {
            &["system", "user", "assistant"]
        } else {
            &["user", "assistant"]
        };
        let turns = roles.iter().map(|role| {
            let (before, after) = self.around(role);
            let inside = if *role == "user" { system.as_str() } else { "" };
            format!("if eq .Role \"{role}\" }}}}{before}{inside}{{{{ .Content }}}}{after}")
        });
        let turns = turns.collect::<Vec<_>>().join("{{ else ");
        format!("{start}{{{{ {turns}{{{{ end }}}}{{{{ end }}}}{generation}")
    }

    /// The words that end an answer.
    pub(crate) fn stop(&self) -> Vec<&str> {
        self.list("stop").collect()
    }
}

/// The parameters layer that has these stop words only.
pub(crate) fn stop_words(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("{{\"stop\":[{}]}}\n", words.join(","))
}

/// The layer of these messages, each a role and a text.
pub(crate) fn message_layer(messages: &[(String, String)]) -> String {
    let message = |(role, text): &(String, String)| {
        format!("{{\"role\":{},\"content\":{}}}", quoted(role), quoted(text))
    };
    format!("[{}]\n", messages.iter().map(message).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256_of;

    fn named(name: &str) -> PromptFormat {
        let (name, texts) = prompts().find(|row| row.0 == name).unwrap();
        PromptFormat { name, texts }
    }

    /// The templates that treat all roles alike have the digests of Ollama's files.
    #[test]
    fn plain_templates_equal_ollamas() {
        let digests = [
            ("chatml", "e3b2721cec511e3a627ae0993753abbf5c72cdf4cfcdbc8f5c33ce15c4c4e04b"),
            ("zephyr", "a212eb1556b15dc9c63813c9b91dc4a569b8a5fb248fad55b5489b07b48f1a43"),
            ("phi-3", "35360843d0c84fb1506952a131bbef13cd2bb4a541251f22535170c05b56e672"),
            ("llama3-instruct", "61dc7b1a77154f4015bbf548fb63b33550162cfd5d6cbf59b7e7843ece99a49e"),
            ("alfred", "3d8766305b70e46ec57a4e70c46402fe677b2bbe0ba23af6caf8a6b534a92e42"),
        ];
        for (name, digest) in digests {
            let text = named(name).go_template();
            assert_eq!(sha256_of(text.as_bytes()).unwrap(), digest, "{text}");
        }
    }

    #[test]
    fn other_templates() {
        let text = |name: &str| named(name).go_template();
        insta::assert_snapshot!(text("openchat"), @r#"{{- range .Messages }}{{ if eq .Role "system" }}GPT4 Correct System: {{ .Content }}<|end_of_turn|>{{ else if eq .Role "user" }}GPT4 Correct User: {{ .Content }}<|end_of_turn|>{{ else if eq .Role "assistant" }}GPT4 Correct Assistant: {{ .Content }}<|end_of_turn|>{{ end }}{{ end }}GPT4 Correct Assistant:"#);
        insta::assert_snapshot!(text("gemma-instruct"), @r#"
        {{- $system := .System }}{{ range .Messages }}{{ if eq .Role "user" }}<start_of_turn>user
        {{ if $system }}{{ $system }}
        {{ $system = "" }}{{ end }}{{ .Content }}<end_of_turn>
        {{ else if eq .Role "assistant" }}<start_of_turn>model
        {{ .Content }}<end_of_turn>
        {{ end }}{{ end }}<start_of_turn>model
        "#);
        insta::assert_snapshot!(text("llama2-chat"), @r#"
        {{- $system := .System }}{{ range .Messages }}{{ if eq .Role "user" }}[INST] {{ if $system }}<<SYS>>
        {{ $system }}
        <</SYS>>

        {{ $system = "" }}{{ end }}{{ .Content }} [/INST]{{ else if eq .Role "assistant" }} {{ .Content }}</s><s>{{ end }}{{ end }}
        "#);
        insta::assert_snapshot!(stop_words(&["<|im_end|>"]), @r#"{"stop":["\u003c|im_end|\u003e"]}"#);
    }

    #[test]
    fn formats_are_found_by_marks_and_length() {
        let found = |template: &str| PromptFormat::of(template).map(|row| row.name);
        let chatml = "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>'}}{% endfor %}";
        assert_eq!(found(&format!("{chatml}{}", " ".repeat(60))), Some("chatml"));
        // Longer than any that Ollama knows: such templates do more, and stay as they are.
        assert_eq!(found(&format!("{chatml}{}", " ".repeat(3000))), None);
        let filled =
            |text: &str, length: usize| format!("{text}{}", "x".repeat(length - text.len()));
        assert_eq!(found(&filled("<|user|><|assistant|> eos_token", 400)), Some("zephyr"));
        assert_eq!(found(&filled("<|user|><|end|><|assistant|>", 254)), Some("phi-3"));
        assert_eq!(found(&filled("[INST] <<SYS>> [/INST]", 815)), Some("llama2-chat"));
        assert_eq!(found(&filled("[INST]  [/INST]", 470)), Some("mistral-instruct"));
        assert_eq!(
            found(&filled("<start_of_turn> first_user_prefix", 1500)),
            Some("gemma3-instruct")
        );
        assert_eq!(found(""), None);
    }
}
