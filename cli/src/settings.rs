//! The user's settings: a TOML file, `config.toml`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weighbridge::{Error, ErrorKind};

use crate::Stop;

/// The settings in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Folders with models, besides those of programs.
    #[serde(default)]
    pub(crate) roots: Vec<PathBuf>,
}

/// Reads the file that `WEIGHBRIDGE_CONFIG` names, else `weighbridge/config.toml` in the user's
/// folder of settings, if there is one.
pub(crate) fn read() -> Result<Settings, Stop> {
    let set = |name: &str| std::env::var_os(name).filter(|set| !set.is_empty()).map(PathBuf::from);
    let (path, is_named) = match set("WEIGHBRIDGE_CONFIG") {
        Some(path) => (path, true),
        None => {
            let own = || Some(std::env::home_dir()?.join(".config"));
            let folder = if cfg!(windows) { set("APPDATA") } else { set("XDG_CONFIG_HOME") };
            let Some(folder) = folder.or_else(own) else { return Ok(Settings::default()) };
            (folder.join("weighbridge/config.toml"), false)
        }
    };
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {
            return Ok(Settings::default());
        }
        read => {
            read.map_err(|error| crate::failure::io(&path, "cannot read the settings", error))?
        }
    };
    Ok(parse(&text, std::env::home_dir().as_deref()).map_err(|error| error.in_file(&path))?)
}

/// Parses the file. A root that starts with `~/` is below the home directory.
fn parse(text: &str, home: Option<&Path>) -> Result<Settings, Error> {
    let mut settings: Settings = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let fault = format!("line {line}: {}", error.message());
        Error::new(ErrorKind::Malformed, fault)
            .advise("the settings are: roots = [\"FOLDER\", ...]")
    })?;
    for root in &mut settings.roots {
        if let (Ok(rest), Some(home)) = (root.strip_prefix("~"), home) {
            *root = home.join(rest);
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        let parsed = |text: &str| match parse(text, Some(Path::new("/home/me"))) {
            Ok(settings) => format!("{:?}", settings.roots),
            Err(error) => error.to_string(),
        };
        assert_eq!(parsed(""), "[]");
        assert_eq!(
            parsed("# mine\nroots = [\n  \"/models\",\n  '~/more',\n]\n"),
            r#"["/models", "/home/me/more"]"#
        );
        assert_eq!(
            parsed("roots = \"/models\""),
            "line 1: invalid type: string \"/models\", expected a sequence"
        );
        assert_eq!(parsed("\nrots = []"), "line 2: unknown field `rots`, expected `roots`");
        assert!(parsed("roots = [").starts_with("line 1: "));
    }
}
