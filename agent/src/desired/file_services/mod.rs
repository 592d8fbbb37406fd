//! Services of manifest files: of this host alone, with and without a master.
//!
//!     a document of a file -> `asked` -> the Service of the file
//!     Services of all files -> `decide`: served or waiting, with addresses of `addresses`
//!         -> `address_file`, where a new name came -> `Desired`

pub mod address_file;
pub mod addresses;
pub mod asked;
pub mod decide;

use std::ffi::OsString;
use std::sync::Arc;

use coracle_api::service::Service;

use super::good::Good;
use crate::facts::file_services::FileService;

/// The Services of all files, in the order of the files.
pub(super) fn gathered<'g>(files: impl Iterator<Item = (&'g OsString, Option<&'g Good>)>) -> Vec<FileService> {
    let mut services = Vec::new();
    for (name, good) in files {
        let others = good
            .into_iter()
            .flat_map(|good| &good.units)
            .flat_map(|unit| &unit.others)
            .filter(|other| other["kind"] == "Service");
        let read = others.filter_map(|document| Service::read(document).ok());
        let file = name.to_string_lossy();
        services.extend(read.map(|service| FileService { file: file.clone().into(), service: Arc::new(service) }));
    }
    services
}
