//! Prompt formats that Ollama recognizes by a GGUF file's chat template (template/index.json of
//! Ollama fb307609), and the Go templates and stop words that it then adds to the model.
//!
//! Ollama compares the chat template with 37 known ones and takes the nearest, if fewer than 100
//! characters have to change. This library keeps none of those texts. A row has the marks of a
//! format and the lengths of the templates that Ollama knows: a template matches if it has all marks
//! and one of the lengths, give or take 99 characters. Every template that Ollama knows is
//! recognized; so is a rare other one of the same format and about the same length.
//!
//! The Go templates are made of the pieces that surround each message. They render what Ollama's
//! render, except that the one for Command R offers no tools; where a format treats all roles
//! alike, they equal Ollama's to the byte.

use crate::container::ollama::quoted;

/// A format of prompts.
#[derive(Debug)]
pub(crate) struct PromptFormat {
    /// Ollama's name.
    pub(crate) name: &'static str,
    /// Pieces of its chat templates; all must occur.
    marks: &'static [&'static str],
    /// Pieces that only the templates of other formats have.
    without: &'static [&'static str],
    /// The lengths in characters of the chat templates that Ollama knows.
    lengths: &'static [usize],
    turns: Turns,
    /// The text after the last message.
    generation: &'static str,
    /// The words that end an answer.
    stop: &'static [&'static str],
}

/// The pieces before and after the text of a message.
type Around = (&'static str, &'static str);

/// The texts around messages.
#[derive(Debug)]
enum Turns {
    /// The same for every role: before the role's name, between name and text, after the text.
    Alike(&'static str, &'static str, &'static str),
    /// The pieces for the system prompt, the user and the assistant.
    Each { system: Around, user: Around, assistant: Around },
    /// Like `Each`, with the system prompt inside the first message of the user.
    Inside { system: Around, user: Around, assistant: Around },
}

#[rustfmt::skip]
static FORMATS: &[PromptFormat] = &[
    PromptFormat {
        name: "chatml", marks: &["<|im_start|>"], without: &[],
        lengths: &[196, 209, 291, 306, 327, 328, 358, 441, 450, 629, 1842],
        turns: Turns::Alike("<|im_start|>", "\n", "<|im_end|>\n"),
        generation: "<|im_start|>assistant\n", stop: &["<|im_start|>", "<|im_end|>"],
    },
    PromptFormat {
        name: "zephyr", marks: &["<|user|>", "<|assistant|>", "eos_token"], without: &["<|end|>"],
        lengths: &[306, 410],
        turns: Turns::Alike("<|", "|>\n", "</s>\n"),
        generation: "<|assistant|>\n", stop: &["<|system|>", "</s>", "<|user|>", "<|assistant|>"],
    },
    PromptFormat {
        name: "openchat", marks: &["GPT4 Correct "], without: &[], lengths: &[222],
        turns: Turns::Each {
            system: ("GPT4 Correct System: ", "<|end_of_turn|>"),
            user: ("GPT4 Correct User: ", "<|end_of_turn|>"),
            assistant: ("GPT4 Correct Assistant: ", "<|end_of_turn|>"),
        },
        generation: "GPT4 Correct Assistant:", stop: &["<|end_of_turn|>"],
    },
    PromptFormat {
        name: "mistral-instruct", marks: &["[INST] ", " [/INST]"], without: &["<<SYS>>"],
        lengths: &[470, 477],
        turns: Turns::Inside { system: ("", "\n\n"), user: ("[INST] ", "[/INST]"), assistant: (" ", "</s>") },
        generation: "", stop: &["<|im_start|>", "<|im_end|>"],
    },
    PromptFormat {
        name: "starcoder2-instruct", marks: &["### Instruction", "### Response"], without: &["### Response:"],
        lengths: &[574],
        turns: Turns::Each {
            system: ("", "\n\n"), user: ("### Instruction\n", "\n\n"), assistant: ("### Response\n", "<|endoftext|>\n\n"),
        },
        generation: "### Response\n", stop: &["### Instruction", "### Response", "<|endoftext|>"],
    },
    PromptFormat {
        name: "llama2-chat", marks: &["[INST] ", "<<SYS>>"], without: &[], lengths: &[813, 815],
        turns: Turns::Inside {
            system: ("<<SYS>>\n", "\n<</SYS>>\n\n"), user: ("[INST] ", " [/INST]"), assistant: (" ", "</s><s>"),
        },
        generation: "", stop: &["[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"],
    },
    PromptFormat {
        name: "codellama-70b-instruct", marks: &["Source: ", "<step>"], without: &[], lengths: &[531],
        turns: Turns::Each {
            system: ("Source: system\n\n ", " <step> "), user: ("Source: user\n\n ", " <step> "),
            assistant: ("Source: assistant\n\n ", " <step> "),
        },
        generation: "Source: assistant\nDestination: user\n\n ", stop: &["Source:", "Destination:", "<step>"],
    },
    PromptFormat {
        name: "alpaca", marks: &["### Instruction:", "### Response:"], without: &[], lengths: &[1041],
        turns: Turns::Each {
            system: ("", "\n\n"), user: ("### Instruction:\n", "\n\n"), assistant: ("### Response:\n", "\n\n"),
        },
        generation: "### Response:\n", stop: &["### Instruction:", "### Response"],
    },
    PromptFormat {
        name: "chatqa", marks: &["User: ", "Assistant:"], without: &["Falcon", "GPT4"], lengths: &[459, 690],
        turns: Turns::Each {
            system: ("System: ", "\n\n"), user: ("User: ", "\n\n"), assistant: ("Assistant: ", "\n\n"),
        },
        generation: "Assistant:", stop: &["System:", "User:", "Assistant:", "<|begin_of_text|>"],
    },
    PromptFormat {
        name: "gemma-instruct", marks: &["<start_of_turn>"], without: &["first_user_prefix"], lengths: &[591],
        turns: Turns::Inside {
            system: ("", "\n"), user: ("<start_of_turn>user\n", "<end_of_turn>\n"),
            assistant: ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        generation: "<start_of_turn>model\n", stop: &["<start_of_turn>", "<end_of_turn>"],
    },
    PromptFormat {
        name: "gemma3-instruct", marks: &["<start_of_turn>", "first_user_prefix"], without: &[], lengths: &[1532],
        turns: Turns::Inside {
            system: ("", "\n\n"), user: ("<start_of_turn>user\n", "<end_of_turn>\n"),
            assistant: ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        generation: "<start_of_turn>model\n", stop: &["<end_of_turn>"],
    },
    PromptFormat {
        name: "llama3-instruct", marks: &["<|start_header_id|>", "<|eot_id|>"], without: &[], lengths: &[389, 4614],
        turns: Turns::Alike("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"),
        generation: "<|start_header_id|>assistant<|end_header_id|>\n\n",
        stop: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    },
    PromptFormat {
        name: "granite-instruct", marks: &["Question:", "Answer:"], without: &[], lengths: &[376],
        turns: Turns::Each {
            system: ("System:\n", "\n\n"), user: ("Question:\n", "\n\n"), assistant: ("Answer:\n", "\n\n"),
        },
        generation: "Answer:\n", stop: &["System:", "Question:", "Answer:"],
    },
    PromptFormat {
        name: "magicoder", marks: &["@@ Instruction", "@@ Response"], without: &[], lengths: &[571],
        turns: Turns::Each {
            system: ("", "\n\n"), user: ("@@ Instruction\n", "\n\n"), assistant: ("@@ Response\n", "\n\n"),
        },
        generation: "@@ Response\n", stop: &["@@ Instruction", "@@ Response"],
    },
    PromptFormat {
        name: "alfred", marks: &["<start_user>", "<start_assistant>"], without: &[], lengths: &[533],
        turns: Turns::Alike("<start_", ">", "<end_message>"),
        generation: "<start_assistant>",
        stop: &["<start_system>", "<end_message>", "<start_user>", "<start_assistant>"],
    },
    PromptFormat {
        name: "phi-3", marks: &["<|end|>", "|>"], without: &[], lengths: &[218, 254, 269],
        turns: Turns::Alike("<|", "|>\n", "<|end|>\n"),
        generation: "<|assistant|>\n", stop: &["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"],
    },
    PromptFormat {
        name: "falcon-instruct", marks: &["User: ", "Falcon:"], without: &[], lengths: &[340, 356],
        turns: Turns::Each {
            system: ("System: ", "\n"), user: ("User:\n", "\n"), assistant: ("Falcon:\n", "\n"),
        },
        generation: "Falcon:\n", stop: &["User:", "Assistant:"],
    },
    PromptFormat {
        name: "solar-instruct", marks: &["### User:", "### Assistant:"], without: &[], lengths: &[409],
        turns: Turns::Each {
            system: ("### System:\n", "\n\n"), user: ("### User:\n", "\n\n"), assistant: ("### Assistant:\n", "</s>\n\n"),
        },
        generation: "### Assistant:\n", stop: &["### System:", "### User:", "### Assistant"],
    },
    PromptFormat {
        name: "command-r", marks: &["<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"], without: &[], lengths: &[1204],
        turns: Turns::Each {
            system: ("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
            user: ("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
            assistant: ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        },
        generation: "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        stop: &["<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"],
    },
];

/// The edits from which on Ollama calls two templates different.
const EDITS: usize = 100;

impl PromptFormat {
    /// Finds the format that a chat template writes.
    pub(crate) fn of(chat_template: &str) -> Option<&'static Self> {
        let length = chat_template.chars().count();
        let rows = FORMATS.iter().filter(|row| {
            row.marks.iter().all(|mark| chat_template.contains(mark))
                && !row.without.iter().any(|mark| chat_template.contains(mark))
        });
        let distance = |row: &&Self| row.lengths.iter().map(|own| own.abs_diff(length)).min();
        let near = |row: &&Self| distance(row).is_some_and(|distance| distance < EDITS);
        rows.filter(near).min_by_key(distance)
    }

    /// The template in Go's language.
    pub(crate) fn go_template(&self) -> String {
        let mut out = String::new();
        let roles = |out: &mut String,
                     user_start: &str,
                     system: Option<Around>,
                     user: Around,
                     assistant: Around| {
            let mut test = "if";
            let mut turn = |role: &str, (before, after): Around, start: &str| {
                out.push_str(&format!(
                    "{{{{ {test} eq .Role \"{role}\" }}}}{before}{start}{{{{ .Content }}}}{after}"
                ));
                test = "else if";
            };
            if let Some(system) = system {
                turn("system", system, "");
            }
            turn("user", user, user_start);
            turn("assistant", assistant, "");
            out.push_str("{{ end }}{{ end }}");
        };
        match &self.turns {
            Turns::Alike(before, between, after) => {
                // A line break inside the braces keeps the text of the next piece on its own line.
                let end = if after.ends_with('\n') { "{{ end }}" } else { "\n{{- end }}" };
                out = format!(
                    "{{{{- range .Messages }}}}{before}{{{{ .Role }}}}{between}{{{{ .Content }}}}{after}{end}"
                );
            }
            Turns::Each { system, user, assistant } => {
                out.push_str("{{- range .Messages }}");
                roles(&mut out, "", Some(*system), *user, *assistant);
            }
            Turns::Inside { system, user, assistant } => {
                out.push_str("{{- $system := .System }}{{ range .Messages }}");
                let (before, after) = system;
                let start = format!(
                    "{{{{ if $system }}}}{before}{{{{ $system }}}}{after}{{{{ $system = \"\" }}}}{{{{ end }}}}"
                );
                roles(&mut out, &start, None, *user, *assistant);
            }
        }
        out + self.generation
    }

    /// The words that end an answer.
    pub(crate) fn stop(&self) -> &'static [&'static str] {
        self.stop
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
            let row = FORMATS.iter().find(|row| row.name == name).unwrap();
            let text = row.go_template();
            assert_eq!(sha256_of(text.as_bytes()).unwrap(), digest, "{text}");
        }
    }

    #[test]
    fn other_templates() {
        let text = |name: &str| FORMATS.iter().find(|row| row.name == name).unwrap().go_template();
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
