//! Label selectors: `app=web,tier in (a, b),!old`.

use crate::labels::LabelSet;
use crate::strategy::names;
use serde_json::Value;

/// The maximum number of values in the sets of a selector. Each value is compared with each object of a list; only
/// programs write sets this large.
pub const LABEL_VALUES_MAX: usize = 256;

/// How a selector is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// Set based, as Kubernetes parses it today.
    V1,
    /// v1beta1: parts of 2014 (`k=v`, `k==v`, `k!=v` with any value, empty parts ignored, `k=` for objects without the
    /// label too) and set based parts of 2015 side by side.
    Old,
}

/// All requirements hold. None: everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    /// Holds for what has no such label, too.
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
    /// As in 2014, where no label and an empty one were the same.
    Is(String),
    IsNot(String),
}

impl LabelSelector {
    pub fn parse(text: &str, grammar: Grammar) -> Result<LabelSelector, String> {
        let requirements = match grammar {
            Grammar::V1 => Parser::new(text, true).selector()?,
            Grammar::Old => old(text)?,
        };
        let values: usize = requirements.iter().map(|requirement| requirement.test.values()).sum();
        if values > LABEL_VALUES_MAX {
            return Err(format!("invalid label selector: {values} values, at most {LABEL_VALUES_MAX}"));
        }
        Ok(LabelSelector { requirements })
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn matches(&self, labels: &LabelSet) -> bool {
        self.matches_with(|key| labels.get(key))
    }

    /// Against `metadata.labels` of a document.
    pub fn matches_document(&self, document: &Value) -> bool {
        let labels = &document["metadata"]["labels"];
        self.matches_with(|key| labels.get(key).and_then(Value::as_str))
    }

    fn matches_with<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.holds(value_of(&requirement.key)))
    }
}

impl Test {
    /// With how many a label is compared.
    fn values(&self) -> usize {
        match self {
            Test::Exists | Test::Missing => 0,
            Test::In(values) | Test::NotIn(values) => values.len(),
            Test::Above(_) | Test::Below(_) | Test::Is(_) | Test::IsNot(_) => 1,
        }
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Test::Above(limit) => number().is_some_and(|number| number > *limit),
            Test::Below(limit) => number().is_some_and(|number| number < *limit),
            Test::Is(wanted) => value.unwrap_or_default() == wanted,
            Test::IsNot(unwanted) => value.unwrap_or_default() != unwanted,
        }
    }
}

/// Parts between commas: those with `=` as in 2014, others as today.
fn old(text: &str) -> Result<Vec<Requirement>, String> {
    let mut requirements = Vec::new();
    for part in outer_parts(text) {
        let two = |(key, value): (&str, &str)| (key.trim().to_owned(), value.trim().to_owned());
        if part.trim().is_empty() {
            continue;
        } else if let Some((key, value)) = part.split_once("!=").map(two) {
            requirements.push(Requirement { key, test: Test::IsNot(value) });
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')).map(two) {
            requirements.push(Requirement { key, test: Test::Is(value) });
        } else {
            let refused = |why| format!("invalid selector: '{text}'; can't understand '{part}': {why}");
            requirements.extend(Parser::new(part, false).selector().map_err(refused)?);
        }
    }
    Ok(requirements)
}

/// Split at the commas that stand in no parentheses.
fn outer_parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    text.split(move |c| {
        depth = (depth + i32::from(c == '(') - i32::from(c == ')')).max(0);
        c == ',' && depth == 0
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    End,
    /// `(`, `)`, `,`, `!`, `=`, `==`, `!=`, `<`, `>`.
    Symbol(&'a str),
    Word(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Symbol(text) | Token::Word(text) => text,
        }
    }
}

/// The grammar of today.
struct Parser<'a> {
    rest: &'a str,
    /// Whether names must be good ones.
    strict: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, strict: bool) -> Parser<'a> {
        Parser { rest: text, strict }
    }

    /// The next token, and what is left behind it.
    fn split(&self) -> (Token<'a>, &'a str) {
        let rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let word = rest.find(|c| " \t\r\n()!=<>,".contains(c)).unwrap_or(rest.len());
        if word > 0 {
            return (Token::Word(&rest[..word]), &rest[word..]);
        }
        let symbol =
            ["==", "!=", "=", "!", "(", ")", ",", "<", ">"].into_iter().find(|symbol| rest.starts_with(symbol));
        symbol.map_or((Token::End, rest), |symbol| (Token::Symbol(&rest[..symbol.len()]), &rest[symbol.len()..]))
    }

    fn peek(&self) -> Token<'a> {
        self.split().0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, rest) = self.split();
        self.rest = rest;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                Token::End => return Ok(requirements),
                other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text())),
            }
            requirements.push(self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut first = self.next();
        let missing = first == Token::Symbol("!");
        if missing {
            first = self.next();
        }
        let Token::Word(key) = first else { return Err(format!("found '{}', expected: identifier", first.text())) };
        self.good_key(key)?;
        let key = key.to_owned();
        if missing {
            return Ok(Requirement { key, test: Test::Missing });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let test = match self.next() {
            Token::Word("in") => Test::In(self.values()?),
            Token::Word("notin") => Test::NotIn(self.values()?),
            Token::Symbol("=" | "==") => Test::In(vec![self.value()?]),
            Token::Symbol("!=") => Test::NotIn(vec![self.value()?]),
            Token::Symbol(">") => Test::Above(self.number()?),
            Token::Symbol("<") => Test::Below(self.number()?),
            other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        };
        if let Test::In(values) | Test::NotIn(values) = &test {
            self.good_values(&key, values)?;
        }
        Ok(Requirement { key, test })
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        let refused =
            |_| format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer");
        value.parse().map_err(refused)
    }

    /// `(a, b)`; an empty place is the empty value.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        if !matches!(self.peek(), Token::Word(_) | Token::Symbol(")" | ",")) {
            return Err(format!("found '{}', expected: ',', ')' or identifier", self.peek().text()));
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.next();
                    value
                }
                Token::Symbol("," | ")") => "",
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            };
            values.push(value.to_owned());
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }

    fn good_key(&self, key: &str) -> Result<(), String> {
        match names::qualified(key).first() {
            Some(fault) if self.strict => Err(format!("<nil>: Invalid value: {key:?}: {fault}")),
            _ => Ok(()),
        }
    }

    fn good_values(&self, key: &str, values: &[String]) -> Result<(), String> {
        for (at, value) in values.iter().enumerate().filter(|_| self.strict) {
            if let Some(fault) = names::label_value(value).first() {
                return Err(format!("values[{at}][{key}]: Invalid value: {value:?}: {fault}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The five objects of the recorded conversation `list/label-selectors`.
    fn objects() -> Vec<LabelSet> {
        [&[("env", "prod"), ("even", "true"), ("n", "0")][..], &[("env", "dev"), ("even", "false"), ("n", "1")]]
            .into_iter()
            .chain([
                &[("env", "test"), ("even", "true"), ("n", "2")][..],
                &[("env", "prod"), ("even", "false"), ("n", "3")],
                &[],
            ])
            .map(|labels| labels.iter().copied().collect())
            .collect()
    }

    fn check(text: &str, grammar: Grammar, expected: &[usize]) {
        let selector = LabelSelector::parse(text, grammar).unwrap();
        let found: Vec<usize> =
            objects().iter().enumerate().filter(|(_, labels)| selector.matches(labels)).map(|(n, _)| n).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn selected_by_both_grammars() {
        for (text, expected) in [
            ("", &[0, 1, 2, 3, 4][..]),
            ("env=prod", &[0, 3]),
            ("env==prod", &[0, 3]),
            ("env!=prod", &[1, 2, 4]),
            ("env in (prod,dev)", &[0, 1, 3]),
            ("env notin (prod)", &[1, 2, 4]),
            ("env", &[0, 1, 2, 3]),
            ("!env", &[4]),
            ("env=prod,even=true", &[0]),
            ("n>1", &[2, 3]),
            ("n<2", &[0, 1]),
            (" env = prod ", &[0, 3]),
            ("n in (1, 2 ,3),even!=true", &[1, 3]),
            ("x", &[]),
            ("!x", &[0, 1, 2, 3, 4]),
            ("env in ()", &[]),
        ] {
            check(text, Grammar::V1, expected);
            check(text, Grammar::Old, expected);
        }
    }

    #[test]
    fn values_have_a_limit() {
        for (values, taken) in [(LABEL_VALUES_MAX, true), (LABEL_VALUES_MAX + 1, false)] {
            let set: Vec<String> = (1..values).map(|at| format!("v{at}")).collect();
            for grammar in [Grammar::V1, Grammar::Old] {
                let text = format!("a notin ({}),b=c", set.join(","));
                assert_eq!(LabelSelector::parse(&text, grammar).is_ok(), taken, "{values}");
            }
        }
    }

    #[test]
    fn where_2014_differs() {
        check("env=", Grammar::V1, &[]);
        check("env=", Grammar::Old, &[4]);
        check("env!=", Grammar::Old, &[0, 1, 2, 3]);
        check("env=prod,,even=true", Grammar::Old, &[0]);
        check("env=a b/c", Grammar::Old, &[]);
    }

    #[test]
    fn names_are_checked_today_and_were_not_in_2014() {
        for (text, start) in [
            (
                "-a=b",
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric \
                 characters, ",
            ),
            (
                "a=/",
                "unable to parse requirement: values[0][a]: Invalid value: \"/\": a valid label must be an empty \
                 string or consist of",
            ),
        ] {
            let why = LabelSelector::parse(text, Grammar::V1).unwrap_err();
            assert!(why.starts_with(start), "{text}: {why}");
            assert!(LabelSelector::parse(text, Grammar::Old).is_ok(), "{text}");
        }
    }

    #[test]
    fn refused_with_the_words_of_kubernetes() {
        for (text, expected) in [
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
                 must be an integer",
            ),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
        ] {
            assert_eq!(LabelSelector::parse(text, Grammar::V1), Err(expected.to_owned()), "{text}");
        }
    }
}
