//! The JSON file with every sample.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize as _;
use serde_json::Value;

use crate::{Result, report::Report};

/// What is longer than this is broken into lines, unless it is a list of samples.
const LINE: usize = 100;

/// Where the results of `date` go unless told otherwise.
pub fn default_path(date: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(format!("{date}-streams.json"))
}

/// Writes `report` to `path`.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let mut text = String::new();
    layout(&report.serialize(serde_json::value::Serializer)?, 0, &mut text);
    text.push('\n');
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// JSON that is broken into lines, with each list of samples on one.
fn layout(value: &Value, depth: usize, into: &mut String) {
    let short = value.to_string();
    let indent = "  ".repeat(depth + 1);
    match value {
        Value::Array(items) if short.len() > LINE && !items.iter().all(Value::is_number) => {
            for (number, item) in items.iter().enumerate() {
                into.push_str(if number == 0 { "[\n" } else { ",\n" });
                into.push_str(&indent);
                layout(item, depth + 1, into);
            }
            into.push('\n');
            into.push_str(&indent[2..]);
            into.push(']');
        }
        Value::Object(fields) if short.len() > LINE => {
            for (number, (name, field)) in fields.iter().enumerate() {
                into.push_str(if number == 0 { "{\n" } else { ",\n" });
                into.push_str(&indent);
                into.push_str(&format!("{}: ", Value::from(name.as_str())));
                layout(field, depth + 1, into);
            }
            into.push('\n');
            into.push_str(&indent[2..]);
            into.push('}');
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            into.push_str(&short);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_same_json() {
        let samples: Vec<u64> = (1_000_000..1_000_030).collect();
        let value = serde_json::json!({
            "date": "2026-10-13",
            "rows": [{ "row": "pipe", "delays_ns": samples, "none": null }, { "row": "a \"quoted\" one" }],
        });
        let mut text = String::new();
        layout(&value, 0, &mut text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(text.lines().filter(|line| line.contains("1000017")).count(), 1);
        assert!(text.lines().count() > 5, "{text}");
    }

    #[test]
    fn results_are_kept_by_date() {
        assert!(default_path("2026-10-13").ends_with("benches/results/2026-10-13-streams.json"));
    }
}
