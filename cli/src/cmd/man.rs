//! `man`: writes the manual pages, one for the program and one for each verb.

use std::io::Write;

use clap_mangen::roff::{Roff, roman};

use super::Done;
use crate::args::{self, Man, VERSION};
use crate::newfile::NewFile;
use crate::{Status, failure, print};

pub(crate) fn run(args: &Man) -> Done {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .map_err(|error| failure::io(folder, "cannot create the folder", error))?;
    let mut program = args::program::command();
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages)?;
    let mut files = Vec::new();
    for (name, page) in &pages {
        let path = folder.join(format!("{name}.1"));
        let mut file = NewFile::create(&path, |_| Ok(args.overwrite))?;
        file.write_all(page).map_err(|error| failure::io(&path, "cannot write the file", error))?;
        files.push(file);
    }
    files.into_iter().try_for_each(NewFile::finish)?;
    writeln!(std::io::stdout(), "{} manual pages in {}", pages.len(), print::shown(folder))?;
    Ok(Status::Fine)
}

/// Adds the page of a command, and those of its subcommands.
fn add_pages(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let is_program = pages.is_empty();
    let mut page = Vec::new();
    // What follows the options is laid out here: clap_mangen would join its lines to one paragraph.
    let options = command.clone().version(None::<&str>).long_version(None::<&str>);
    let options = options.after_long_help(None::<&str>);
    clap_mangen::Man::new(options.after_help(None::<&str>))
        .source(format!("Weighbridge {VERSION}"))
        .manual("Weighbridge")
        .render(&mut page)?;
    let mut more = Roff::new();
    if let Some(text) = command.get_after_long_help() {
        add_sections(&text.to_string(), &mut more);
    }
    if !is_program {
        more.control("SH", ["SEE ALSO"]).text([roman("weighbridge(1)")]);
    }
    more.to_writer(&mut page)?;
    pages.push((name, page));
    let verbs = command.get_subcommands();
    verbs.into_iter().try_for_each(|verb| add_pages(verb, pages))
}

/// Adds the text that follows the options in the help. A line that ends with a colon, and the
/// indented lines after it, are a section; other paragraphs are notes.
fn add_sections(text: &str, page: &mut Roff) {
    let mut notes = false;
    for block in text.split("\n\n") {
        match block.split_once(":\n").filter(|(title, lines)| is_section(title, lines)) {
            Some((title, lines)) => {
                page.control("SH", [title.to_uppercase().as_str()]).control("nf", []);
                for line in lines.lines() {
                    page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
                }
                page.control("fi", []);
            }
            None => {
                page.control(if notes { "PP" } else { "SH" }, (!notes).then_some("NOTES"));
                notes = true;
                for line in block.lines() {
                    page.text([roman(line)]);
                }
            }
        }
    }
}

fn is_section(title: &str, lines: &str) -> bool {
    !title.contains('\n') && lines.starts_with("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_have_one_heading() {
        let mut page = Roff::new();
        add_sections("One.\n\nTwo.\n\nExamples:\n  weighbridge bench\n\nThree.", &mut page);
        let text = page.render();
        let controls: Vec<&str> = text.lines().filter(|line| line.starts_with('.')).collect();
        let found: Vec<&str> =
            controls.into_iter().filter(|line| *line != ".ie \\n(.g .ds Aq \\(aq").collect();
        let expected = [".SH NOTES", ".PP", ".SH EXAMPLES", ".nf", ".fi", ".PP"];
        assert!(found.ends_with(&expected), "{text}");
    }
}
