//! The form of the answer that a client wants: the shape of the object, and the media type. PURE.
//!
//!     Accept: application/json;as=Table;v=v1;g=meta.k8s.io, application/json;q=0.5   ->   Form { media, shape }
//!
//! As Kubernetes reads the header: the best clause that can be had wins, a clause that asks for a document which nobody
//! knows is passed over, and an error is a Status in the best media type that is left, or JSON.

use coracle_api::old;

/// Media ranges that are looked at; clients send three.
const CLAUSES_MAX: usize = 32;
const META_GROUP: &str = "meta.k8s.io";

/// The API version of the answer: the version in the requested path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    #[default]
    V1,
    Old(old::Version),
}

impl Version {
    /// The versions of 2014: no metadata, the namespace in the query, and namespaces that are made on first use.
    pub fn is_flat(self) -> bool {
        matches!(self, Version::Old(old) if old.is_flat())
    }

    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::Old(old) => old.name(),
        }
    }
}

/// How an answer looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Form {
    pub version: Version,
    pub media: Media,
    pub shape: Shape,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Media {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

/// The part of an object that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shape {
    /// The object, or a list of objects.
    #[default]
    Whole,
    /// PartialObjectMetadata, one.
    Metadata(MetaVersion),
    /// PartialObjectMetadataList.
    MetadataList(MetaVersion),
    /// Columns and rows, as people read them.
    Table(MetaVersion, Include),
}

/// The version of meta.k8s.io.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    V1,
    V1beta1,
}

/// The part of the object that a table row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Include {
    #[default]
    Metadata,
    Object,
    Nothing,
}

/// The kind of answer of a request, as far as the form depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    One,
    /// An answer to a question: it is told as it is, or its metadata, and never as a table.
    Reply,
    List,
    Watch,
}

/// Why no form suits.
#[derive(Clone, Debug, PartialEq)]
pub enum Unacceptable {
    /// None of the media types is known here at all.
    Media,
    /// Some media types are known, but not with the requested shape.
    Shape,
    /// Some media types are known, but not as a stream.
    Stream,
    /// One object's metadata of a list, or the other way round. The kind is as Kubernetes names it.
    Number { asked: &'static str, list: bool },
    /// `includeObject` of a table.
    Include(String),
}

impl Media {
    pub const ALL: [Media; 3] = [Media::Json, Media::Yaml, Media::Protobuf];

    pub fn content_type(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
            Media::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// As the type of a body, without its parameters.
    pub fn named(content_type: &str) -> Option<Media> {
        let name = content_type.split(';').next().unwrap_or_default().trim();
        Media::ALL.into_iter().find(|media| name.eq_ignore_ascii_case(media.content_type()))
    }

    /// All, as refusals list them.
    pub fn offered() -> String {
        Media::ALL.map(Media::content_type).join(", ")
    }
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Form {
    /// Plain JSON of that version.
    pub fn json(version: Version) -> Form {
        Form { version, ..Form::default() }
    }

    /// The form that the Accept header asks for. For old versions the header does not count: clients of 2014 take plain
    /// JSON.
    pub fn negotiate(version: Version, subject: Subject, accept: &str, include: &str) -> Result<Form, Unacceptable> {
        if version != Version::V1 || accept.trim().is_empty() {
            return Ok(Form::json(version));
        }
        let clauses = clauses(accept);
        if !clauses.iter().any(|clause| clause.range == "*/*" || Media::named(clause.range).is_some()) {
            return Err(Unacceptable::Media);
        }
        let suits = |form: &(Media, Shape)| subject != Subject::Reply || !matches!(form.1, Shape::Table(..));
        let (media, shape) = clauses.iter().filter_map(Clause::form).find(suits).ok_or(Unacceptable::Shape)?;
        let shape = match (shape, subject) {
            (Shape::Table(meta, _), _) => Shape::Table(meta, read_include(include)?),
            (Shape::Metadata(_), Subject::List) => {
                return Err(Unacceptable::Number { asked: "PartialObjectMetadata", list: true });
            }
            (Shape::MetadataList(_), Subject::One | Subject::Reply | Subject::Watch) => {
                return Err(Unacceptable::Number { asked: "PartialObjectMetadataList", list: false });
            }
            (shape, _) => shape,
        };
        // YAML has no end that a reader of a stream could see.
        if subject == Subject::Watch && media == Media::Yaml {
            Err(Unacceptable::Stream)
        } else {
            Ok(Form { version, media, shape })
        }
    }

    /// How a failure is told to a client with that Accept header: never as a table, and as JSON when nothing suits.
    pub fn of_failure(version: Version, accept: &str) -> Form {
        if version != Version::V1 {
            return Form::json(version);
        }
        let plain = clauses(accept).iter().filter_map(Clause::form).find(|(_, shape)| *shape == Shape::Whole);
        Form { version, media: plain.map_or(Media::Json, |(media, _)| media), shape: Shape::Whole }
    }

    /// The Content-Type for event streams.
    pub fn stream_type(self) -> &'static str {
        match self.media {
            Media::Json | Media::Yaml => Media::Json.content_type(),
            Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

fn read_include(include: &str) -> Result<Include, Unacceptable> {
    match include {
        "" | "Metadata" => Ok(Include::Metadata),
        "Object" => Ok(Include::Object),
        "None" => Ok(Include::Nothing),
        other => Err(Unacceptable::Include(other.to_owned())),
    }
}

/// One media range of an Accept header.
struct Clause<'a> {
    range: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// Best first; among equals the more certain, then as written.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').take(CLAUSES_MAX).map(clause).collect();
    let stars = |clause: &Clause<'_>| clause.range.matches('*').count();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(stars(a).cmp(&stars(b))));
    clauses
}

fn clause(text: &str) -> Clause<'_> {
    let mut parts = text.split(';').map(str::trim);
    let mut clause = Clause { range: parts.next().unwrap_or_default(), parameters: Vec::new(), quality: 1.0 };
    for (name, value) in parts.map(|part| part.split_once('=').unwrap_or((part, ""))) {
        match name {
            "q" => clause.quality = value.parse().ok().filter(|quality: &f32| quality.is_finite()).unwrap_or(1.0),
            _ => clause.parameters.push((name, value)),
        }
    }
    clause
}

impl Clause<'_> {
    /// The form that it asks for, if there is such a form.
    fn form(&self) -> Option<(Media, Shape)> {
        let media = match self.range {
            "*/*" | "application/*" => Media::Json,
            range => Media::named(range)?,
        };
        let value =
            |name: &str| self.parameters.iter().rev().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
        let meta = match (value("g"), value("v")) {
            (META_GROUP, "v1") => Some(MetaVersion::V1),
            (META_GROUP, "v1beta1") => Some(MetaVersion::V1beta1),
            _ => None,
        };
        let shape = match value("as") {
            "" => Shape::Whole,
            "Table" if media != Media::Protobuf => Shape::Table(meta?, Include::default()),
            "PartialObjectMetadata" => Shape::Metadata(meta?),
            "PartialObjectMetadataList" => Shape::MetadataList(meta?),
            _ => return None,
        };
        Some((media, shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Negotiated = Result<(Media, Shape), Unacceptable>;

    fn check(subject: Subject, rows: &[(&str, Negotiated)]) {
        for (accept, expected) in rows {
            let form = Form::negotiate(Version::V1, subject, accept, "").map(|form| (form.media, form.shape));
            assert_eq!(form, *expected, "{accept}");
        }
    }

    #[test]
    fn of_one_object() {
        use Media::*;
        let table = Shape::Table(MetaVersion::V1, Include::Metadata);
        check(
            Subject::One,
            &[
                ("", Ok((Json, Shape::Whole))),
                ("*/*", Ok((Json, Shape::Whole))),
                ("application/json;q=0", Ok((Json, Shape::Whole))),
                ("application/json; charset=utf-8", Ok((Json, Shape::Whole))),
                ("application/json;as=", Ok((Json, Shape::Whole))),
                ("text/html, */*;q=0.1", Ok((Json, Shape::Whole))),
                ("application/yaml;q=0.5, application/json;q=0.9", Ok((Json, Shape::Whole))),
                ("application/json;q=0.5, application/yaml", Ok((Yaml, Shape::Whole))),
                ("*/*, application/yaml", Ok((Yaml, Shape::Whole))),
                ("application/vnd.kubernetes.protobuf,application/json", Ok((Protobuf, Shape::Whole))),
                ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Ok((Json, table))),
                ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Ok((Yaml, table))),
                ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Ok((Json, Shape::Whole))),
                (
                    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
                    Ok((Json, Shape::Whole)),
                ),
                (
                    "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
                    Ok((Json, Shape::Metadata(MetaVersion::V1beta1))),
                ),
                ("application/json;as=Table;v=v9;g=meta.k8s.io", Err(Unacceptable::Shape)),
                ("application/json;as=Table", Err(Unacceptable::Shape)),
                ("application/json;as=Chair;v=v1;g=meta.k8s.io", Err(Unacceptable::Shape)),
                ("application/*", Err(Unacceptable::Media)),
                ("application/cbor", Err(Unacceptable::Media)),
                ("nonsense", Err(Unacceptable::Media)),
            ],
        );
    }

    #[test]
    fn of_lists_and_watches() {
        let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        let number = |asked, list| Err(Unacceptable::Number { asked, list });
        check(
            Subject::List,
            &[
                (list, Ok((Media::Json, Shape::MetadataList(MetaVersion::V1)))),
                (one, number("PartialObjectMetadata", true)),
            ],
        );
        check(Subject::One, &[(list, number("PartialObjectMetadataList", false))]);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let plain = format!("{table},application/json");
        check(Subject::Reply, &[(table, Err(Unacceptable::Shape)), (&plain, Ok((Media::Json, Shape::Whole)))]);
        check(
            Subject::Watch,
            &[
                (one, Ok((Media::Json, Shape::Metadata(MetaVersion::V1)))),
                (list, number("PartialObjectMetadataList", false)),
                ("application/yaml", Err(Unacceptable::Stream)),
            ],
        );
    }

    #[test]
    fn what_a_row_carries() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for (include, expected) in [
            ("", Ok(Include::Metadata)),
            ("Metadata", Ok(Include::Metadata)),
            ("Object", Ok(Include::Object)),
            ("None", Ok(Include::Nothing)),
            ("All", Err(Unacceptable::Include("All".to_owned()))),
        ] {
            let form = Form::negotiate(Version::V1, Subject::One, table, include);
            assert_eq!(
                form.map(|form| form.shape),
                expected.map(|include| Shape::Table(MetaVersion::V1, include)),
                "{include}"
            );
        }
        assert_eq!(Form::negotiate(Version::V1, Subject::One, "*/*", "All"), Ok(Form::default()), "no table, no rows");
    }

    #[test]
    fn of_failures() {
        for (accept, media) in [
            ("application/json;as=Table;v=v1;g=meta.k8s.io", Media::Json),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml", Media::Yaml),
            ("application/vnd.kubernetes.protobuf", Media::Protobuf),
            ("text/html", Media::Json),
            ("", Media::Json),
        ] {
            assert_eq!(Form::of_failure(Version::V1, accept).media, media, "{accept}");
        }
    }
}
