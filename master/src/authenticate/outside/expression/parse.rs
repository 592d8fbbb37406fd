//! PURE. The text of an expression becomes a tree, by the grammar of CEL.

use super::{Binary, Each, EachNode, Function, Node};
use serde_json::Value;

/// Brackets in each other, and operators behind each other.
const DEPTH_MAX: usize = 32;
/// Parts of a chain such as `a.b.c`, or of a list.
const PARTS_MAX: usize = 128;
/// The fields of the variable `user`.
const USER_FIELDS: [&str; 4] = ["username", "uid", "groups", "extra"];
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// By name, with the number of arguments besides the value that the method is called of.
const METHODS: [(&str, usize, Function); 12] = [
    ("startsWith", 1, Function::StartsWith),
    ("endsWith", 1, Function::EndsWith),
    ("contains", 1, Function::Contains),
    ("lowerAscii", 0, Function::LowerAscii),
    ("upperAscii", 0, Function::UpperAscii),
    ("trim", 0, Function::Trim),
    ("split", 1, Function::Split),
    ("join", 1, Function::Join),
    ("replace", 2, Function::Replace),
    ("size", 0, Function::Size),
    ("orValue", 1, Function::OrValue),
    ("hasValue", 0, Function::HasValue),
];
const MACROS: [(&str, Each); 4] =
    [("all", Each::All), ("exists", Each::Exists), ("filter", Each::Filter), ("map", Each::Map)];

/// Operators by how loosely they bind.
const LEVELS: [&[(&str, Binary)]; 4] = [
    &[("||", Binary::Or)],
    &[("&&", Binary::And)],
    &[
        ("==", Binary::Equal),
        ("!=", Binary::Unequal),
        ("<=", Binary::AtMost),
        (">=", Binary::AtLeast),
        ("<", Binary::Less),
        (">", Binary::More),
        ("in", Binary::In),
    ],
    &[("+", Binary::Plus), ("-", Binary::Minus)],
];

pub fn parse(text: &str, variable: &str) -> Result<Node, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, variables: vec![variable.to_owned()], depth: 0 };
    let node = parser.choice()?;
    match parser.peek() {
        None => Ok(node),
        Some(token) => Err(format!("{} is not expected", token.said())),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Constant(Value),
    Sign(&'static str),
}

impl Token {
    fn said(&self) -> String {
        match self {
            Token::Name(name) => format!("{name:?}"),
            Token::Constant(value) => value.to_string(),
            Token::Sign(sign) => format!("{sign:?}"),
        }
    }
}

/// Longer signs first.
const SIGNS: [&str; 22] = [
    "||", "&&", "==", "!=", "<=", ">=", ".?", "<", ">", "!", "+", "-", ".", ",", "(", ")", "[", "]", "?", ":", "{", "}",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let end = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                found.push(match &rest[..end] {
                    "true" => Token::Constant(true.into()),
                    "false" => Token::Constant(false.into()),
                    "null" => Token::Constant(Value::Null),
                    name => Token::Name(name.to_owned()),
                });
                end
            }
            '0'..='9' => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                if rest[end..].starts_with(|c: char| c.is_ascii_alphabetic()) {
                    return Err(format!("a number like {:?} is not known here", &rest[..end + 1]));
                }
                let number: i64 = rest[..end].parse().map_err(|_| format!("{} is too large", &rest[..end]))?;
                found.push(Token::Constant(number.into()));
                end
            }
            '"' | '\'' => {
                let (text, end) = quoted(rest, first)?;
                found.push(Token::Constant(text.into()));
                end
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let sign = sign.ok_or_else(|| format!("{first:?} is not known here"))?;
                found.push(Token::Sign(sign));
                sign.len()
            }
        };
        rest = rest[end..].trim_start();
    }
    Ok(found)
}

/// The text in quotes, and the bytes that it takes with its quotes.
fn quoted(rest: &str, quote: char) -> Result<(String, usize), String> {
    let (mut text, mut letters) = (String::new(), rest.char_indices().skip(1));
    while let Some((at, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return Ok((text, at + 1)),
            '\\' => match letters.next() {
                Some((_, escaped @ ('\\' | '"' | '\'' | '`' | '?'))) => text.push(escaped),
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, other)) => return Err(format!("the escape \\{other} is not known here")),
                None => break,
            },
            _ => text.push(letter),
        }
    }
    Err("a text has no end".to_owned())
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    /// Those that are known at this place.
    variables: Vec<String>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = match self.peek() {
            Some(Token::Sign(next)) => *next == sign,
            Some(Token::Name(name)) => sign == "in" && name == "in",
            _ => false,
        };
        self.at += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, sign: &str) -> Result<(), String> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(match self.peek() {
                Some(token) => format!("{sign:?} is expected before {}", token.said()),
                None => format!("{sign:?} is expected at the end"),
            }),
        }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            Some(token) => Err(format!("a name is expected before {}", token.said())),
            None => Err("a name is expected at the end".to_owned()),
        }
    }

    fn choice(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX} levels"));
        }
        let mut node = self.binary(0)?;
        if self.takes("?") {
            let one = self.binary(0)?;
            self.needs(":")?;
            let other = self.choice()?;
            node = Node::Choice(Box::new([node, one, other]));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn binary(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut node = self.binary(level + 1)?;
        for _ in 0..=PARTS_MAX {
            let Some((_, operator)) = operators.iter().find(|(sign, _)| self.takes(sign)) else { return Ok(node) };
            node = Node::Binary(*operator, Box::new(node), Box::new(self.binary(level + 1)?));
        }
        Err(format!("it has more than {PARTS_MAX} operators behind each other"))
    }

    fn unary(&mut self) -> Result<Node, String> {
        if self.takes("!") {
            // Twice is allowed, and a line of thousands would only use up the stack.
            return Ok(match self.takes("!") {
                true => Node::Not(Box::new(Node::Not(Box::new(self.member()?)))),
                false => Node::Not(Box::new(self.member()?)),
            });
        }
        match self.takes("-") {
            true => Ok(Node::Negative(Box::new(self.member()?))),
            false => self.member(),
        }
    }

    fn member(&mut self) -> Result<Node, String> {
        let mut node = self.primary()?;
        for _ in 0..PARTS_MAX {
            if self.takes(".?") {
                node = Node::OptionalField(Box::new(node), self.name()?);
            } else if self.takes(".") {
                let name = self.name()?;
                node = match self.takes("(") {
                    true => self.method(node, &name)?,
                    false => field(node, name)?,
                };
            } else if self.takes("[") {
                let at = self.choice()?;
                self.needs("]")?;
                node = match (&node, at) {
                    (Node::Variable(name), Node::Constant(Value::String(field))) if name == "user" => {
                        self::field(node, field)?
                    }
                    (_, at) => Node::Index(Box::new(node), Box::new(at)),
                };
            } else {
                return Ok(node);
            }
        }
        Err(format!("it has a chain of more than {PARTS_MAX} parts"))
    }

    fn primary(&mut self) -> Result<Node, String> {
        if self.takes("(") {
            let node = self.choice()?;
            self.needs(")")?;
            return Ok(node);
        }
        if self.takes("[") {
            return Ok(Node::List(self.arguments("]")?));
        }
        match self.peek().cloned() {
            Some(Token::Constant(value)) => {
                self.at += 1;
                Ok(Node::Constant(value))
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                match self.takes("(") {
                    true => self.function(&name),
                    false if self.variables.contains(&name) => Ok(Node::Variable(name)),
                    false => Err(format!("undeclared reference to {name:?}: {} is known", self.variables.join(", "))),
                }
            }
            Some(token) => Err(format!("{} is not expected", token.said())),
            None => Err("it ends too early".to_owned()),
        }
    }

    fn function(&mut self, name: &str) -> Result<Node, String> {
        let mut arguments = self.arguments(")")?;
        match (name, arguments.len()) {
            ("has", 1) => match arguments.pop() {
                Some(Node::Field(of, field)) => Ok(Node::Has(of, field)),
                _ => Err("has() takes a field, like has(claims.email)".to_owned()),
            },
            ("size", 1) => Ok(Node::Call(Function::Size, arguments)),
            _ => Err(format!("the function {name}() is not known here")),
        }
    }

    fn method(&mut self, of: Node, name: &str) -> Result<Node, String> {
        if let Some((_, each)) = MACROS.iter().find(|(known, _)| *known == name) {
            return self.each(of, *each);
        }
        let mut arguments = vec![of];
        arguments.extend(self.arguments(")")?);
        let known = METHODS.iter().find(|(known, takes, _)| *known == name && takes + 1 == arguments.len());
        let (_, _, function) = known.ok_or_else(|| format!("the function {name}() is not known here"))?;
        Ok(Node::Call(*function, arguments))
    }

    /// `list.all(x, x > 1)`, behind the bracket.
    fn each(&mut self, list: Node, each: Each) -> Result<Node, String> {
        let variable = self.name()?;
        if RESERVED.contains(&variable.as_str()) || self.variables.contains(&variable) {
            return Err(format!("{variable:?} cannot be the name of a variable here"));
        }
        self.needs(",")?;
        self.variables.push(variable.clone());
        let body = self.choice();
        self.variables.pop();
        let body = body?;
        self.needs(")")?;
        Ok(Node::Each(each, Box::new(EachNode { list, variable, body })))
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Node>, String> {
        let mut arguments = Vec::new();
        if self.takes(end) {
            return Ok(arguments);
        }
        while arguments.len() < PARTS_MAX {
            arguments.push(self.choice()?);
            if self.takes(end) {
                return Ok(arguments);
            }
            self.needs(",")?;
        }
        Err(format!("it has a list of more than {PARTS_MAX} parts"))
    }
}

/// Of a user only some fields are known, of claims any.
fn field(of: Node, name: String) -> Result<Node, String> {
    if of == Node::Variable("user".to_owned()) && !USER_FIELDS.contains(&name.as_str()) {
        return Err(format!("undefined field {name:?} of user: {} are known", USER_FIELDS.join(", ")));
    }
    Ok(Node::Field(Box::new(of), name))
}
