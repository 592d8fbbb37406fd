//! A question's name and type in the terms of the zone. PURE.

use domain::base::Rtype;
use domain::base::name::{Name, ToName};

use super::zone::RecordType;

/// In lower case, without a dot at its end.
pub(crate) fn lower(name: &impl ToName) -> String {
    let name: Name<Vec<u8>> = name.to_name();
    let mut text = name.to_string().to_ascii_lowercase();
    if text == "." {
        text.clear();
    }
    text
}

pub(crate) fn asked(rtype: Rtype) -> RecordType {
    match rtype {
        Rtype::A => RecordType::A,
        Rtype::AAAA => RecordType::Aaaa,
        Rtype::SRV => RecordType::Srv,
        Rtype::PTR => RecordType::Ptr,
        Rtype::TXT => RecordType::Txt,
        Rtype::CNAME => RecordType::Cname,
        Rtype::NS => RecordType::Ns,
        Rtype::SOA => RecordType::Soa,
        Rtype::ANY => RecordType::Any,
        _ => RecordType::Other,
    }
}
