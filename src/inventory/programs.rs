//! The programs that keep models, and the folders in which each looks for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::json::Json;

/// A program that keeps models on this machine.
#[non_exhaustive]
pub struct Program {
    /// The name in reports.
    pub name: &'static str,
    /// The contents of its folders, and where they are documented.
    pub summary: &'static str,
    /// The folders in which it keeps models. They need not exist.
    roots: fn(&Places<'_>) -> Vec<PathBuf>,
}

impl Program {
    /// The folders in which it keeps models, for this user. They need not exist.
    pub fn folders(&self) -> Vec<PathBuf> {
        Places::with_own(|places| (self.roots)(places))
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The row of the hub cache.
pub(super) const HUB: &str = "huggingface";
/// The row of Ollama.
pub(super) const OLLAMA: &str = "ollama";
/// The row of MLX's programs.
pub(super) const MLX: &str = "mlx";
/// The row of Jan, whose folders have the models' names.
pub(super) const JAN: &str = "jan";

/// The programs, in the order of reports.
pub static PROGRAMS: &[Program] = &[
    Program {
        name: HUB,
        summary: "the cache of the Hugging Face hub's client, which transformers, vLLM and llama.cpp share",
        roots: hub,
    },
    // mlx-lm and mlx-vlm download with the hub's client (`mlx_lm/utils.py`), into its cache.
    Program {
        name: MLX,
        summary: "mlx-lm and mlx-vlm: models in MLX's format in the hub cache",
        roots: hub,
    },
    Program { name: OLLAMA, summary: "Ollama's stores", roots: ollama },
    Program { name: "lmstudio", summary: "LM Studio's folder of downloads", roots: lmstudio },
    Program { name: "llama.cpp", summary: "llama.cpp's cache of downloads", roots: llama_cpp },
    Program { name: "gpt4all", summary: "GPT4All's folder of downloads", roots: gpt4all },
    Program { name: JAN, summary: "Jan's data folder", roots: jan },
    Program { name: "koboldcpp", summary: "KoboldCpp's folder", roots: koboldcpp },
    Program {
        name: "text-generation-webui",
        summary: "the folders of models of text-generation-webui",
        roots: webui,
    },
];

/// A system whose programs agree on folders.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum System {
    Linux,
    MacOs,
    Windows,
}

/// The base of the programs' folders: the system, the home directory, the environment.
pub(super) struct Places<'e> {
    system: System,
    home: Option<PathBuf>,
    variable: &'e dyn Fn(&str) -> Option<OsString>,
}

impl Places<'_> {
    /// Calls `find` with the places of this machine and user.
    pub(super) fn with_own<T>(find: impl FnOnce(&Places<'_>) -> T) -> T {
        let system = match () {
            () if cfg!(windows) => System::Windows,
            () if cfg!(target_os = "macos") => System::MacOs,
            () => System::Linux,
        };
        let variable = |name: &str| std::env::var_os(name);
        find(&Places { system, home: std::env::home_dir(), variable: &variable })
    }

    /// The path in an environment variable that is set and not empty.
    fn set(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).filter(|set| !set.is_empty()).map(PathBuf::from)
    }

    /// A path below the home directory.
    fn home(&self, path: &str) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(path))
    }

    /// The user's caches, by the rules of the system.
    fn cache(&self) -> Option<PathBuf> {
        match self.system {
            System::Linux => self.set("XDG_CACHE_HOME").or_else(|| self.home(".cache")),
            System::MacOs => self.home("Library/Caches"),
            System::Windows => self.set("LOCALAPPDATA").or_else(|| self.home("AppData/Local")),
        }
    }

    /// The user's data. Windows keeps data that belong to one machine (`local`) apart.
    fn data(&self, local: bool) -> Option<PathBuf> {
        match (self.system, local) {
            (System::Linux, _) => self.set("XDG_DATA_HOME").or_else(|| self.home(".local/share")),
            (System::MacOs, _) => self.home("Library/Application Support"),
            (System::Windows, true) => {
                self.set("LOCALAPPDATA").or_else(|| self.home("AppData/Local"))
            }
            (System::Windows, false) => {
                self.set("APPDATA").or_else(|| self.home("AppData/Roaming"))
            }
        }
    }

    /// The user's configuration.
    fn config(&self) -> Option<PathBuf> {
        match self.system {
            System::Windows => self.set("APPDATA").or_else(|| self.home("AppData/Roaming")),
            _ => self.set("XDG_CONFIG_HOME").or_else(|| self.home(".config")),
        }
    }
}

/// The folders of all programs, each with the name of its program. A folder that several programs
/// share stands once, for the first of them.
pub(super) fn roots(places: &Places<'_>) -> Vec<(&'static str, PathBuf)> {
    let mut all: Vec<(&'static str, PathBuf)> = Vec::new();
    for program in PROGRAMS {
        for root in (program.roots)(places) {
            if !all.iter().any(|(_, other)| *other == root) {
                all.push((program.name, root));
            }
        }
    }
    all
}

/// `constants.py` of huggingface_hub 2.4: `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, else `hub` in
/// `HF_HOME`, which is `huggingface` in the user's cache, on every system.
fn hub(places: &Places<'_>) -> Vec<PathBuf> {
    let home = || {
        let cache = || places.set("XDG_CACHE_HOME").or_else(|| places.home(".cache"));
        places.set("HF_HOME").or_else(|| Some(cache()?.join("huggingface")))
    };
    let set = places.set("HF_HUB_CACHE").or_else(|| places.set("HUGGINGFACE_HUB_CACHE"));
    set.or_else(|| Some(home()?.join("hub"))).into_iter().collect()
}

/// `OLLAMA_MODELS`, else the user's folder, and that of the package's service on Linux
/// (docs/faq.md of Ollama).
fn ollama(places: &Places<'_>) -> Vec<PathBuf> {
    if let Some(set) = places.set("OLLAMA_MODELS") {
        let text = set.to_string_lossy();
        return vec![PathBuf::from(text.trim().trim_matches(['"', '\'']))];
    }
    let package = match places.system {
        System::Linux => Some(PathBuf::from("/usr/share/ollama/.ollama/models")),
        _ => None,
    };
    places.home(".ollama/models").into_iter().chain(package).collect()
}

/// LM Studio's home is what `~/.lmstudio-home-pointer` says, else `~/.cache/lm-studio` if it
/// exists, else `~/.lmstudio` (`findLMStudioHome` of lmstudio.js). Its `settings.json` may name
/// another `downloadsFolder`.
fn lmstudio(places: &Places<'_>) -> Vec<PathBuf> {
    let pointed = || {
        let text = small_text(&places.home(".lmstudio-home-pointer")?)?;
        Some(PathBuf::from(text.trim())).filter(|path| path.is_absolute())
    };
    let homes = [pointed(), places.home(".cache/lm-studio"), places.home(".lmstudio")];
    let mut found = Vec::new();
    for home in homes.into_iter().flatten() {
        found.extend(setting(&home.join("settings.json"), "downloadsFolder"));
        found.push(home.join("models"));
    }
    found
}

/// `fs_get_cache_directory` in common/common.cpp of llama.cpp. Since March 2026 downloads go to the
/// hub cache, or in its layout to `LLAMA_CACHE` (pull request 21009).
fn llama_cpp(places: &Places<'_>) -> Vec<PathBuf> {
    let own = || Some(places.cache()?.join("llama.cpp"));
    places.set("LLAMA_CACHE").or_else(own).into_iter().collect()
}

/// The desktop program's "Download Path" (docs.gpt4all.io, Settings), which it keeps as
/// `modelPath` in an INI file, and the folder of its Python package.
fn gpt4all(places: &Places<'_>) -> Vec<PathBuf> {
    let saved = || {
        let text = small_text(&places.config()?.join("nomic.ai/GPT4All.ini"))?;
        let value = text.lines().find_map(|line| line.trim().strip_prefix("modelPath="))?;
        Some(PathBuf::from(value.trim().trim_matches('"')))
    };
    let own = places.data(true).map(|data| data.join("nomic.ai/GPT4All"));
    [saved(), own, places.home(".cache/gpt4all")].into_iter().flatten().collect()
}

/// `resolve_jan_data_folder` in src-tauri/src/core/app/commands.rs of Jan; `~/.config/Jan/data`
/// and `~/jan` are those of older versions. Models lie in a folder for each engine, and before
/// those in `models`.
fn jan(places: &Places<'_>) -> Vec<PathBuf> {
    let of_app = |folder: Option<PathBuf>| folder.map(|folder| folder.join("Jan"));
    let set = places
        .set("JAN_DATA_FOLDER")
        .or_else(|| setting(&of_app(places.data(false))?.join("settings.json"), "data_folder"));
    let own = [of_app(places.data(false)), of_app(places.config())];
    let own = own.into_iter().flatten().map(|folder| folder.join("data"));
    let folders = set.into_iter().chain(own).chain(places.home("jan"));
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let parts = ["llamacpp/models", "mlx/models", "models"];
        found.extend(parts.iter().map(|part| folder.join(part)));
    }
    found
}

/// KoboldCpp has no folder of its own: models are given by their paths, or lie beside the program.
/// This is the folder that `git clone` makes, as its README says.
fn koboldcpp(places: &Places<'_>) -> Vec<PathBuf> {
    places.home("koboldcpp").into_iter().collect()
}

/// `--model-dir` is `user_data/models` in the program's folder (modules/shared.py), and was
/// `models` before version 3. The folder is where its README has it cloned to.
fn webui(places: &Places<'_>) -> Vec<PathBuf> {
    let folders = ["text-generation-webui/user_data/models", "text-generation-webui/models"];
    folders.iter().filter_map(|folder| places.home(folder)).collect()
}

/// A path in a JSON file of settings.
fn setting(file: &Path, key: &str) -> Option<PathBuf> {
    let json = Json::parse(small_text(file)?.as_bytes()).ok()?;
    let path = PathBuf::from(json.get(key)?.as_str()?);
    path.is_absolute().then_some(path)
}

/// The text of a file of settings; `None` if it cannot be read or is too large for one.
fn small_text(path: &Path) -> Option<String> {
    const MOST: u64 = 1 << 20;
    let found = std::fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > MOST {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(system: System, variables: &[(&str, &str)]) -> Vec<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let home = Some(PathBuf::from("/no/such/home"));
        let all = roots(&Places { system, home, variable: &variable });
        let line = |(program, root): (&str, PathBuf)| {
            let root = root.to_string_lossy().replace('\\', "/").replace("/no/such/home", "~");
            format!("{program} {root}")
        };
        all.into_iter().map(line).collect()
    }

    #[test]
    fn linux() {
        let expected = [
            "huggingface ~/.cache/huggingface/hub",
            "ollama ~/.ollama/models",
            "ollama /usr/share/ollama/.ollama/models",
            "lmstudio ~/.cache/lm-studio/models",
            "lmstudio ~/.lmstudio/models",
            "llama.cpp ~/.cache/llama.cpp",
            "gpt4all ~/.local/share/nomic.ai/GPT4All",
            "gpt4all ~/.cache/gpt4all",
            "jan ~/.local/share/Jan/data/llamacpp/models",
            "jan ~/.local/share/Jan/data/mlx/models",
            "jan ~/.local/share/Jan/data/models",
            "jan ~/.config/Jan/data/llamacpp/models",
            "jan ~/.config/Jan/data/mlx/models",
            "jan ~/.config/Jan/data/models",
            "jan ~/jan/llamacpp/models",
            "jan ~/jan/mlx/models",
            "jan ~/jan/models",
            "koboldcpp ~/koboldcpp",
            "text-generation-webui ~/text-generation-webui/user_data/models",
            "text-generation-webui ~/text-generation-webui/models",
        ];
        assert_eq!(listed(System::Linux, &[]), expected);
    }

    #[test]
    fn other_systems() {
        let has = |all: &[String], root: &str| assert!(all.iter().any(|r| r == root), "{all:#?}");
        let mac = listed(System::MacOs, &[]);
        has(&mac, "huggingface ~/.cache/huggingface/hub");
        has(&mac, "llama.cpp ~/Library/Caches/llama.cpp");
        has(&mac, "gpt4all ~/Library/Application Support/nomic.ai/GPT4All");
        has(&mac, "jan ~/Library/Application Support/Jan/data/llamacpp/models");
        let folders = [("APPDATA", "/roaming"), ("LOCALAPPDATA", "/local")];
        let windows = listed(System::Windows, &folders);
        has(&windows, "ollama ~/.ollama/models");
        has(&windows, "llama.cpp /local/llama.cpp");
        has(&windows, "gpt4all /local/nomic.ai/GPT4All");
        has(&windows, "jan /roaming/Jan/data/llamacpp/models");
        assert!(!windows.iter().any(|root| root.contains("/usr/share")), "{windows:#?}");
    }

    #[test]
    fn variables_take_precedence() {
        let variables = [
            ("HF_HOME", "/a"),
            ("OLLAMA_MODELS", " \"/b\" "),
            ("LLAMA_CACHE", "/c"),
            ("JAN_DATA_FOLDER", "/d"),
        ];
        let all = listed(System::Linux, &variables);
        assert_eq!(all[..2], ["huggingface /a/hub", "ollama /b"]);
        assert!(all.contains(&"llama.cpp /c".to_owned()));
        assert!(all.contains(&"jan /d/llamacpp/models".to_owned()));
        let both = [("HF_HOME", "/a"), ("HF_HUB_CACHE", "/e")];
        assert_eq!(listed(System::Linux, &both)[0], "huggingface /e");
    }
}
