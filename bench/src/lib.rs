//! Generated inputs, and ratios between the cases of one run.

pub mod input;
pub mod limits;
pub mod machine;
pub mod model;

use std::path::Path;

/// Prints how each case of a group compares with the one named `ours`, from the medians that
/// criterion has just written. All figures are from one run, so that drift of the machine affects
/// all equally.
pub fn print_ratios(group: &str, ours: &str) {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let folder = Path::new(&target).join("criterion").join(group);
    let Some(our_median) = median(&folder.join(ours)) else { return };
    println!("\n{group}: {ours} {}", shown(our_median));
    let Ok(cases) = std::fs::read_dir(&folder) else { return };
    let mut names: Vec<_> = cases.flatten().map(|case| case.file_name()).collect();
    names.sort();
    for name in names {
        let Some(median) = median(&folder.join(&name)) else { continue };
        if name != ours {
            println!(
                "    {:<28} {:>10}  {:>6.2} x ours",
                name.display(),
                shown(median),
                median / our_median
            );
        }
    }
}

/// The median in nanoseconds.
fn median(case: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(case.join("new/estimates.json")).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["median"]["point_estimate"].as_f64()
}

fn shown(nanoseconds: f64) -> String {
    if nanoseconds < 1e6 {
        format!("{:.1} us", nanoseconds / 1e3)
    } else {
        format!("{:.2} ms", nanoseconds / 1e6)
    }
}
