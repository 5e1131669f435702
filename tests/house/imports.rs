//! The import map of a crate: which file uses the items of which other file.
//!
//! A path is followed through re-exports and imports to the file that defines the item, so a `pub use` alone
//! is no use: it counts if its file mentions the name as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{Token, after_close, tokens};

/// Modules by their paths from the root of the crate, such as `container/gguf`; the root is "".
#[derive(Debug, Default)]
pub(crate) struct Crate {
    modules: BTreeMap<String, Module>,
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// The paths in its code, and names alone.
    mentions: BTreeSet<Vec<String>>,
}

/// One leaf of a `use` declaration.
#[derive(Debug)]
struct Use {
    /// The name that it gives the item; `*` for everything in a module.
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// The names that a file uses of another one: by the file and the other one.
pub(crate) type Edges = BTreeMap<(String, String), BTreeSet<String>>;

const ITEMS: &[&str] =
    &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules", "mod"];

/// Words that stand between the one for an item and its name.
const MODIFIERS: &[&str] = &["fn", "unsafe", "extern", "mut", "!"];

/// The number of imports that a path may be followed through.
const STEPS: usize = 32;

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}/{name}") }
}

fn parent(module: &str) -> &str {
    module.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Crate {
    /// The map of sources by their paths below `src/`.
    pub(crate) fn new<'s>(sources: impl IntoIterator<Item = (&'s str, &'s str)>) -> Self {
        let mut all = Self::default();
        for (file, text) in sources {
            let name = file.strip_suffix(".rs").unwrap_or(file);
            let name = name.strip_suffix("/mod").unwrap_or(name);
            let root = if name == "lib" || name == "main" { "" } else { name };
            all.read(file, root, &tokens(text));
        }
        all
    }

    fn read(&mut self, file: &str, root: &str, tokens: &[Token]) {
        let mut module = root.to_owned();
        self.modules.entry(module.clone()).or_default().file = file.to_owned();
        // The depths at which the bodies of modules in the file end.
        let mut inline = Vec::new();
        let (mut depth, mut at) = (0usize, 0);
        while let Some(token) = tokens.get(at) {
            let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
            let here = self.modules.entry(module.clone()).or_default();
            match token.text {
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    if inline.last() == Some(&depth) {
                        inline.pop();
                        module = parent(&module).to_owned();
                    }
                }
                "use" if text(at + 1) != "<" => {
                    let is_public = at > 0 && ["pub", ")"].contains(&text(at - 1));
                    at += 1;
                    read_use(tokens, &mut at, &mut Vec::new(), &mut |name, path| {
                        here.uses.push(Use { name, path, is_public });
                    });
                }
                "mod" if text(at + 2) == "{" => {
                    module = join(&module, text(at + 1));
                    self.modules.entry(module.clone()).or_default().file = file.to_owned();
                    inline.push(depth);
                    depth += 1;
                    at += 2;
                }
                item if ITEMS.contains(&item) && depth == inline.last().map_or(0, |at| at + 1) => {
                    let mut name = at + 1;
                    while MODIFIERS.contains(&text(name)) {
                        name += 1;
                    }
                    if item != "mod" {
                        here.items.insert(text(name).to_owned());
                    }
                    at = name;
                }
                _ if token.is_word() && !["::", "."].contains(&text(at.wrapping_sub(1))) => {
                    let mut path = vec![token.text.to_owned()];
                    while text(at + 1) == "::" && tokens.get(at + 2).is_some_and(Token::is_word) {
                        at += 2;
                        path.push(text(at).to_owned());
                    }
                    here.mentions.insert(path);
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// The imports between the files.
    pub(crate) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (name, module) in &self.modules {
            let imports = module.uses.iter().filter(|import| !import.is_public);
            let used = imports.map(|import| &import.path).chain(&module.mentions);
            for path in used.filter(|path| path.last().is_some_and(|last| last != "*")) {
                if let Some(home) = self.home(name, path, STEPS).filter(|home| *home != module.file)
                {
                    let edge = (module.file.clone(), home.to_owned());
                    edges.entry(edge).or_default().insert(path.join("::"));
                }
            }
        }
        edges
    }

    /// The file that defines the item of a path in a module; none for modules, for what the file
    /// itself declares, and for other crates.
    fn home(&self, module: &str, path: &[String], steps: usize) -> Option<&str> {
        let steps = steps.checked_sub(1)?;
        let (mut at, mut names) = (module.to_owned(), path);
        while let [first, rest @ ..] = names {
            match first.as_str() {
                "crate" => at = String::new(),
                "super" => at = parent(&at).to_owned(),
                "self" => {}
                _ => break,
            }
            names = rest;
        }
        let is_relative = names.len() == path.len();
        loop {
            let here = self.modules.get(&at)?;
            let [first, rest @ ..] = names else { return None };
            let child = join(&at, first);
            let is_module = self.modules.contains_key(&child);
            let named = here.uses.iter().find(|import| import.name == *first);
            let is_start = is_relative && rest.len() + 1 == path.len();
            if is_module && !rest.is_empty() {
                (at, names) = (child, rest);
            } else if here.items.contains(first) {
                return Some(&here.file);
            } else if let Some(import) = named {
                let whole = [&import.path, rest].concat();
                return self.home(&at, &whole, steps);
            } else if is_module {
                return None;
            } else {
                let globs = here.uses.iter().filter(|import| import.name == "*");
                let home = |import: &Use| {
                    let target = self.module(&at, &import.path[..import.path.len() - 1])?;
                    let has = self.modules[&target].items.contains(first)
                        || self.modules[&target].uses.iter().any(|import| import.name == *first);
                    has.then(|| self.home(&target, names, steps)).flatten()
                };
                let from_glob = globs.clone().find_map(home);
                return from_glob.or((!is_start).then_some(&here.file));
            }
        }
    }

    /// The module of a path in a module.
    fn module(&self, module: &str, path: &[String]) -> Option<String> {
        let mut at = module.to_owned();
        for name in path {
            match name.as_str() {
                "crate" => at = String::new(),
                "super" => at = parent(&at).to_owned(),
                "self" => {}
                name => at = join(&at, name),
            }
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

/// Visits the leaves of a `use` tree: their names and paths.
fn read_use(
    tokens: &[Token],
    at: &mut usize,
    path: &mut Vec<String>,
    visit: &mut impl FnMut(String, Vec<String>),
) {
    let depth = path.len();
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    while text(*at) == "::" || text(*at + 1) == "::" {
        if text(*at) != "::" {
            path.push(text(*at).to_owned());
            *at += 1;
        }
        *at += 1;
    }
    if text(*at) == "{" {
        let end = after_close(tokens, *at);
        *at += 1;
        while *at + 1 < end {
            read_use(tokens, at, path, visit);
            if text(*at) == "," {
                *at += 1;
            }
        }
        *at = end;
    } else {
        let last = text(*at).to_owned();
        let mut name = last.clone();
        if last != "self" || path.is_empty() {
            path.push(last);
        } else {
            name = path.last().cloned().unwrap_or_default();
        }
        *at += 1;
        if text(*at) == "as" {
            name = text(*at + 1).to_owned();
            *at += 2;
        }
        visit(name, path.clone());
    }
    path.truncate(depth);
}

/// Groups of files each of which uses all others of its group, directly or through them.
pub(crate) fn circles(edges: &Edges) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        next.entry(from).or_default().push(to);
    }
    let reached = |start: &str| {
        let mut seen = BTreeSet::new();
        let mut open = next.get(start).cloned().unwrap_or_default();
        while let Some(file) = open.pop() {
            if seen.insert(file) {
                open.extend(next.get(file).into_iter().flatten());
            }
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|file| (*file, reached(file))).collect();
    let mut groups = BTreeSet::new();
    for (file, targets) in reach.iter().filter(|(file, targets)| targets.contains(*file)) {
        let back = |other: &&&str| reach.get(**other).is_some_and(|set| set.contains(file));
        groups.insert(targets.iter().filter(back).map(|&file| file.to_owned()).collect());
    }
    groups.into_iter().collect()
}
