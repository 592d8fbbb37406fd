//! PURE. The value of an expression.

use super::{Binary, Each, EachNode, Function, Node};
use serde_json::Value as Json;
use std::cmp::Ordering;

/// Nodes that are evaluated for one expression: lists of claims are as long as a token lets them be.
const STEPS_MAX: usize = 20_000;
/// Bytes of a text that an expression makes: no name is longer.
const TEXT_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Json(Json),
    /// Of `a.?b`: the value, or that there is none.
    Optional(Option<Json>),
}

/// The variables of an expression by name.
pub type Variables<'v> = &'v [(&'v str, &'v Json)];

pub fn evaluate(node: &Node, variables: Variables<'_>) -> Result<Value, String> {
    let scope = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())).collect();
    Run { scope, steps: 0 }.value(node)
}

struct Run {
    /// The innermost last.
    scope: Vec<(String, Json)>,
    steps: usize,
}

fn no_overload(of: &str) -> String {
    format!("no such overload: {of}")
}

impl Run {
    fn json(&mut self, node: &Node) -> Result<Json, String> {
        match self.value(node)? {
            Value::Json(value) => Ok(value),
            Value::Optional(_) => Err(no_overload("an optional value, which orValue() would make a value")),
        }
    }

    fn truth(&mut self, node: &Node) -> Result<bool, String> {
        self.json(node)?.as_bool().ok_or_else(|| no_overload("a truth is expected"))
    }

    fn text(&mut self, node: &Node) -> Result<String, String> {
        match self.json(node)? {
            Json::String(text) => Ok(text),
            _ => Err(no_overload("a text is expected")),
        }
    }

    fn value(&mut self, node: &Node) -> Result<Value, String> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(format!("it takes more than {STEPS_MAX} steps"));
        }
        let json = match node {
            Node::Constant(value) => value.clone(),
            Node::List(nodes) => Json::Array(nodes.iter().map(|node| self.json(node)).collect::<Result<Vec<_>, _>>()?),
            Node::Variable(name) => {
                let found = self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
                found.ok_or_else(|| format!("undeclared reference to {name:?}"))?
            }
            Node::Field(of, name) => return self.field(of, name),
            Node::OptionalField(of, name) => {
                return Ok(Value::Optional(match self.value(of)? {
                    Value::Json(of) => member(of, name)?,
                    Value::Optional(of) => of.map(|of| member(of, name)).transpose()?.flatten(),
                }));
            }
            Node::Index(of, at) => {
                let (of, at) = (self.json(of)?, self.json(at)?);
                indexed(of, &at)?
            }
            Node::Has(of, name) => match self.value(of)? {
                Value::Json(of) => member(of, name)?.is_some().into(),
                Value::Optional(of) => of.map(|of| member(of, name)).transpose()?.flatten().is_some().into(),
            },
            Node::Not(of) => (!self.truth(of)?).into(),
            Node::Negative(of) => {
                let number = self.json(of)?.as_i64().and_then(i64::checked_neg);
                number.ok_or_else(|| no_overload("-"))?.into()
            }
            Node::Binary(operator, one, other) => self.binary(*operator, one, other)?,
            Node::Choice(nodes) => {
                let [which, one, other] = &**nodes;
                return if self.truth(which)? { self.value(one) } else { self.value(other) };
            }
            Node::Call(function, arguments) => self.call(*function, arguments)?,
            Node::Each(each, of) => self.each(*each, of)?,
        };
        Ok(Value::Json(json))
    }

    fn field(&mut self, of: &Node, name: &str) -> Result<Value, String> {
        Ok(match self.value(of)? {
            Value::Json(of) => Value::Json(member(of, name)?.ok_or_else(|| format!("no such key: {name}"))?),
            // A field behind an optional field is optional, too.
            Value::Optional(of) => Value::Optional(of.map(|of| member(of, name)).transpose()?.flatten()),
        })
    }

    fn binary(&mut self, operator: Binary, one: &Node, other: &Node) -> Result<Json, String> {
        // An error on one side does not matter where the other side decides.
        if let Binary::And | Binary::Or = operator {
            let decides = operator == Binary::Or;
            let one = self.truth(one);
            if one == Ok(decides) {
                return Ok(decides.into());
            }
            let other = self.truth(other);
            return if other == Ok(decides) { Ok(decides.into()) } else { Ok(Json::Bool(one? && other?)) };
        }
        let (one, other) = (self.json(one)?, self.json(other)?);
        let ordered = |holds: fn(Ordering) -> bool| {
            compared(&one, &other).map(|order| holds(order).into()).ok_or_else(|| no_overload("a comparison"))
        };
        match operator {
            Binary::Equal => Ok(equal(&one, &other).into()),
            Binary::Unequal => Ok((!equal(&one, &other)).into()),
            Binary::Less => ordered(Ordering::is_lt),
            Binary::AtMost => ordered(Ordering::is_le),
            Binary::More => ordered(Ordering::is_gt),
            Binary::AtLeast => ordered(Ordering::is_ge),
            Binary::In => match (&one, &other) {
                (one, Json::Array(list)) => Ok(list.iter().any(|each| equal(one, each)).into()),
                (Json::String(key), Json::Object(map)) => Ok(map.contains_key(key).into()),
                _ => Err(no_overload("in")),
            },
            Binary::Plus => sum(one, other),
            Binary::Minus => match (one.as_i64(), other.as_i64(), one.as_f64(), other.as_f64()) {
                (Some(one), Some(other), ..) => {
                    one.checked_sub(other).map(Json::from).ok_or_else(|| "integer overflow".to_owned())
                }
                (_, _, Some(one), Some(other)) => Ok((one - other).into()),
                _ => Err(no_overload("-")),
            },
            Binary::And | Binary::Or => Err(no_overload("&& and ||")),
        }
    }

    fn call(&mut self, function: Function, arguments: &[Node]) -> Result<Json, String> {
        let argument = |at: usize| arguments.get(at).ok_or_else(|| no_overload("an argument is missing"));
        let of = argument(0)?;
        Ok(match function {
            Function::StartsWith => self.text(of)?.starts_with(&self.text(argument(1)?)?).into(),
            Function::EndsWith => self.text(of)?.ends_with(&self.text(argument(1)?)?).into(),
            Function::Contains => self.text(of)?.contains(&self.text(argument(1)?)?).into(),
            Function::LowerAscii => self.text(of)?.to_ascii_lowercase().into(),
            Function::UpperAscii => self.text(of)?.to_ascii_uppercase().into(),
            Function::Trim => self.text(of)?.trim().into(),
            Function::Split => {
                let (text, by) = (self.text(of)?, self.text(argument(1)?)?);
                match by.is_empty() {
                    true => text.chars().map(|letter| Json::from(letter.to_string())).collect(),
                    false => text.split(&by).map(Json::from).collect(),
                }
            }
            Function::Join => {
                let (list, by) = (self.json(of)?, self.text(argument(1)?)?);
                let texts: Option<Vec<&str>> =
                    list.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(Json::as_str).collect();
                let texts = texts.filter(|_| list.is_array()).ok_or_else(|| no_overload("join() of texts"))?;
                bounded(texts.join(&by))?.into()
            }
            Function::Replace => {
                let (text, from, to) = (self.text(of)?, self.text(argument(1)?)?, self.text(argument(2)?)?);
                if text.len().saturating_mul(to.len() + 1) > TEXT_BYTES_MAX << 4 {
                    return Err(format!("a text becomes longer than {TEXT_BYTES_MAX} bytes"));
                }
                bounded(text.replace(&from, &to))?.into()
            }
            Function::Size => match self.json(of)? {
                Json::String(text) => text.chars().count().into(),
                Json::Array(list) => list.len().into(),
                Json::Object(map) => map.len().into(),
                _ => return Err(no_overload("size()")),
            },
            Function::OrValue => match self.value(of)? {
                Value::Optional(Some(value)) => value,
                Value::Optional(None) => self.json(argument(1)?)?,
                Value::Json(_) => return Err(no_overload("orValue() of a value that is not optional")),
            },
            Function::HasValue => match self.value(of)? {
                Value::Optional(value) => value.is_some().into(),
                Value::Json(_) => return Err(no_overload("hasValue() of a value that is not optional")),
            },
        })
    }

    fn each(&mut self, each: Each, of: &EachNode) -> Result<Json, String> {
        let list = match self.json(&of.list)? {
            Json::Array(list) => list,
            Json::Object(map) if matches!(each, Each::All | Each::Exists) => {
                map.keys().cloned().map(Json::from).collect()
            }
            _ => return Err(no_overload("a list is expected")),
        };
        let (mut kept, mut error) = (Vec::new(), None);
        for element in list {
            self.scope.push((of.variable.clone(), element.clone()));
            let found = self.json(&of.body);
            self.scope.pop();
            match (each, found) {
                (Each::Map, found) => kept.push(found?),
                (_, Ok(Json::Bool(found))) => match each {
                    Each::All if !found => return Ok(false.into()),
                    Each::Exists if found => return Ok(true.into()),
                    Each::Filter if found => kept.push(element),
                    _ => {}
                },
                (Each::Filter, Ok(_)) => return Err(no_overload("a truth is expected")),
                (Each::Filter, Err(why)) => return Err(why),
                // A later element may decide.
                (_, Ok(_)) => error = Some(no_overload("a truth is expected")),
                (_, Err(why)) => error = Some(why),
            }
        }
        match (each, error) {
            (_, Some(why)) => Err(why),
            (Each::All, None) => Ok(true.into()),
            (Each::Exists, None) => Ok(false.into()),
            (Each::Filter | Each::Map, None) => Ok(Json::Array(kept)),
        }
    }
}

fn member(of: Json, name: &str) -> Result<Option<Json>, String> {
    match of {
        Json::Object(mut map) => Ok(map.remove(name)),
        _ => Err(no_overload(&format!("the field {name:?} of a value without fields"))),
    }
}

fn indexed(of: Json, at: &Json) -> Result<Json, String> {
    match (of, at) {
        (Json::Object(mut map), Json::String(key)) => map.remove(key).ok_or_else(|| format!("no such key: {key}")),
        (Json::Array(mut list), at) => {
            let at = at.as_u64().and_then(|at| usize::try_from(at).ok());
            let at = at.ok_or_else(|| "index out of bounds".to_owned())?;
            if at < list.len() { Ok(list.swap_remove(at)) } else { Err(format!("index out of bounds: {at}")) }
        }
        _ => Err(no_overload("[]")),
    }
}

fn equal(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(_), Json::Number(_)) => compared(one, other) == Some(Ordering::Equal),
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        _ => one == other,
    }
}

fn compared(one: &Json, other: &Json) -> Option<Ordering> {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
        },
        (Json::String(one), Json::String(other)) => Some(one.cmp(other)),
        (Json::Bool(one), Json::Bool(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

fn sum(one: Json, other: Json) -> Result<Json, String> {
    match (one, other) {
        (Json::String(one), Json::String(other)) => Ok(bounded(one + &other)?.into()),
        (Json::Array(mut one), Json::Array(other)) => {
            one.extend(other);
            Ok(Json::Array(one))
        }
        (one, other) => match (one.as_i64(), other.as_i64(), one.as_f64(), other.as_f64()) {
            (Some(one), Some(other), ..) => {
                one.checked_add(other).map(Json::from).ok_or_else(|| "integer overflow".to_owned())
            }
            (_, _, Some(one), Some(other)) => Ok((one + other).into()),
            _ => Err(no_overload("+")),
        },
    }
}

fn bounded(text: String) -> Result<String, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("a text becomes longer than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(text)
}
