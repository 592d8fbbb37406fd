//! What each container runs, and whether there is a newer image: in the engine, in an archive of this host, in the
//! registry. The registry is asked here alone, for a command and for an update.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::judge::{self, Running};
use crate::facts::engine::Failure;
use crate::facts::logins::{Login, fitting};
use crate::facts::naming::Source;
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;
use crate::plan::images::full_name;
use crate::runtime::Runtime;
use crate::runtime::docker::Docker;
use crate::runtime::docker::stock::collect::EngineImage;
use crate::runtime::docker::stock::record::ImageRecord;
use crate::spec::pull_secrets::pull_secrets;

/// Registries that are asked at once: one that is out of reach does not hold up the others for long.
const ASKED_MAX: usize = 4;

/// The answer of one source about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What runs is the newest.
    Same,
    Newer(String),
    /// Why it is not known.
    Unknown(String),
    /// It has nothing to say.
    NotAsked(&'static str),
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub namespace: String,
    pub pod: String,
    pub source: &'static str,
    pub container: String,
    pub image: String,
    pub id: Option<String>,
    /// As the registry named it when it was pulled.
    pub digest: Option<String>,
    pub engine: Answer,
    pub archive: Answer,
    pub registry: Answer,
}

/// Of all pods, in the order of their names.
pub async fn of_all(docker: &Docker, shown: &Shown) -> Value {
    let mut pods: Vec<&Wanted> = shown.desired.pods.values().map(AsRef::as_ref).collect();
    pods.sort_by(|one, other| {
        let place = |wanted: &Wanted| (wanted.name.namespace.clone(), wanted.name.name.clone(), wanted.name.source);
        place(one).cmp(&place(other))
    });
    let rows = rows(docker, shown, &pods).await;
    json!({"images": rows.iter().map(Row::document).collect::<Vec<_>>()})
}

pub(super) async fn of_pod(docker: &Docker, shown: &Shown, wanted: &Wanted) -> Vec<Row> {
    rows(docker, shown, &[wanted]).await
}

async fn rows(docker: &Docker, shown: &Shown, pods: &[&Wanted]) -> Vec<Row> {
    let (here, failure) = match docker.images().await {
        Ok(here) => (here, None),
        Err(failure) => (Vec::new(), Some(failure.to_string())),
    };
    let record = docker.record();
    let mut questions: BTreeMap<String, Vec<Login>> = BTreeMap::new();
    for wanted in pods {
        for one in judge::running(shown, wanted) {
            if is_asked(&one, &here, &record) {
                let logins = fitting(&pull_secrets(&shown.desired.objects, wanted).logins, &one.reference);
                questions.entry(one.reference.clone()).or_default().extend(logins);
            }
        }
    }
    let ask = |(reference, logins): (String, Vec<Login>)| async move {
        let answer = docker.registry_digest(&reference, &logins).await.map_err(|failure| failure.to_string());
        (reference, answer)
    };
    let told: BTreeMap<String, Result<String, String>> =
        stream::iter(questions).map(ask).buffer_unordered(ASKED_MAX).collect().await;
    let facts = Facts { here: &here, record: &record, told: &told, failure: failure.as_deref() };
    pods.iter()
        .flat_map(|wanted| judge::running(shown, wanted).into_iter().map(|one| row(wanted, one, &facts)))
        .collect()
}

/// Whether a name is one of this host alone: built here, or loaded from an archive. No registry is asked for it.
pub(super) async fn is_local(docker: &Docker, reference: &str) -> Result<bool, Failure> {
    if docker.image(reference).await?.is_none() {
        return Ok(false);
    }
    Ok(is_of_this_host(reference, &docker.images().await?, &docker.record()))
}

fn is_of_this_host(reference: &str, here: &[EngineImage], record: &ImageRecord) -> bool {
    let Some(image) = named(here, reference) else { return false };
    image.digests.is_empty() || archive_of(record, reference, &image.id).is_some()
}

fn is_asked(one: &Running, here: &[EngineImage], record: &ImageRecord) -> bool {
    !one.is_fixed() && !one.never_pulls && !is_of_this_host(&one.reference, here, record)
}

/// What is known beside the pods.
struct Facts<'a> {
    here: &'a [EngineImage],
    record: &'a ImageRecord,
    /// By reference: the digest in the registry, or why it is not known.
    told: &'a BTreeMap<String, Result<String, String>>,
    /// Why the engine's images are not known.
    failure: Option<&'a str>,
}

fn row(wanted: &Wanted, one: Running, facts: &Facts<'_>) -> Row {
    let runs = one.id.as_deref();
    let of_id = runs.and_then(|id| facts.here.iter().find(|image| image.id == id));
    let digest = of_id.and_then(|image| digest_of(image, &one.reference));
    let tagged = named(facts.here, &one.reference);
    let archive = tagged.and_then(|image| archive_of(facts.record, &one.reference, &image.id));
    let engine = match (facts.failure, tagged, runs) {
        _ if one.is_fixed() => Answer::NotAsked("the name is fixed by a digest"),
        (Some(why), ..) => Answer::Unknown(why.to_owned()),
        (None, None, _) => Answer::NotAsked("it does not have the image under this name"),
        (None, Some(_), None) => Answer::NotAsked("no container of it was made yet"),
        (None, Some(image), Some(id)) if image.id == id => Answer::Same,
        (None, Some(image), Some(_)) => Answer::Newer(image.id.clone()),
    };
    let of_archive = match (&engine, archive) {
        (Answer::Newer(_), Some(path)) => Answer::Newer(path.to_owned()),
        (Answer::Same, Some(_)) => Answer::Same,
        _ => Answer::NotAsked("no archive has it"),
    };
    let registry = match facts.told.get(&one.reference) {
        _ if one.is_fixed() => Answer::NotAsked("the name is fixed by a digest"),
        _ if one.never_pulls => Answer::NotAsked("imagePullPolicy is Never"),
        None => Answer::NotAsked("the image was built here, or loaded from an archive"),
        Some(Err(why)) => Answer::Unknown(why.clone()),
        Some(Ok(_)) if runs.is_none() => Answer::NotAsked("no container of it was made yet"),
        Some(Ok(told)) => match &digest {
            Some(digest) if digest == told => Answer::Same,
            Some(_) => Answer::Newer(told.clone()),
            None => Answer::Unknown("the image that runs was not pulled under this name".to_owned()),
        },
    };
    Row {
        namespace: wanted.name.namespace.clone(),
        pod: wanted.name.name.clone(),
        source: if wanted.name.source == Source::File { "file" } else { "api" },
        container: one.container,
        image: one.reference,
        id: one.id,
        digest,
        engine,
        archive: of_archive,
        registry,
    }
}

/// The image that a name means in the engine.
fn named<'a>(here: &'a [EngineImage], reference: &str) -> Option<&'a EngineImage> {
    let name = full_name(reference);
    here.iter().find(|image| image.tags.iter().any(|tag| full_name(tag) == name))
}

/// The digest that the registry of the name gave.
fn digest_of(image: &EngineImage, reference: &str) -> Option<String> {
    let repository = |name: &str| {
        let full = full_name(name);
        let last = full.rfind('/').map_or(0, |at| at + 1);
        full[last..].find([':', '@']).map_or(full.clone(), |at| full[..last + at].to_owned())
    };
    let of = repository(reference);
    let mut digests = image.digests.iter().filter_map(|name| name.split_once('@'));
    digests.find(|(name, _)| repository(name) == of).map(|(_, digest)| digest.to_owned())
}

/// The file that the image of this name came from.
fn archive_of<'a>(record: &'a ImageRecord, reference: &str, id: &str) -> Option<&'a str> {
    let holds = |(_, file): &(&String, &crate::runtime::docker::stock::record::Loaded)| {
        file.images.contains(id) && file.may_have(reference)
    };
    record.files.iter().find(holds).map(|(path, _)| path.as_str())
}

/// `sha256:0123456789ab...` -> `0123456789ab`
pub(super) fn short(id: &str) -> &str {
    let hex = id.rsplit(':').next().unwrap_or(id);
    hex.get(..12).unwrap_or(hex)
}

impl Row {
    fn document(&self) -> Value {
        json!({
            "namespace": self.namespace, "pod": self.pod, "source": self.source, "container": self.container,
            "image": self.image, "id": self.id, "digest": self.digest, "engine": self.engine.document(),
            "archive": self.archive.document(), "registry": self.registry.document(), "words": self.words(),
        })
    }

    /// Whether there is a newer one, in words.
    pub fn words(&self) -> String {
        let mut newer = Vec::new();
        match (&self.archive, &self.engine) {
            (Answer::Newer(path), _) => newer.push(format!("newer in {}", file_name(path))),
            (_, Answer::Newer(id)) => newer.push(format!("newer in the engine ({})", short(id))),
            _ => {}
        }
        if let Answer::Newer(digest) = &self.registry {
            newer.push(format!("newer in the registry ({})", short(digest)));
        }
        let unknown: Vec<String> = [("engine", &self.engine), ("registry", &self.registry)]
            .into_iter()
            .filter_map(|(source, answer)| match answer {
                Answer::Unknown(why) => Some(format!("{source} not known: {why}")),
                _ => None,
            })
            .collect();
        let told = [&self.engine, &self.registry].into_iter().any(|answer| *answer == Answer::Same);
        match (newer.is_empty(), unknown.is_empty()) {
            (false, _) => newer.into_iter().chain(unknown).collect::<Vec<_>>().join("; "),
            (true, false) => unknown.join("; "),
            (true, true) if self.id.is_none() => "not started yet".to_owned(),
            (true, true) => match (&self.registry, told) {
                (Answer::Same, _) => "the newest".to_owned(),
                (Answer::NotAsked(why), true) => format!("the newest of this host ({why})"),
                (Answer::NotAsked(why), false) => (*why).to_owned(),
                _ => "the newest of this host".to_owned(),
            },
        }
    }

    /// What an update would do.
    pub fn dry_words(&self) -> String {
        let from_here = matches!(self.engine, Answer::Newer(_));
        let would = match (&self.registry, from_here) {
            (Answer::Newer(_), _) => "would be pulled, and the pod replaced",
            (Answer::Unknown(_), _) => "an update would try to pull it",
            (_, true) => "the pod would be replaced",
            _ => "stays",
        };
        format!("{}: {}: {}: {would}", self.container, self.image, self.words())
    }
}

impl Answer {
    fn document(&self) -> Value {
        match self {
            Answer::Same => json!({"newer": false}),
            Answer::Newer(what) => json!({"newer": true, "what": what}),
            Answer::Unknown(why) => json!({"newer": null, "why": why}),
            Answer::NotAsked(why) => json!({"newer": false, "why": why}),
        }
    }
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::docker::stock::record::Loaded;
    use std::collections::BTreeSet;

    const NAME: &str = "r.example/a:1";

    fn image(id: &str, tags: &[&str], digests: &[&str]) -> EngineImage {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        EngineImage { id: id.to_owned(), tags: texts(tags), digests: texts(digests), bytes: 1 }
    }

    fn row_of(
        here: &[EngineImage],
        runs: Option<&str>,
        told: Option<Result<&str, &str>>,
        change: impl Fn(&mut Running, &mut ImageRecord),
    ) -> Row {
        let document = json!({"metadata": {"namespace": "default", "name": "web", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": NAME}]}});
        let wanted = Wanted::new(Source::File, document).unwrap();
        let mut record = ImageRecord::default();
        let mut one = Running {
            container: "c".into(),
            reference: NAME.into(),
            id: runs.map(str::to_owned),
            runs: true,
            never_pulls: false,
        };
        change(&mut one, &mut record);
        let told: BTreeMap<String, Result<String, String>> = told
            .filter(|_| is_asked(&one, here, &record))
            .map(|told| (NAME.to_owned(), told.map(str::to_owned).map_err(str::to_owned)))
            .into_iter()
            .collect();
        row(&wanted, one, &Facts { here, record: &record, told: &told, failure: None })
    }

    #[test]
    fn which_image_is_newer_in_words() {
        let old = || image("sha256:old", &[], &["r.example/a@sha256:d1"]);
        let new = || image("sha256:new", &[NAME], &["r.example/a@sha256:d2"]);
        let only = || image("sha256:old", &[NAME], &["r.example/a@sha256:d1"]);
        let plain = |_: &mut Running, _: &mut ImageRecord| {};
        let check = |row: Row, words: &str| assert_eq!(row.words(), words, "{row:?}");
        let runs = Some("sha256:old");
        check(row_of(&[only()], runs, Some(Ok("sha256:d1")), plain), "the newest");
        check(row_of(&[only()], runs, Some(Ok("sha256:d2")), plain), "newer in the registry (d2)");
        check(row_of(&[only()], runs, Some(Err("no answer")), plain), "registry not known: no answer");
        check(
            row_of(&[old(), new()], runs, Some(Err("no answer")), plain),
            "newer in the engine (new); registry not known: no answer",
        );
        check(
            row_of(&[old(), new()], runs, Some(Ok("sha256:d3")), plain),
            "newer in the engine (new); newer in the registry (d3)",
        );
        let built = image("sha256:old", &[NAME], &[]);
        check(
            row_of(&[built], runs, Some(Ok("sha256:d1")), plain),
            "the newest of this host (the image was built here, or loaded from an archive)",
        );
        let archive = |_: &mut Running, record: &mut ImageRecord| {
            let images = BTreeSet::from(["sha256:new".to_owned()]);
            let loaded = Loaded { images, names: BTreeSet::from([NAME.to_owned()]), ..Loaded::default() };
            record.files.insert("/media/stick/a.tar".to_owned(), loaded);
        };
        check(row_of(&[old(), new()], runs, Some(Ok("sha256:d3")), archive), "newer in a.tar");
        let fixed = |one: &mut Running, _: &mut ImageRecord| "r.example/a@sha256:d1".clone_into(&mut one.reference);
        check(row_of(&[only()], runs, Some(Ok("sha256:d2")), fixed), "the name is fixed by a digest");
        check(row_of(&[only()], None, Some(Ok("sha256:d1")), plain), "not started yet");
    }

    #[test]
    fn what_an_update_would_do() {
        let only = || image("sha256:old", &[NAME], &["r.example/a@sha256:d1"]);
        let plain = |_: &mut Running, _: &mut ImageRecord| {};
        for (told, words) in [
            (Ok("sha256:d1"), "the newest: stays"),
            (Ok("sha256:d2"), "would be pulled, and the pod replaced"),
            (Err("no answer"), "no answer: an update would try to pull it"),
        ] {
            let row = row_of(&[only()], Some("sha256:old"), Some(told), plain);
            assert!(row.dry_words().starts_with("c: r.example/a:1: ") && row.dry_words().ends_with(words), "{row:?}");
        }
    }

    #[test]
    fn a_registry_out_of_reach_is_not_up_to_date() {
        let only = image("sha256:old", &[NAME], &["r.example/a@sha256:d1"]);
        let row = row_of(&[only], Some("sha256:old"), Some(Err("no route")), |_, _| {});
        assert_eq!(row.document()["registry"], json!({"newer": null, "why": "no route"}));
    }
}
