//! PURE. Expressions about claims and users: the part of CEL, Kubernetes' language of expressions, that authentication
//! needs. An expression with anything else is refused when its file is read.
//!
//!     parse       text -> Expression
//!     evaluate    Expression, variables -> value, or why there is none
//!
//! Values are those of JSON. An error is no truth: a rule with an error refuses the token.

mod evaluate;
mod parse;

pub use evaluate::{Value, Variables};

/// Bytes of an expression: the longest of Kubernetes' pages has 100.
pub const BYTES_MAX: usize = 4096;
/// Levels of a tree: each takes some hundred bytes of the stack of a thread that checks credentials.
const LEVELS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Constant(serde_json::Value),
    List(Vec<Node>),
    Variable(String),
    Field(Box<Node>, String),
    /// `a.?b`.
    OptionalField(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    Has(Box<Node>, String),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Choice(Box<[Node; 3]>),
    Call(Function, Vec<Node>),
    Each(Each, Box<EachNode>),
}

/// A macro over the elements of a list.
#[derive(Clone, Debug, PartialEq)]
struct EachNode {
    list: Node,
    variable: String,
    body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    In,
    Plus,
    Minus,
}

/// The first argument is the value that a method is called of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    StartsWith,
    EndsWith,
    Contains,
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Replace,
    Size,
    OrValue,
    HasValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Each {
    All,
    Exists,
    Filter,
    Map,
}

impl Expression {
    /// `variable`: the name of the one variable. Error: what the text has that is not known here.
    pub fn parse(text: &str, variable: &str) -> Result<Expression, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("it has {} bytes, at most {BYTES_MAX}", text.len()));
        }
        let root = parse::parse(text, variable)?;
        match root.levels() {
            levels if levels > LEVELS_MAX => Err(format!("it is nested deeper than {LEVELS_MAX} levels")),
            _ => Ok(Expression { text: text.to_owned(), root }),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Error: why the expression has no value with these variables.
    pub fn evaluate(&self, variables: Variables<'_>) -> Result<Value, String> {
        evaluate::evaluate(&self.root, variables)
    }

    /// Whether the expression reads this field of the variable.
    pub fn reads(&self, variable: &str, field: &str) -> bool {
        self.root.any(&|node| match node {
            Node::Field(of, name) | Node::OptionalField(of, name) | Node::Has(of, name) => {
                name == field && **of == Node::Variable(variable.to_owned())
            }
            Node::Index(of, at) => **of == Node::Variable(variable.to_owned()) && **at == Node::Constant(field.into()),
            _ => false,
        })
    }
}

impl Node {
    fn inner(&self) -> Vec<&Node> {
        match self {
            Node::Constant(_) | Node::Variable(_) => Vec::new(),
            Node::List(nodes) | Node::Call(_, nodes) => nodes.iter().collect(),
            Node::Field(of, _) | Node::OptionalField(of, _) | Node::Has(of, _) => vec![of],
            Node::Not(of) | Node::Negative(of) => vec![of],
            Node::Index(one, two) | Node::Binary(_, one, two) => vec![one, two],
            Node::Choice(nodes) => nodes.iter().collect(),
            Node::Each(_, each) => vec![&each.list, &each.body],
        }
    }

    fn any(&self, holds: &dyn Fn(&Node) -> bool) -> bool {
        holds(self) || self.inner().into_iter().any(|node| node.any(holds))
    }

    fn levels(&self) -> usize {
        1 + self.inner().into_iter().map(Node::levels).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
