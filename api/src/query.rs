//! Query parameters that both programs read: whole numbers, truths, and the options of a log request. PURE.

use crate::meta::Time;
use crate::status::Status;
use coracle_schema::{Path, Problem, Reason, canonical_time};
use std::num::{IntErrorKind, ParseIntError};

/// Which part of a container's log is asked for, and in which form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
    /// Empty: the pod's only one.
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub since: Option<Since>,
    pub bytes_max: Option<u64>,
    pub stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Since {
    SecondsAgo(i64),
    Time(Time),
}

/// An output of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    #[default]
    All,
    Stderr,
    Stdout,
}

impl Stream {
    const NAMES: [(&'static str, Stream); 3] =
        [("All", Stream::All), ("Stderr", Stream::Stderr), ("Stdout", Stream::Stdout)];
}

impl LogOptions {
    /// `parameters`: names and values, decoded; what is named twice counts once, and what is left empty is not said.
    /// `pod` is whose log it is, for the refusals: 400 for what is no number or time, 422 for what is none that a log
    /// could have.
    pub fn read(parameters: &[(String, String)], pod: &str) -> Result<LogOptions, Status> {
        let said =
            |name: &str| parameters.iter().find(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str());
        let given = |name: &str| said(name).filter(|value| !value.is_empty());
        let number = |name: &str| given(name).map(whole).transpose().map_err(Status::bad_request);
        let (lines, bytes, seconds) = (number("tailLines")?, number("limitBytes")?, number("sinceSeconds")?);
        let time = given("sinceTime").map(moment).transpose().map_err(Status::bad_request)?;
        let stream = given("stream").map(|given| (given, Stream::NAMES.iter().find(|(name, _)| *name == given)));
        let mut problems = Vec::new();
        let below = |value: Option<i64>, least: i64, name: &str, why: &str| {
            value.filter(|value| *value < least).map(|value| Problem::invalid(&Path::new(name), value, why))
        };
        problems.extend(below(lines, 0, "tailLines", "must be greater than or equal to 0"));
        problems.extend(below(bytes, 1, "limitBytes", "must be greater than 0"));
        problems.extend(match time {
            Some(_) if seconds.is_some() => Some(Problem::forbidden(
                &Path::new("[]"),
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            )),
            _ => below(seconds, 1, "sinceSeconds", "must be greater than 0"),
        });
        if let Some((given, None)) = stream {
            let words = "supported values: \"All\", \"Stderr\", \"Stdout\"";
            problems.push(Problem::new(&Path::new("stream"), Reason::NotSupported, Some(given.into()), words));
        }
        let stream = stream.and_then(|(_, known)| known).map_or(Stream::All, |(_, stream)| *stream);
        // The engine counts the lines of both.
        if stream != Stream::All && lines.is_some() {
            problems.push(Problem::forbidden(
                &Path::new("[]"),
                "`tailLines` and specific `stream` are mutually exclusive for now",
            ));
        }
        if !problems.is_empty() {
            return Err(Status::invalid_of("", "PodLogOptions", pod, &problems));
        }
        let flag = |name: &str| said(name).is_some_and(truth);
        Ok(LogOptions {
            container: given("container").unwrap_or_default().to_owned(),
            follow: flag("follow"),
            previous: flag("previous"),
            timestamps: flag("timestamps"),
            tail_lines: lines.and_then(|lines| lines.try_into().ok()),
            since: time.map(Since::Time).or(seconds.map(Since::SecondsAgo)),
            bytes_max: bytes.and_then(|bytes| bytes.try_into().ok()),
            stream,
        })
    }

    /// As `read` reads it, but for the container, which the node's path names. Nothing in it needs an encoding.
    pub fn query(&self) -> String {
        let flag = |name: &str, is: bool| is.then(|| format!("{name}=true"));
        let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
        let since = self.since.map(|since| match since {
            Since::SecondsAgo(seconds) => format!("sinceSeconds={seconds}"),
            Since::Time(time) => format!("sinceTime={time}"),
        });
        let stream = Stream::NAMES.iter().find(|(_, stream)| *stream == self.stream && *stream != Stream::All);
        let parts = [
            flag("follow", self.follow),
            flag("previous", self.previous),
            number("tailLines", self.tail_lines),
            since,
            flag("timestamps", self.timestamps),
            number("limitBytes", self.bytes_max),
            stream.map(|(name, _)| format!("stream={name}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("&")
    }
}

fn moment(text: &str) -> Result<Time, String> {
    let seconds = canonical_time(text)?;
    Time::parse(&seconds).ok_or_else(|| format!("parsing time {text:?}: year out of range"))
}

/// A whole number, or Kubernetes' message for a bad number.
pub fn whole(value: &str) -> Result<i64, String> {
    value.parse().map_err(|error: ParseIntError| {
        let range = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
        let why = if range { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {value:?}: {why}")
    })
}

/// As Kubernetes reads it: all but 0 and false is true, the bare name too.
pub fn truth(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<LogOptions, Status> {
        let pair = |pair: &str| {
            pair.split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .unwrap_or((pair.to_owned(), String::new()))
        };
        LogOptions::read(&query.split('&').map(pair).collect::<Vec<_>>(), "p")
    }

    #[test]
    fn what_is_read_is_asked_on() {
        fn check(query: &str, asked: &str) {
            let options = read(query).unwrap();
            assert_eq!(options.query(), asked);
            assert_eq!(read(asked), Ok(LogOptions { container: String::new(), ..options }));
        }
        check("", "");
        check("follow&previous=1&timestamps=yes&tailLines=0", "follow=true&previous=true&tailLines=0&timestamps=true");
        check("follow=false&previous=0&timestamps=False&tailLines=&since=1&container=c", "");
        check("limitBytes=1&sinceSeconds=7&stream=Stderr", "sinceSeconds=7&limitBytes=1&stream=Stderr");
        check("sinceTime=2020-01-01T02:00:00.5%2B02:00".replace("%2B", "+").as_str(), "sinceTime=2020-01-01T00:00:00Z");
        check("tailLines=5&tailLines=x&stream=All", "tailLines=5");
    }

    #[test]
    fn refusals() {
        fn check(query: &str, code: u16, message: &str) {
            let status = read(query).expect_err(query);
            assert_eq!((status.code, status.message.as_str()), (code, message), "{query}");
        }
        check("tailLines=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax");
        check(
            "limitBytes=9223372036854775808",
            400,
            "strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
        );
        check(
            "sinceTime=x",
            400,
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        );
        let of = |rest: &str| format!("PodLogOptions \"p\" is invalid: {rest}");
        check("tailLines=-1", 422, &of("tailLines: Invalid value: -1: must be greater than or equal to 0"));
        check("limitBytes=0", 422, &of("limitBytes: Invalid value: 0: must be greater than 0"));
        check("sinceSeconds=0", 422, &of("sinceSeconds: Invalid value: 0: must be greater than 0"));
        let both = "sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z";
        check(both, 422, &of("[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"));
        check(
            "stream=stdout",
            422,
            &of("stream: Unsupported value: \"stdout\": supported values: \"All\", \"Stderr\", \"Stdout\""),
        );
        check(
            "stream=Stdout&tailLines=1",
            422,
            &of("[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"),
        );
    }
}
