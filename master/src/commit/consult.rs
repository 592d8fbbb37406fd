//! Advisers outside this program, such as webhooks. They are asked about a draft while no lock is held, so one that
//! waits holds up nobody but the writer of this change.

use super::written::{Drafted, ReadBack};
use super::{Change, CommitError, Registry, Terms, Writer};
use crate::admit::{AdmissionRequest, Remarks};
use crate::prepare::Part;
use serde_json::Value;

/// May set fields of the document, or say why the change is forbidden. The document of a deletion is null.
pub(super) type Adviser = Box<dyn Fn(&AdmissionRequest<'_>, &mut Value) -> Result<(), String> + Send + Sync>;

/// In the order in which they are asked.
pub(super) fn advisers() -> Vec<Adviser> {
    Vec::new()
}

impl Registry {
    /// Asks every adviser. The server's own changes have no document, and nobody is asked about them. Nor about an
    /// object of the master itself: it is written in the middle of another change, whose locks are held.
    pub(super) fn consult<E>(
        &self,
        change: &Change<'_, E>,
        found: &ReadBack,
        draft: &mut Drafted<'_>,
        terms: &Terms<'_>,
    ) -> Result<(), CommitError<E>> {
        let (mut none, view) = (Value::Null, self.view());
        let (part, name, object) = match draft {
            _ if self.advisers.is_empty() || terms.writer == Writer::Master => return Ok(()),
            Drafted::Document { draft, .. } => (draft.part, draft.called(), &mut draft.object),
            Drafted::Ready(..) if change.deletes => (Part::Main, change.name.to_owned(), &mut none),
            Drafted::Ready(..) => return Ok(()),
        };
        let remarks = Remarks::default();
        let request = self.request(change, found, part, (&view, terms, &remarks));
        let advised = self.advisers.iter().try_for_each(|adviser| adviser(&request, object));
        advised.map_err(|why| CommitError::forbidden(name, why))
    }
}
