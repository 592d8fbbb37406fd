//! A failure that is tried again and again: said once, again when its text changes, and once when it is over. PURE.

/// What is wrong now with one thing.
#[derive(Debug, Default)]
pub struct Trouble {
    now: Option<String>,
}

impl Trouble {
    /// How an attempt ended. `is_bad` says a failure that was not said yet, `is_well` that the failure is over.
    pub fn note(&mut self, result: Result<(), String>, is_bad: impl FnOnce(&str), is_well: impl FnOnce()) {
        let before = std::mem::replace(&mut self.now, result.err());
        match &self.now {
            Some(text) if before.as_ref() != Some(text) => is_bad(text),
            None if before.is_some() => is_well(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_failure_is_said_once() {
        let said = RefCell::new(Vec::new());
        let mut trouble = Trouble::default();
        for (result, expected) in [
            (Ok(()), None),
            (Err("a"), Some("a")),
            (Err("a"), None),
            (Err("b"), Some("b")),
            (Ok(()), Some("well")),
            (Ok(()), None),
            (Err("b"), Some("b")),
        ] {
            said.borrow_mut().clear();
            trouble.note(
                result.map_err(str::to_owned),
                |text| said.borrow_mut().push(text.to_owned()),
                || said.borrow_mut().push("well".to_owned()),
            );
            assert_eq!(said.borrow().first().map(String::as_str), expected, "{result:?}");
        }
    }
}
