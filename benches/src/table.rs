//! Text tables that read well on a terminal and as Markdown.

use std::fmt;

/// A table whose first column is aligned left and the others right.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// One with these column heads.
    pub fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.to_owned()).collect()] }
    }

    /// One more row. Cells that it lacks are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |column| self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| width(column).max(3)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            for (column, width) in widths.iter().enumerate() {
                let text = cell(row, column);
                if column == 0 { write!(f, "| {text:<width$} ")? } else { write!(f, "| {text:>width$} ")? }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width - usize::from(column > 0));
                    write!(f, "| {dashes}{} ", if column > 0 { ":" } else { "" })?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["row", "p50 ms"]);
        table.row(vec!["pipe".to_owned(), "0.1".to_owned()]);
        table.row(vec!["a – b".to_owned()]);
        let expected = "| row   | p50 ms |\n| ----- | -----: |\n| pipe  |    0.1 |\n| a – b |        |\n";
        assert_eq!(table.to_string(), expected);
    }
}
