//! The way from the root of a document to where a function is: made on the stack, turned into a path only when there is
//! something to say about it.

use crate::problem::Path;
use std::fmt::Write;

/// Documents nested deeper than this are refused; JSON itself is read to 128.
pub const DEPTH_MAX: usize = 100;

#[derive(Clone, Copy)]
pub enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

#[derive(Clone, Copy)]
pub struct Trail<'a> {
    before: Option<&'a Trail<'a>>,
    step: Step<'a>,
    pub depth: usize,
}

impl<'a> Trail<'a> {
    pub fn root() -> Trail<'static> {
        Trail { before: None, step: Step::Root, depth: 0 }
    }

    pub fn then(&'a self, step: Step<'a>) -> Trail<'a> {
        Trail { before: Some(self), step, depth: self.depth + 1 }
    }

    /// `spec.containers[0].image`
    pub fn path(&self) -> Path {
        let mut text = String::new();
        self.write(&mut text, false);
        Path::new(&text)
    }

    /// `spec.containers.image`: as Go's JSON names a field.
    pub fn fields(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, true);
        text
    }

    fn write(&self, into: &mut String, fields_only: bool) {
        if let Some(before) = self.before {
            before.write(into, fields_only);
        }
        match self.step {
            Step::Field(name) if into.is_empty() => into.push_str(name),
            Step::Field(name) => {
                into.push('.');
                into.push_str(name);
            }
            // Writing to a String cannot fail.
            Step::Index(at) if !fields_only => drop(write!(into, "[{at}]")),
            Step::Key(key) if !fields_only => drop(write!(into, "[{key}]")),
            Step::Root | Step::Index(_) | Step::Key(_) => {}
        }
    }
}
