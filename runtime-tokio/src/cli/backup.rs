//! `hangar backup`: a copy of what a server remembers.

use super::{Failure, serve::data_folder};
use clap::Args;
use hangar_backends::store::sqlite;
use hangar_transports::data::store_file;
use std::{fmt, path::PathBuf};

/// The exit code when there is no copy: nothing is run that could have a code of its own.
const NO_BACKUP: u8 = 1;

#[derive(Args, Debug)]
pub(super) struct Backup {
    /// The file to write; one that is there already is not replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The server's data folder [default: $XDG_DATA_HOME/hangar]
    #[arg(long, env = "HANGAR_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Backup {
    pub(super) fn main(self) -> Result<u8, Failure> {
        let folder = data_folder(self.data)?;
        if !folder.is_dir() {
            return Err(failed(format_args!("there is no data folder {}", folder.display())));
        }
        sqlite::backup(&store_file(&folder), &self.file).map_err(failed)?;
        Ok(0)
    }
}

fn failed(error: impl fmt::Display) -> Failure {
    Failure { message: error.to_string(), code: NO_BACKUP }
}
